"""Events of torch.profiler's own categories are read in a way of their own; what is read is what the general way reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from make_trace import allocation, annotation, frame, host, kernel, launch, make_trace, memcpy, op, write_trace
from same_trace import differences

from longpole.analyze.load import load
from longpole.analyze.loading import events, known
from longpole.analyze.loading.arguments import CallArgs

FLOWS = [
    {"ph": "s", "id": 3, "pid": 100, "tid": 1, "ts": 12, "cat": "ac2g", "name": "ac2g"},
    {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 30, "cat": "ac2g", "name": "ac2g", "bp": "e"},
]
OP_ARGUMENTS = {"External id": 3, "Sequence number": 5, "Fwd thread id": 1, "Input Dims": [[2, 3]], "Input type": ["float"]}
CALLS = [category for category, arguments in known.ARGUMENTS_OF.items() if arguments is CallArgs]
ALL = [
    op("aten::mm", 0, 20, **OP_ARGUMENTS),
    annotation("range", 1, 19, **{"finished": False}),
    frame("model.py(1): forward", 2, 18),
    *(host(category, "a call", 10 + i, 11 + i, correlation=i) for i, category in enumerate(CALLS)),
    launch(3, 10, 12, **{"External id": 3}),
    kernel("gemm", 20, 30, correlation=3, grid=[1, 2, 3], registers=12, **{"Collective name": "allreduce", "External id": 3}),
    memcpy("Memcpy HtoD", 30, 35, bytes=64),
    {**kernel("no device", 36, 38), "args": {}},
    kernel("Memset", 38, 39, category="gpu_memset"),
    kernel("a range", 20, 40, category="gpu_user_annotation"),
    kernel("Stream Sync", 20, 40, category="cuda_sync", **{"cuda_sync_kind": "Stream Synchronize"}),
    allocation(5, 64),
    *FLOWS,
]  # fmt: skip


def both_ways(path: Path, made: list[dict[str, Any]]) -> list[str]:
    """In what the two ways differ."""
    write_trace(path, made)
    found = load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "decoded", lambda text: None)
        return differences(found, load(path))


def is_known(made: list[dict[str, Any]]) -> bool:
    return events.Decoder().chunk(json.dumps(made).encode()).known is not None


def test_every_known_category_is_read_as_the_general_way_reads_it(tmp_path: Path):
    assert is_known(ALL)
    assert both_ways(tmp_path / "trace.json", ALL) == []


def test_of_flows_only_their_number_is_kept():
    chunk = events.Decoder().chunk(json.dumps(FLOWS + ALL[:1] + FLOWS).encode())
    assert [event.name for event in chunk.events] == ["aten::mm"]
    assert chunk.known is not None and [known.CATEGORIES[row] for row in chunk.known] == ["ac2g"] * 2 + ["cpu_op"] + ["ac2g"] * 2
    assert dict(make_trace(ALL).coverage.by_category)["ac2g"] == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {**ALL[0], "cat": "brand new"},
        {**ALL[0], "ph": "B"},
        {**ALL[0], "dur": "3"},
        {**ALL[0], "args": {"External id": "three"}},
        {**ALL[0], "args": None},
        {**ALL[0], "dur": None},
        {key: value for key, value in ALL[0].items() if key != "cat"},
        {key: value for key, value in ALL[0].items() if key != "dur"},
        {**FLOWS[0], "ph": "X", "dur": 3},
    ],
    ids=lambda odd: json.dumps(odd)[:40],
)
def test_one_event_of_another_kind_and_all_are_read_the_general_way(tmp_path: Path, odd: dict[str, Any]):
    assert not is_known([*ALL, odd])
    assert both_ways(tmp_path / "trace.json", [*ALL, odd]) == []


def test_a_negative_duration_is_left_out_and_counted():
    trace = make_trace(ALL, [{**ALL[0], "dur": -1}])
    assert is_known([{**ALL[0], "dur": -1}])
    assert {w.code: w.count for w in trace.warnings}["negative_dur"] == 1


def test_the_known_categories_are_tried_ever_more_rarely_where_they_fail(monkeypatch: pytest.MonkeyPatch):
    tried = []
    monkeypatch.setattr(known, "decoded", lambda text: tried.append(text))
    decoder, strange = events.Decoder(), json.dumps([{**ALL[0], "cat": "brand new"}]).encode()
    for _ in range(200):
        decoder.chunk(strange)
    assert len(tried) == 8  # after 1, 3, 7, 15, 31, 63, 63 others


def test_after_a_success_they_are_tried_at_once(monkeypatch: pytest.MonkeyPatch):
    decoder = events.Decoder()
    odd, good = (json.dumps([event]).encode() for event in ({"ph": "M", "name": "process_name"}, ALL[0]))
    found = [decoder.chunk(text).known is not None for text in (odd, good, good, odd, good, good)]
    assert found == [False, False, True, False, False, True]
