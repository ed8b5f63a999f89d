"""A file into which several ranks were merged is read as the files of its ranks are."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from make_trace import Event, allocation, annotation, frame, kernel, launch, loop, make_trace, op, write_trace
from same_trace import differences

from longpole.analyze.analyses.op_table import op_table
from longpole.analyze.links import launching_call
from longpole.analyze.load import load, load_run
from longpole.analyze.trace import Trace
from longpole.capture.errors import BundleError
from longpole.reports.cli import cli


def of(rank: str, *events: Event) -> list[Event]:
    """As those who merge files write it."""
    return [{**event, "pid": f"[{rank}] {event['pid']}"} for event in events]


def work(name: str, took: float) -> list[Event]:
    """An operator that launches a kernel; the ids are the same in every rank."""
    ids: dict[str, Any] = {"External id": 5, "correlation": 5}
    return [
        op(name, 0, 50, **{"External id": 5, "Sequence number": 0}),
        launch(5, 10, 15, **{"External id": 5}),
        kernel("k_" + name, 60, 60 + took, **ids),
    ]


MERGED = [*of("TP10", *work("aten::add", 20)), *of("TP2", *work("aten::mm", 100))]


@pytest.fixture
def apart(tmp_path: Path):
    """The ranks of one file of these events."""
    return lambda *events, **top_level: load_run([write_trace(tmp_path / "merged.json", *events, **top_level)])


def said(*arguments: str) -> str:
    done = CliRunner().invoke(cli, [*arguments, "--processes", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def device_time(trace: Trace) -> dict[str, int]:
    return op_table(trace).rows.set_index("name")["device_ns"].to_dict()


def test_each_rank_is_a_trace_with_its_own_links(apart):
    first, second = apart(MERGED)
    assert [(trace.source.rank, trace.source.rank_name) for trace in (first, second)] == [(2, "TP2"), (10, "TP10")]
    assert [launching_call(trace).tolist() for trace in (first, second)] == [[1], [1]]
    assert [device_time(trace)[name] for trace, name in ((first, "aten::mm"), (second, "aten::add"))] == [100_000, 20_000]
    assert [trace.device.device.tolist() for trace in (first, second)] == [[0], [0]]
    assert [trace.window_ns for trace in (first, second)] == [160_000, 80_000]


def training(slower: float) -> list[Event]:
    """Three steps of an operator, a kernel and a collective, which the slower rank reaches later."""

    def part(start: float, end: float) -> list[Event]:
        number = int(start)
        named = {"Process Group Name": "dp", "Collective name": "allreduce"}
        return [
            annotation("forward", start + 1, start + 90),
            frame("train.py(3): step", start + 1, start + 95),
            op("aten::mm", start + 2, start + 40, **{"External id": number + 1, "Input Dims": [[2, 3], [3, 2]]}),
            launch(number + 1, start + 5, start + 10, **{"External id": number + 1}),
            kernel("gemm", start + 20, start + 40 + slower, correlation=number + 1),
            kernel("ncclDevKernel_AllReduce", start + 40 + slower, start + 90, 20, correlation=number + 2, **named),
            allocation(start + 3, 64),
        ]

    return loop([100, 100, 100], part)


TRAINING = [training(0), training(30)]


def by_time(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event["ts"])


@pytest.mark.parametrize("order", [list, by_time], ids=["one rank after the other", "by time"])
def test_all_that_is_said_is_said_as_of_the_files_apart(tmp_path: Path, order):
    for rank, events in enumerate(TRAINING):
        write_trace(tmp_path / f"rank{rank}.json", events)
    merged = [event for rank, events in enumerate(TRAINING) for event in of(f"TP{rank}", *events)]
    write_trace(tmp_path / "merged.json", order(merged))
    whole = json.loads(said("summary", str(tmp_path / "merged.json"), "--json"))
    files = json.loads(said("summary", str(tmp_path / "rank*.json"), "--json"))
    for part in ("ops", "kernels", "steps", "devices", "streams", "phases", "idle", "ranks", "verdict", "warnings", "withheld"):
        assert whole[part] == files[part], part
    by_op = whole["measures"].pop("device_time_us_by_op"), files["measures"].pop("device_time_us_by_op")
    assert whole["measures"] == files["measures"]
    assert [row["rank"] for row in whole["steps"]] == [0, 0, 0, 1, 1, 1]
    assert whole["measures"]["step_count"] == {"0": 3, "1": 3}
    assert by_op[0]["aten::mm"] == sum(rank["aten::mm"] for rank in by_op[1].values()) == 3 * (20 + 50)
    assert whole["measures"]["late_rank"] == 1


def test_events_are_counted_once_for_the_file(tmp_path: Path):
    broken = [{**op("bad", 1, 2), "dur": -1}, {"ph": "M", "name": "process_name", "pid": "[TP2] 100", "args": {}}]
    path = write_trace(tmp_path / "merged.json", MERGED, of("TP2", *broken[:1]), broken[1:])
    found = json.loads(said("summary", str(path), "--json"))
    events = {name: found["coverage"][f"events_{name}"] for name in ("total", "used", "ignored", "dropped")}
    assert events == {"total": 8, "used": 6, "ignored": 1, "dropped": 1}
    assert found["coverage"]["negative_dur"] == found["measures"]["negative_dur"] == 1
    assert [(warning["code"], warning["rank"]) for warning in found["warnings"]] == [("negative_dur", None)]
    assert [file["name"] for file in found["source"]["files"]] == ["merged.json"]
    assert (found["source"]["rank_ids"], found["source"]["rank_names"]) == ([2, 10], ["TP2", "TP10"])


@pytest.mark.parametrize("prefix", ["rank{} ", "rank {}: ", "Rank_{} "])
def test_a_rank_can_stand_without_brackets(apart, prefix: str):
    both = [(0, work("aten::mm", 100)), (1, work("aten::add", 20))]
    named = [[{**event, "pid": prefix.format(rank) + str(event["pid"])} for event in events] for rank, events in both]
    first, second = apart(*named)
    assert (device_time(first)["aten::mm"], device_time(second)["aten::add"]) == (100_000, 20_000)
    assert [first.source.rank, second.source.rank] == [0, 1]


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (("TP03", "TP07"), [3, 7]),
        (("TP00-DP00", "TP00-DP01"), [0, 1]),  # several numbers: which of them is the rank is not known
        (("decode", "prefill"), [0, 1]),
        (("DP1", "TP1", "TP2"), [0, 1, 2]),
    ],
)
def test_a_rank_has_the_number_in_its_name_or_its_place(apart, names: tuple[str, ...], numbers: list[int]):
    found = apart(*(of(name, op("a", 0, 10)) for name in names), distributedInfo={"rank": 5, "world_size": 8})
    assert [trace.source.rank_name for trace in found] == list(names)
    assert [trace.source.rank for trace in found] == numbers


def test_events_without_a_rank_are_one_of_their_own_and_the_last(apart):
    found = apart(MERGED, work("aten::mul", 7))
    assert [(trace.source.rank, trace.source.rank_name) for trace in found] == [(0, "TP2"), (1, "TP10"), (2, "")]
    assert device_time(found[2])["aten::mul"] == 7_000
    assert [[(w.code, w.count) for w in trace.warnings] for trace in found] == [[("events_without_rank", 3)]] * 3


def test_gpu_rows_that_name_no_rank_are_linked_to_none(apart):
    ranks = [[event if event["cat"] == "kernel" else of(rank, event)[0] for event in work("a", 20)] for rank in ("TP0", "TP1")]
    first, second, rest = apart(*ranks)
    assert [len(trace.device) for trace in (first, second, rest)] == [0, 0, 2]
    assert launching_call(rest).tolist() == [-1, -1]
    assert "events_without_rank" in [warning.code for warning in first.warnings]


def test_a_rank_of_which_nothing_takes_time_is_ignored(apart):
    (trace,) = apart(of("TP0", *work("aten::mm", 100)), of("TP1", op("a", 0, 0)))
    assert (trace.source.rank, trace.source.rank_name, trace.coverage.ignored) == (None, "", 1)
    with pytest.raises(BundleError, match=r"no timed events of torch\.profiler \(of 2 events\)"):
        apart(of("TP0", op("a", 0, 0)), of("TP1", op("a", 0, 0)))


def test_kernels_without_a_time_are_of_their_rank(apart):
    lost = {**kernel("lost", 0, 0), "ts": -5_000_000}  # 0 in the file
    first, second = apart(of("TP0", *work("aten::mm", 100)), of("TP1", *work("aten::mm", 100), lost))
    assert (dict(first.untimed_kernels), dict(second.untimed_kernels)) == ({}, {0: 1})
    assert first.coverage.health == {"zero_timestamp_events": 1}


def test_a_cut_concerns_the_rank_it_cuts(tmp_path: Path):
    path = write_trace(tmp_path / "merged.json", *(of(f"TP{rank}", *events) for rank, events in enumerate(TRAINING)))
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("ProfilerStep#2") + 40], encoding="utf-8")
    first, second = load_run([path])
    assert first.whole_steps == ("ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2")
    assert second.whole_steps is not None
    assert "ProfilerStep#2" not in second.whole_steps
    assert first.coverage.total == second.coverage.total


@pytest.mark.parametrize("events", [work("aten::mm", 100), of("TP00", *work("aten::mm", 100))])
def test_one_rank_is_one_trace(events: list[Event]):
    trace = make_trace(events)
    assert (trace.source.rank, trace.source.rank_name) == (None, "")
    assert device_time(trace)["aten::mm"] == 100_000


def test_load_which_gives_one_trace_refuses_several(tmp_path: Path):
    with pytest.raises(BundleError, match=r"merged.json holds 2 ranks, merged into one file"):
        load(write_trace(tmp_path / "merged.json", MERGED))


def test_damaged_events_do_not_make_a_merged_file_that_of_two_writers(tmp_path: Path):
    text = write_trace(tmp_path / "whole.json", MERGED).read_text(encoding="utf-8")
    (tmp_path / "damaged.json").write_text(text.replace('"cat": "cuda_runtime"', '"cat": cuda_runtime'), encoding="utf-8")
    first, second = load_run([tmp_path / "damaged.json"])
    assert (first.coverage.dropped, len(first.host), len(second.host)) == (2, 1, 1)


def test_merged_ranks_and_files_of_others_are_one_run(tmp_path: Path):
    write_trace(tmp_path / "merged.json", of("TP0", op("a", 0, 10)), of("TP1", op("a", 0, 20)))
    write_trace(tmp_path / "other.json", [op("a", 0, 30)])
    found = load_run([tmp_path / "merged.json", tmp_path / "other.json"])
    assert [(trace.source.rank, trace.window_ns) for trace in found] == [(0, 10_000), (1, 20_000), (2, 30_000)]
    with pytest.raises(BundleError, match=r"other.json and merged.json are both of rank 0"):
        load_run([tmp_path / "other.json", tmp_path / "merged.json"])


def test_the_cache_gives_back_every_rank(tmp_path: Path):
    path = write_trace(tmp_path / "merged.json", MERGED)
    parsed = load_run([path])
    for _ in range(2):
        kept = load_run([path], cache=tmp_path / "cache")
        assert [differences(*both) for both in zip(kept, parsed, strict=True)] == [[], []]
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_report_says_which_rank_it_explains_and_that_there_are_others(tmp_path: Path):
    path = write_trace(tmp_path / "merged.json", *(of(f"TP{rank}", *events) for rank, events in enumerate(TRAINING)))
    verdict = said("report", str(path), "--rank", "1", *(f"-o{tmp_path / 'out'}.{suffix}" for suffix in ("html", "md")))
    assert "This is about rank 1 (TP1) of 2." in verdict
    page, markdown = ((tmp_path / f"out.{suffix}").read_text(encoding="utf-8") for suffix in ("html", "md"))
    assert "merged.json · rank 1 (TP1) of 2" in page
    assert "1 (TP1); beside it 0 (TP0), see Ranks" in page
    assert "48 events of 2 ranks read" in page
    assert "rank 1 (TP1) of 2" in markdown
    assert "All else here is about rank 0 (TP0)." in said("summary", str(path))
