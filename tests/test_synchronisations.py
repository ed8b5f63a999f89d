import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, frame, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.synchronisations import idle_after, synchronisations
from longpole.capture.errors import MissingData

STEP = [step(1, 0, 100)]
RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1])), max_size=20)


def wait(start: float, end: float, name: str = "cudaStreamSynchronize", tid: int = 1, **args: int) -> Event:
    return launch(900 + round(start), start, end, tid, name, **args)


def mark(name: str, start: float, end: float, **args: int) -> Event:
    """A cuda_sync row."""
    return kernel(name, start, end, 1_000_007, category="cuda_sync", **args)


def columns(ranges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(ranges, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def test_a_wait_for_a_busy_gpu_is_told_apart_from_the_idle_time_that_follows():
    found = synchronisations(make_trace(STEP, [wait(10, 50), wait(70, 90)], [kernel("a", 20, 40), kernel("b", 60, 100)]))
    assert (found.count, found.total_ns, found.withheld, found.lower_bound) == (2, 60_000, {}, None)
    assert found.measures == {
        "sync_count": 2, "sync_ns": 60_000, "sync_by_op": {"(outside operators)": 2},
        "sync_by_op_ns": {"(outside operators)": 60_000}, "gpu_busy_during_sync_ns": 40_000,
        "gpu_busy_during_sync_share": pytest.approx(40 / 60), "gpu_idle_after_sync_ns": 10_000,
    }  # fmt: skip


def test_an_idle_instant_belongs_to_the_last_wait_and_counts_once():
    waits = [wait(0, 20, "cudaDeviceSynchronize"), wait(30, 40), wait(95, 99)]
    found = synchronisations(make_trace(STEP, waits, [kernel("a", 0, 10), kernel("b", 60, 100)]))
    assert found.rows[["call", "idle_ns"]].to_numpy().tolist() == [
        ["cudaDeviceSynchronize", 20_000], ["cudaStreamSynchronize", 20_000],
    ]  # fmt: skip
    assert found.measures["gpu_idle_after_sync_ns"] == 40_000


def test_after_the_last_work_nothing_follows():
    found = synchronisations(make_trace(STEP, [wait(10, 50)], [kernel("a", 20, 40)]))
    assert found.measures["gpu_idle_after_sync_ns"] == 0


def test_calls_on_two_threads_are_summed_and_their_common_time_counts_once_for_the_gpu():
    found = synchronisations(make_trace(STEP, [wait(0, 40), wait(20, 60, tid=2)], [kernel("a", 30, 90)]))
    assert found.measures["sync_ns"] == 80_000
    assert found.devices["busy_ns"].tolist() == [30_000]
    assert found.devices["busy_share"].tolist() == [0.5]


def test_each_device_has_its_own_figures():
    found = synchronisations(make_trace(STEP, [wait(0, 40)], [kernel("a", 0, 30), kernel("b", 60, 90, device=1)]))
    assert found.measures["gpu_busy_during_sync_ns"] == {0: 30_000, 1: 0}
    assert found.measures["gpu_idle_after_sync_ns"] == {0: 0, 1: 20_000}


def test_the_innermost_operator_and_the_programs_own_function_made_the_call():
    stack = [
        frame("train.py(10): main", 0, 90), frame("train.py(40): log", 5, 50),
        frame("torch/_tensor.py(1000): __float__", 10, 45), frame("<built-in method item of Tensor object at 0x7f>", 12, 44),
    ]  # fmt: skip
    ops = [op("aten::item", 14, 40), op("aten::_local_scalar_dense", 15, 38)]
    found = synchronisations(make_trace(STEP, stack, ops, [wait(20, 36)], [kernel("a", 0, 35)]))
    assert found.rows.loc[0, ["op", "line"]].tolist() == ["aten::_local_scalar_dense", "train.py(40): log"]


def test_a_call_that_only_torch_makes_has_a_line_of_torch():
    stack = [frame("/usr/lib/python3/site-packages/torch/cuda/__init__.py(900): synchronize", 0, 90)]
    assert synchronisations(make_trace(STEP, stack, [wait(20, 36)])).rows["line"].tolist() == [stack[0]["name"]]


def test_an_external_id_names_the_operator_on_any_thread_but_only_while_that_runs():
    ops = [op("mine", 0, 50, tid=2, **{"External id": 7}), op("late", 60, 70, **{"External id": 8}), op("around", 10, 30)]
    waits = [wait(12, 14, **{"External id": 7}), wait(16, 18, **{"External id": 8})]
    assert synchronisations(make_trace(STEP, ops, waits)).measures["sync_by_op"] == {"mine": 1, "around": 1}


def test_rows_come_by_the_idle_time_that_follows_and_then_by_time():
    ops = [op("long", 0, 40), op("short", 50, 54), op("longer", 70, 99)]
    waits = [wait(0, 20), wait(51, 53), wait(70, 98)]
    found = synchronisations(make_trace(STEP, ops, waits, [kernel("a", 20, 50), kernel("b", 60, 100)]))
    assert found.rows["op"].tolist() == ["short", "longer", "long"]


def test_a_blocking_copy_is_no_synchronisation():
    found = synchronisations(make_trace(STEP, [launch(1, 0, 20, name="cudaMemcpy")], [kernel("a", 0, 5)]))
    assert (found.count, found.rows.empty) == (0, True)
    assert found.measures == {"sync_count": 0, "sync_ns": 0, "sync_by_op": {}, "sync_by_op_ns": {}}


def test_without_such_calls_the_rows_of_the_driver_count_but_not_a_stream_that_waits():
    marks = [mark("Context Sync", 10, 30), mark("Stream Wait Event", 40, 90)]
    found = synchronisations(make_trace(STEP, marks, [kernel("a", 0, 20)]))
    assert (found.count, found.total_ns, found.from_marks) == (1, 20_000, True)
    assert found.measures["gpu_busy_during_sync_ns"] == 10_000


def test_a_row_belongs_to_the_operator_around_the_call_with_its_correlation():
    call = launch(5, 20, 30, name="hipOther")
    found = synchronisations(make_trace(STEP, [op("aten::item", 10, 40), call], [mark("Context Sync", 21, 29, correlation=5)]))
    assert found.measures["sync_by_op"] == {"aten::item": 1}


def test_where_calls_are_recorded_their_rows_are_not_counted_again():
    found = synchronisations(make_trace(STEP, [wait(9, 31)], [mark("Stream Sync", 10, 30)], [kernel("a", 0, 20)]))
    assert (found.count, found.total_ns, found.from_marks) == (1, 22_000, False)


def test_two_clocks_withhold_all_that_compares_calls_with_work():
    events = [launch(1, 0, 5), wait(10, 20, "cudaDeviceSynchronize")]
    found = synchronisations(make_trace(STEP, events, [kernel("a", 50, 70, correlation=1)]))
    assert set(found.withheld) == {"gpu_busy_during_sync_ns", "gpu_busy_during_sync_share", "gpu_idle_after_sync_ns"}
    assert not set(found.withheld) & set(found.measures)
    assert found.measures["sync_ns"] == 10_000
    assert found.rows["idle_ns"].isna().all()


def test_missing_work_withholds_idle_time_and_makes_the_rest_a_lower_bound():
    events = [launch(1, 0, 5), launch(2, 5, 10), wait(10, 50)]
    found = synchronisations(make_trace(STEP, events, [kernel("a", 20, 40, correlation=1)]))
    assert set(found.withheld) == {"gpu_idle_after_sync_ns"}
    assert found.measures["gpu_busy_during_sync_ns"] == 20_000
    assert found.lower_bound == "launch calls without a record of their work: 1 of 2"


def test_hidden_work_in_graphs_withholds_the_busy_share_too():
    events = [launch(1, 0, 5, name="cudaGraphLaunch"), wait(10, 50)]
    found = synchronisations(make_trace(STEP, events, [kernel("a", 20, 40)]))
    assert set(found.withheld) == {"gpu_busy_during_sync_share", "gpu_idle_after_sync_ns"}


def test_without_gpu_work_only_the_calls_are_told():
    found = synchronisations(make_trace(STEP, [wait(10, 50)]))
    assert set(found.measures) == {"sync_count", "sync_ns", "sync_by_op", "sync_by_op_ns"}
    assert found.withheld == {}


def test_a_trace_without_runtime_calls_cannot_say():
    with pytest.raises(MissingData, match="CUDA activity"):
        synchronisations(make_trace(STEP, [op("a", 0, 10)]))


@given(RANGES, st.lists(st.integers(0, 45), max_size=10))
def test_idle_time_after_moments_agrees_with_a_loop_over_instants(work: list[tuple[int, int]], moments: list[int]):
    starts = {start for start, _ in work}
    wanted = [0] * len(moments)
    for instant in range(45):
        busy = any(start <= instant < end for start, end in work)
        past = [m for m in moments if m <= instant]
        waited = past and not any(max(past) <= start <= instant for start in starts) and any(s > instant for s in starts)
        if waited and not busy:
            wanted[max(row for row, m in enumerate(moments) if m == max(past))] += 1
    assert idle_after(np.array(moments, np.int64), *columns(work)).tolist() == wanted


@given(RANGES.filter(bool), RANGES.filter(bool))
def test_work_during_the_calls_agrees_with_a_loop_over_instants(work: list[tuple[int, int]], waits: list[tuple[int, int]]):
    work = [(0, 1), *work]  # so that the trace begins at 0
    calls = [wait(start, end, tid=1 + row) for row, (start, end) in enumerate(waits)]
    found = synchronisations(make_trace(calls, [kernel("k", start, end, row) for row, (start, end) in enumerate(work)]))
    waiting = {instant for start, end in waits for instant in range(start, end)}
    busy = {instant for start, end in work for instant in range(start, end)}
    assert found.devices["busy_ns"].tolist() == [1000 * len(waiting & busy)]
