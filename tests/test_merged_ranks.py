from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_trace import Event, kernel, launch, make_trace, op, step, write_trace

from longpole.analyze.analyses import MERGED, analyses_for
from longpole.analyze.analyses.merged_ranks import merged_ranks
from longpole.analyze.analyses.op_table import op_table
from longpole.analyze.links import launching_call
from longpole.analyze.load import load
from longpole.analyze.loading.cached import read, write
from longpole.capture.errors import MissingData


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


MERGED_FILE = [*of("TP10", *work("aten::add", 20)), *of("TP2", *work("aten::mm", 100))]


def test_nothing_is_linked_across_ranks():
    trace = make_trace(MERGED_FILE)
    assert trace.merged_ranks == ("TP2", "TP10")
    assert trace.device_names == {0: "TP2 GPU 0", 1: "TP10 GPU 0"}
    assert trace.device.device.tolist() == [1, 0]
    calls = launching_call(trace)
    assert [trace.threads[trace.host.thread[call]][0] for call in calls] == ["[TP10] 100", "[TP2] 100"]
    rows = op_table(trace).rows.set_index("name")["device_ns"]
    assert (rows["aten::mm"], rows["aten::add"]) == (100_000, 20_000)
    assert len(np.unique(trace.host.sequence[trace.host.sequence >= 0])) == 2


@pytest.mark.parametrize("prefix", ["rank{} ", "rank {}: ", "Rank_{} "])
def test_a_rank_can_stand_without_brackets(prefix: str):
    both = [(0, work("aten::mm", 100)), (1, work("aten::add", 20))]
    named = [[{**event, "pid": prefix.format(rank) + str(event["pid"])} for event in events] for rank, events in both]
    rows = op_table(make_trace(*named)).rows.set_index("name")["device_ns"]
    assert (rows["aten::mm"], rows["aten::add"]) == (100_000, 20_000)


def test_events_without_a_rank_are_one_of_their_own():
    trace = make_trace(MERGED_FILE, work("aten::mul", 7))
    rows = op_table(trace).rows.set_index("name")["device_ns"]
    assert rows[["aten::mm", "aten::add", "aten::mul"]].tolist() == [100_000, 20_000, 7_000]
    assert trace.device_names == {0: "GPU 0", 1: "TP2 GPU 0", 2: "TP10 GPU 0"}


def test_absent_ids_stay_absent():
    bare = [op("a", 0, 10), kernel("k", 0, 10)]
    trace = make_trace(of("rank0", *bare), of("rank1", *bare))
    assert set(trace.host.external_id.tolist()) == set(trace.host.correlation.tolist()) == {-1}
    assert trace.device.correlation.tolist() == [-1, -1]


@pytest.mark.parametrize("events", [work("aten::mm", 100), of("TP00", *work("aten::mm", 100))])
def test_one_rank_keeps_its_ids(events: list[Event]):
    trace = make_trace(events)
    assert trace.merged_ranks == ()
    assert trace.device.correlation.tolist() == [5]
    assert MERGED.keys().isdisjoint(analyses_for(trace))
    with pytest.raises(MissingData, match="one rank"):
        merged_ranks(trace)


def test_each_rank_is_named_with_its_gpus():
    trace = make_trace([step(1, 0, 200)], MERGED_FILE)
    found = merged_ranks(trace)
    assert found.measures == {"ranks_detected": 2}
    assert found.devices is not None
    assert found.devices[["name", "busy_ns"]].to_numpy().tolist() == [["TP2 GPU 0", 100_000], ["TP10 GPU 0", 20_000]]
    assert next(iter(analyses_for(trace))) == "Ranks in this file"


def test_ranks_without_gpu_work_are_named_too():
    assert merged_ranks(make_trace(of("rank0", op("a", 0, 10)), of("rank1", op("a", 0, 10)))).devices is None


def test_what_is_kept_names_the_ranks(tmp_path: Path):
    trace = load(write_trace(tmp_path / "merged.json", MERGED_FILE))
    write(tmp_path, "key", trace)
    kept = read(tmp_path, "key")
    assert kept is not None
    assert (kept.merged_ranks, kept.device_names) == (trace.merged_ranks, trace.device_names)
