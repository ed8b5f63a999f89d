import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, kernel, launch, loop, make_trace, memcpy, op, trace_text

from longpole.analyze.analyses.gpu_steps import GpuSteps, gpu_steps
from longpole.analyze.load import load
from longpole.analyze.step_work import busy_by_group
from longpole.capture.errors import MissingData


def launching(start: float, end: float) -> list[Event]:
    return [launch(int(start) + 1, start + 10, start + 15)]


def times(found: GpuSteps, *columns: str) -> list[list[float | None]]:
    """In microseconds, None where unknown."""
    return [[None if math.isnan(v) else v / 1000 for v in row] for row in found.rows[list(columns)].astype(float).to_numpy()]


def test_busy_and_idle_time_lie_between_the_borders_of_the_step():
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 120, 150, correlation=101)]
    found = gpu_steps(make_trace(loop([100, 100], launching), work))
    assert times(found, "busy_ns", "idle_ns", "launched_ns") == [[40, 60, 40], [30, 70, 30]]
    assert found.rows["busy_share"].tolist() == [0.4, 0.3]
    assert found.rows["kernel_count"].tolist() == [1, 1]


def test_work_belongs_to_the_step_that_launched_it_wherever_it_runs():
    work = [kernel("a", 50, 130, correlation=1), kernel("b", 130, 260, correlation=101)]
    found = gpu_steps(make_trace(loop([100, 100], launching), work))
    assert times(found, "busy_ns", "launched_ns") == [[50, 80], [100, 130]]  # of the last step also what runs after it
    assert found.measures == {"per_step_gpu_ns": [80_000, 130_000]}


def test_the_parts_of_busy_time_add_up():
    work = [
        kernel("gemm", 20, 50, correlation=1), kernel("ncclKernel", 40, 70, stream=8, correlation=1),
        memcpy("HtoD", 60, 90, stream=9, correlation=1),
    ]  # fmt: skip
    found = gpu_steps(make_trace(loop([100], launching), work))
    assert times(found, "busy_ns", "compute_ns", "comm_exposed_ns", "copy_exposed_ns") == [[70, 30, 20, 20]]
    assert found.rows["kernel_count"].tolist() == [2]


def test_the_spread_shows_the_one_slow_step():
    def part(start: float, end: float) -> list[Event]:
        return [*launching(start, end), op("a", start, end)]

    work = [kernel("a", 100 * i + 20, 100 * i + 20 + (60 if i == 2 else 20), correlation=100 * i + 1) for i in range(5)]
    spread = gpu_steps(make_trace(loop([100] * 5, part), work)).spread.set_index("part")
    assert spread.loc["busy", ["mean_ns", "median_ns", "max_ns"]].tolist() == [28_000, 20_000, 60_000]


def test_each_device_has_a_row_in_each_step():
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 20, 30, device=1, correlation=1)]
    found = gpu_steps(make_trace(loop([100], launching), work))
    assert times(found, "device", "busy_ns") == [[0, 40], [0.001, 10]]
    assert found.measures == {"per_step_gpu_ns": {0: [40_000], 1: [10_000]}}


def test_a_launch_without_a_record_hides_the_time_of_the_steps_in_which_its_work_may_have_run():
    launches = [*loop([100, 100, 100], launching), launch(7, 80, 85)]
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 120, 150, correlation=101), kernel("c", 220, 240, correlation=201)]
    found = gpu_steps(make_trace(launches, work))
    assert times(found, "busy_ns", "launched_ns") == [[None, None], [None, None], [20, 20]]
    assert math.isnan(found.rows["kernel_count"][0])
    assert found.gaps == "launch calls without a record of their work: 1 of 4"
    assert found.withheld == {}


def test_work_without_a_call_may_belong_to_any_step_but_where_it_runs_is_known():
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 120, 150, correlation=101), kernel("stray", 160, 170)]
    found = gpu_steps(make_trace(loop([100, 100], launching), work))
    assert times(found, "busy_ns", "launched_ns", "kernel_count") == [[40, None, None], [40, None, None]]
    assert "belong to no step: 1" in found.withheld["per_step_gpu_ns"]
    assert found.measures == {}


def test_what_a_stream_runs_before_any_launch_of_the_recording_is_from_before_it():
    work = [kernel("warmup", 0, 15), kernel("a", 20, 60, correlation=1)]
    found = gpu_steps(make_trace(loop([100], launching), work))
    assert times(found, "busy_ns", "launched_ns") == [[55, 40]]


def test_two_clocks_leave_only_the_counts():
    found = gpu_steps(make_trace(loop([100], launching), [kernel("a", 2, 60, correlation=1)]))
    assert times(found, "busy_ns", "launched_ns", "kernel_count") == [[None, None, 0.001]]
    assert "two clocks disagree" in found.withheld["per_step_gpu_ns"]


def test_a_kernel_without_a_time_hides_the_step_that_launched_it():
    lost = {**kernel("lost", 0, 0, correlation=1), "ts": -5_000_000}
    found = gpu_steps(make_trace(loop([100, 100], launching), [lost, kernel("b", 120, 150, correlation=101)]))
    assert times(found, "busy_ns") == [[None], [None]]  # what was launched next runs in the second
    assert found.gaps == "device events without a time: 1"


def test_a_kernel_whose_duration_is_negative_hides_only_the_step_that_launched_it():
    calls = [launch(1, 0, 5), launch(2, 10, 15), launch(3, 100, 105)]
    work = [kernel("k", 8, 0, correlation=1), kernel("k", 20, 30, correlation=2), kernel("k", 110, 120, correlation=3)]
    found = gpu_steps(make_trace(loop([100, 100]), calls, work))
    assert times(found, "busy_ns") == [[None], [10]]


def test_of_a_file_that_was_cut_off_the_whole_steps_are_told_by_number(tmp_path):
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 120, 150, correlation=101)]
    text = trace_text(loop([100, 100], launching), work)
    path = tmp_path / "cut.json"
    path.write_text(text[: text.rindex('"name": "b"')], encoding="utf-8")
    found = gpu_steps(load(path))
    assert times(found, "busy_ns") == [[40], [None]]
    assert (found.measures["step0_gpu_busy_ns"], found.measures["step0_gpu_busy_share"]) == (40_000, 0.4)
    assert "step1_gpu_busy_ns" not in found.measures


def test_a_step_aside_owns_nothing():
    marks = [annotation("step[DECODE bs=1]", 0, 100), annotation("step[DECODE bs=1]", 10, 50, tid=2)]
    found = gpu_steps(make_trace(marks, launching(0, 0), [kernel("a", 20, 60, correlation=1)]))
    assert times(found, "busy_ns", "launched_ns", "kernel_count") == [[40, 40, 0.001], [30, None, None]]


def test_a_cpu_run_has_no_gpu_time():
    with pytest.raises(MissingData, match="CUDA activity"):
        gpu_steps(make_trace([op("a", 0, 10)]))


INTERVALS = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 30), st.integers(0, 12)), max_size=40)


@given(INTERVALS)
def test_the_union_of_each_group_agrees_with_a_loop_over_instants(rows: list[tuple[int, int, int]]):
    group, start, width = np.array(rows, np.int64).reshape(-1, 3).T
    instants = [len({i for g, a, n in rows if g == one for i in range(a, a + n)}) for one in range(4)]
    assert busy_by_group(group, start, start + width, 4).tolist() == instants
