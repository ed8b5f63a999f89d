import pytest
from make_trace import Event, allocation, loop, make_trace, op, step

from longpole.analyze.analyses.memory import BEFORE, Memory, memory
from longpole.analyze.timeline import MOST_PIECES
from longpole.capture.errors import MissingData

GPU, LOAD, GEMM = 1, op("aten::to", 10, 20), op("aten::mm", 30, 60)


def gpu(time: float, size_bytes: int, total: int | None = None, address: int = 1, **others: int) -> Event:
    return allocation(time, size_bytes, GPU, address=address, total=total, **others)


def measures(*events: list[Event]) -> dict:
    return dict(memory(make_trace([step(1, 0, 100)], *events)).measures)


def lines(found: Memory) -> list[tuple]:
    return list(found.at_peak[["op", "live_bytes"]].itertuples(index=False, name=None))


def test_the_peak_stands_on_what_was_there_before():
    told = measures([LOAD, GEMM], [gpu(15, 500, 1500), gpu(40, 2000, 3500, address=2), gpu(70, -500, 3000)])
    assert told == {
        "device_peak_bytes": 3500, "peak_ts_ns": 40_000, "peak_op": "aten::mm", "before_window_bytes": 1000,
        "allocated_in_window_bytes": 2500, "net_change_bytes": 2000, "step_net_change_bytes": (2000,),
        "allocated_by_op_bytes": {"aten::to": 500, "aten::mm": 2000},
    }  # fmt: skip


def test_the_peak_is_made_of_what_was_not_released_by_then():
    found = memory(
        make_trace([LOAD, GEMM], [gpu(15, 500, 1500), gpu(16, -500, 1000), gpu(40, 2000, 3000), gpu(50, 100, 3100, address=2)])
    )
    assert lines(found) == [("aten::mm", 2100), (BEFORE, 1000)]
    assert found.at_peak["live_share"].tolist() == pytest.approx([2100 / 3100, 1000 / 3100])


def test_what_was_there_before_and_is_released_is_the_peak_at_the_start():
    found = memory(make_trace([LOAD], [gpu(15, -600, 400), gpu(18, 100, 500, address=2)]))
    assert found.measures["device_peak_bytes"] == 1000
    assert (found.measures["peak_ts_ns"], found.measures["peak_op"]) == (0, None)
    assert lines(found) == [(BEFORE, 1000)]


def test_without_the_allocators_own_count_the_peak_is_withheld_and_its_moment_is_not():
    found = memory(make_trace([step(1, 0, 100), LOAD, GEMM], [gpu(15, 500), gpu(40, 2000, address=2), gpu(50, -500)]))
    assert set(found.withheld) == {"device_peak_bytes", "before_window_bytes"}
    assert not set(found.withheld) & set(found.measures)
    assert (found.measures["peak_ts_ns"], found.measures["peak_op"]) == (40_000, "aten::mm")
    assert len(found.at_peak) == 0


def test_host_memory_stands_apart():
    told = measures([LOAD, GEMM], [allocation(15, 64, address=1, total=64), allocation(40, 32, address=2, total=96)])
    assert told == {
        "host_peak_bytes": 96, "host_peak_ts_ns": 40_000, "host_peak_op": "aten::mm", "host_allocated_in_window_bytes": 96,
        "host_net_change_bytes": 96, "host_step_net_change_bytes": (96,),
        "host_allocated_by_op_bytes": {"aten::to": 64, "aten::mm": 32},
    }  # fmt: skip
    both = memory(make_trace([LOAD], [allocation(15, 64, total=64), gpu(16, 8, 8)]))
    assert both.overview["place"].tolist() == ["GPU 0", "host"]


def test_each_device_has_its_own_figures():
    told = measures([LOAD, GEMM], [gpu(15, 500, 500), gpu(40, 2000, 3000, device=1)])
    assert told["device_peak_bytes"] == {0: 500, 1: 3000}
    assert told["before_window_bytes"] == {0: 0, 1: 1000}
    assert told["allocated_by_op_bytes"] == {0: {"aten::to": 500}, 1: {"aten::mm": 2000}}


def test_an_allocation_belongs_to_the_operator_of_its_thread_and_to_the_one_that_called_it():
    ops = [op("aten::linear", 30, 60), op("aten::addmm", 35, 55), op("aten::mul", 30, 60, tid=2)]
    found = memory(make_trace(ops, [gpu(40, 8, 8), gpu(41, 4, 12, tid=2), gpu(70, 2, 14)]))
    assert found.ops[["op", "caller", "count", "allocated_bytes"]].to_numpy().tolist() == [
        ["aten::addmm", "aten::linear", 1, 8],
        ["aten::mul", "aten::mul", 1, 4],
        ["(outside operators)", "(outside operators)", 1, 2],
    ]


@pytest.mark.parametrize(("kept", "growth"), [([8, 4, 6], 4), ([8, 0, 6], 0), ([8, 4], 0)])
def test_memory_grows_where_every_step_keeps_some(kept: list[int], growth: int):
    steps = loop([100] * len(kept), lambda start, end: [op("aten::mm", start, end)])
    changes = [gpu(100 * i + 50, size, address=i) for i, size in enumerate(kept)]
    found = memory(make_trace(steps, changes))
    assert found.steps["net_change_bytes"].tolist() == kept
    assert found.growing["growth_bytes"].tolist() == [growth] * bool(growth)


def test_what_is_held_at_the_borders_of_each_step_and_at_most_within_it():
    steps = [step(1, 0, 100), step(2, 100, 200)]
    found = memory(make_trace(steps, [gpu(15, 500, 1500), gpu(40, -200, 1300), gpu(100, 50, 1350, address=2)]))
    assert found.steps.drop(columns="place").to_numpy().tolist() == [
        ["ProfilerStep#1", 1000, 1500, 1300, 300],
        ["ProfilerStep#2", 1300, 1350, 1350, 50],
    ]
    uncounted = memory(make_trace(steps, [gpu(15, 500)])).steps
    assert uncounted[["start_bytes", "peak_bytes", "end_bytes"]].isna().all(axis=None)
    assert uncounted["net_change_bytes"].tolist() == [500, 0]


def test_what_is_held_over_time_by_each_place():
    changes = [gpu(15, 500, 1500), gpu(15, -400, 1100), gpu(40, 100, 1200), allocation(20, 64, total=64)]
    found = memory(make_trace([step(1, 0, 100)], changes)).timeline
    assert found.to_dict("list") == {
        "start_ns": [0, 15_000, 40_000, 0, 20_000], "end_ns": [15_000, 40_000, 100_000, 20_000, 100_000],
        "low_bytes": [1000, 1100, 1200, 0, 64], "high_bytes": [1000, 1500, 1200, 0, 64], "last_bytes": [1000, 1100, 1200, 0, 64],
        "device": [0, 0, 0, -1, -1], "place": ["GPU 0"] * 3 + ["host"] * 2,
    }  # fmt: skip


def test_the_peak_of_many_changes_is_in_the_timeline_whose_size_is_bounded():
    changes = [gpu(i / 100, size, 1000 + (i % 2 == 0) * 2**i if i < 40 else 1000) for i, size in enumerate([1, -1] * 500)]
    found = memory(make_trace([step(1, 0, 100)], changes))
    assert len(found.timeline) == MOST_PIECES
    assert found.timeline["high_bytes"].max() == found.measures["device_peak_bytes"] == 1000 + 2**38


def test_a_trace_without_memory_events_says_how_to_get_them():
    with pytest.raises(MissingData, match="profile_memory=True"):
        memory(make_trace([LOAD]))
