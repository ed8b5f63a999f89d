"""Two processes that take turns give what one process gives."""

from pathlib import Path

import pytest
from big_trace import write_big_trace
from make_trace import allocation, annotation, kernel, launch, op, write_trace
from same_trace import differences

from longpole.analyze.load import load, load_run
from longpole.analyze.loading.parallel import half, joined, read_by_two
from longpole.analyze.loading.streams import LARGEST_BYTES, ordinary_file
from longpole.analyze.trace import Trace


def in_turns(path: Path) -> tuple[Trace, ...]:
    """Both halves in this process, put together; nothing where one does not decode."""
    from longpole.analyze.load import _read_once, _source
    from longpole.analyze.loading.producers import producer_of
    from longpole.analyze.loading.reading import Findings
    from longpole.analyze.loading.tables import Read, traces_of

    file = ordinary_file(path)
    halves = [half(file, LARGEST_BYTES, parity) for parity in (0, 1)]
    if halves[0] is None or halves[1] is None:
        return ()
    both = joined(halves[0], halves[1])
    assert _read_once(file, LARGEST_BYTES, None, raw_backslashes=False).header == both.header
    read = Read(file.name, both.header, both.collected, Findings(), both.reading, producer_of(both.header, both.collected))
    return traces_of(read, _source(read))


def mixed(count: int) -> list[dict]:
    """Events of all tables, their names and ids first seen all over the file."""
    made = []
    for i in range(count):
        made += [
            annotation(f"step {i // 100}", i, i + 0.5),
            op(
                f"aten::op{i % 301}",
                i,
                i + 0.3,
                tid=i % 3,
                **{"External id": i, "Input Dims": [[i % 7]], "Input type": ["float"]},
            ),
            launch(i, i + 0.1, i + 0.2),
            kernel(f"kernel{i % 97}", i, i + 0.4, correlation=i, grid=[i % 5, 1, 1], stream=i % 4),
            allocation(i, 64),
            {"ph": "B", "cat": "cpu_op", "name": f"begun{i % 11}", "pid": 1, "tid": 9, "ts": i},
            {"ph": "E", "pid": 1, "tid": 9, "ts": i + 0.25},
        ]
    return made


@pytest.mark.parametrize("count", [10, 3000], ids=["one chunk", "many chunks"])
def test_two_halves_are_the_whole(tmp_path: Path, count: int):
    path = write_trace(tmp_path / "trace.json", mixed(count))
    (found,) = in_turns(path)
    whole = load(path)
    assert set(differences(found, whole)) <= {"warnings", "source"}
    assert len(whole.host) == 4 * count


def test_halves_of_a_merged_file_tell_its_ranks_apart(tmp_path: Path):
    ranks = [[{**event, "pid": f"[TP{rank:02}] {event['pid']}"} for event in mixed(1500)] for rank in (0, 1)]
    path = write_trace(tmp_path / "trace.json", *ranks)
    found = in_turns(path)
    assert [trace.source.rank_name for trace in found] == ["TP00", "TP01"]
    for both, whole in zip(found, load_run([path]), strict=True):
        assert set(differences(both, whole)) <= {"warnings", "source"}


def test_another_tools_trace_is_put_together_too(tmp_path: Path):
    events = [
        {"ph": "X", "name": f"span{i % 50}", "cat": f"cat{i % 3}", "pid": 1, "tid": i % 2, "ts": i, "dur": 0.5}
        for i in range(9000)
    ]
    events += [{"ph": ph, "cat": "c", "name": "a", "id": i, "pid": 1, "tid": 1, "ts": i} for i in range(4000) for ph in "be"]
    path = write_trace(tmp_path / "trace.json", events, schemaVersion=None)
    (found,) = in_turns(path)
    assert set(differences(found, load(path))) <= {"warnings", "source"}
    assert len(found.slices) == 13_000


@pytest.mark.parametrize("bad", ['a "quoted" name', r"C:\new"])
def test_a_file_that_needs_repair_is_left_to_one_process(tmp_path: Path, bad: str):
    path = write_trace(tmp_path / "trace.json", [op("PLACEHOLDER", 0, 1), *mixed(2000)])
    path.write_text(path.read_text(encoding="utf-8").replace("PLACEHOLDER", bad), encoding="utf-8")
    assert not in_turns(path)
    assert load(path, processes=2).names[0] == bad


def test_two_real_processes_read_a_long_packed_file(tmp_path: Path):
    path = tmp_path / "trace.json.gz"
    write_big_trace(path, steps=20, gzip=True)
    both = read_by_two(ordinary_file(path), LARGEST_BYTES, None)
    assert both is not None
    whole = load(path)
    assert both.reading.sha256 == whole.source.files[0].sha256
    assert both.collected.total == whole.coverage.total
    assert list(both.collected.names) == list(whole.names)
