import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_report import report_on
from make_trace import Event, host, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.analyses.launching import launching
from longpole.analyze.launch_queue import queue_lengths
from longpole.analyze.launches import hidden_in_graphs
from longpole.capture.errors import MissingData
from longpole.reports.headline import loss_lines
from longpole.reports.render_html import render_html
from longpole.reports.render_json import summary

STEP = [step(1, 0, 100)]
DELAYS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=20)


def overhead(start: float, end: float) -> Event:
    return host("overhead", "Activity Buffer Request", start, end, tid=0)


def test_launches_are_counted_by_the_name_of_their_call_with_the_kernels_of_each():
    calls = [launch(1, 0, 5), launch(2, 10, 14, name="cuLaunchKernelEx"), launch(3, 20, 27), launch(4, 30, 90, name="cudaMalloc")]
    found = launching(make_trace(STEP, calls, [kernel("a", 20, 30, correlation=1), kernel("b", 30, 40, correlation=2)]))
    assert found.calls.to_dict("records") == [
        {"name": "cudaLaunchKernel", "count": 2, "host_ns": 12_000, "mean_ns": 6000, "kernel_count": 1, "lost_count": 1},
        {"name": "cuLaunchKernelEx", "count": 1, "host_ns": 4000, "mean_ns": 4000, "kernel_count": 1, "lost_count": 0},
    ]
    wanted = {"launch_count": 3, "launches": 3, "launch_host_ns": 16_000, "launches_without_kernel": 1, "graph_launches": 0}
    assert wanted.items() <= found.measures.items()
    assert "kernels_per_graph_launch" not in found.measures


def test_the_launch_of_a_graph_counts_once_however_many_kernels_it_owns():
    kernels = [kernel("a", 50 + 10 * i, 60 + 10 * i, correlation=11) for i in range(5)]
    found = launching(make_trace(STEP, [launch(11, 0, 40, name="cudaGraphLaunch")], kernels))
    wanted = {"graph_launches": 1, "kernels_per_graph_launch": 5, "launch_host_ns": 40_000, "kernels_without_launch": 0}
    assert wanted.items() <= found.measures.items()
    assert found.queue.delay_ns.tolist() == [50_000]  # the others wait for the first


def test_kernels_of_a_graph_without_their_launch_are_counted_and_not_guessed():
    graph = launch(20, 10, 30, name="hipGraphLaunch")
    found = launching(make_trace(STEP, [graph], [kernel("a", 50, 60, correlation=0), memcpy("HtoD", 60, 70)]))
    wanted = {"kernels_without_launch": 1, "device_events_without_call": 2, "launches_without_kernel": 1}
    assert wanted.items() <= found.measures.items()
    assert found.withheld == {"kernels_per_graph_launch": "graph launches without a record of the kernels inside: 1 of 1"}
    assert [caution.code for caution in found.warnings] == ["kernels_without_launch"]


def test_device_time_belongs_to_the_operator_that_launched_it_and_the_rest_is_shown():
    calls = [op("aten::mm", 0, 20), launch(1, 5, 10), op("aten::copy_", 20, 40), launch(2, 25, 30, name="cudaMemcpyAsync")]
    work = [kernel("a", 40, 70, correlation=1), memcpy("HtoD", 70, 80, correlation=2), kernel("stray", 80, 90)]
    found = launching(make_trace(STEP, calls, work))
    assert found.ops.to_dict("records") == [
        {"name": "aten::mm", "work_count": 1, "device_ns": 30_000, "device_share": 0.6},
        {"name": "aten::copy_", "work_count": 1, "device_ns": 10_000, "device_share": 0.2},
    ]
    assert found.measures["device_time_ns_by_op"] == {"aten::mm": 30_000, "aten::copy_": 10_000}
    assert found.measures["unattributed_kernel_ns"] == 10_000
    assert found.unattributed_share == 0.25


def test_a_queue_delay_is_the_time_from_the_start_of_the_launch_to_that_of_its_kernel():
    calls = [launch(1, 0, 5), launch(2, 5, 10), launch(3, 60, 65)]
    work = [kernel("a", 10, 40, correlation=1), kernel("b", 40, 60, correlation=2), kernel("c", 66, 70, correlation=3)]
    found = launching(make_trace(STEP, calls, work))
    assert found.measures["queue_delay_ns_valid"] == [10_000, 35_000, 6000]
    assert found.measures["queue_delay_median_ns"] == 10_000
    assert found.measures["queue_delay_max_ns"] == 35_000
    assert found.measures["unqueued_launches_share"] == pytest.approx(2 / 3)
    assert found.measures["queue_length_max"] == 2
    assert found.measures["queue_length_mean"] == pytest.approx(0.51)


def test_a_kernel_before_its_launch_has_no_delay_and_the_others_keep_theirs():
    calls = [launch(1, 50, 55), launch(2, 60, 65), launch(3, 70, 75)]
    work = [kernel("a", 42, 48, correlation=1), kernel("b", 59.5, 66, correlation=2), kernel("c", 80, 90, correlation=3)]
    found = launching(make_trace(STEP, calls, work))
    wanted = {"kernels_before_launch": 2, "worst_skew_ns": 8000, "kernels_after_their_sync": 0}
    assert wanted.items() <= found.measures.items()
    assert found.measures["queue_delay_ns_valid"] == [-500, 10_000]
    assert [(c.code, c.count) for c in found.warnings] == [("kernels_before_launch", 1)]


def test_where_every_kernel_is_off_the_clock_delays_are_withheld():
    found = launching(
        make_trace([launch(1, 0, 5), launch(2, 10, 50, name="cudaDeviceSynchronize")], [kernel("a", 100, 170, correlation=1)])
    )
    assert found.measures["kernels_after_their_sync"] == 1
    assert found.measures["min_clock_offset_ns"] == 120_000
    assert "clocks disagree" in found.withheld["queue_delay_median_ns"]
    assert "clocks disagree" in found.withheld["queue_length_max"]
    assert "queue_delay_ns_valid" not in found.measures


def test_the_profilers_own_work_is_told_apart_from_launching():
    trace = make_trace(
        STEP, [launch(1, 10, 60), overhead(12, 40), overhead(30, 52), launch(2, 70, 75)], [kernel("a", 61, 65, correlation=1)]
    )
    found = launching(trace)
    wanted = {
        "overhead_ns": 40_000, "launch_host_ns": 55_000, "launches_overlapping_overhead": 1,
        "launch_host_ns_without_overhead": 15_000,
    }  # fmt: skip
    assert wanted.items() <= found.measures.items()
    report = report_on(trace)
    said = "Of 55.0 µs in launch calls, 40.0 µs is the work of the profiler itself; calls that it overlaps: 1."
    assert said in [line.replace("\u202f", " ") for line in loss_lines(report)]
    assert "profiler_overhead" in [warning["code"] for warning in summary(report)["warnings"]]


def test_overhead_beside_the_launches_takes_nothing_from_them():
    found = launching(make_trace(STEP, [launch(1, 10, 15), overhead(40, 50)], [kernel("a", 20, 25, correlation=1)]))
    assert found.measures["launch_host_ns_without_overhead"] == 5000
    assert found.warnings == ()


def test_a_launch_has_its_record_also_where_that_has_no_time():
    calls = [launch(1, 10, 15), launch(2, 20, 25), launch(3, 30, 35)]
    at_zero, negative = {**kernel("lost", 0, 0, correlation=1), "ts": -5_000_000}, kernel("lost", 40, 30, correlation=2)
    assert launching(make_trace(STEP, calls, [at_zero, negative])).measures["launches_without_kernel"] == 1


def test_a_record_without_time_and_correlation_may_be_that_of_any_launch():
    found = launching(make_trace(STEP, [launch(1, 10, 15)], [kernel("lost", 40, 30)]))
    assert found.withheld == {"launches_without_kernel": "device events without a time, whose launches are not known: 1"}


def test_device_work_without_any_call_in_the_file_says_nothing_of_launches():
    found = launching(make_trace(STEP, [kernel("a", 20, 25)]))
    assert found.measures == {
        "kernels_without_launch": 1, "device_events_without_call": 1, "device_time_ns_by_op": {}, "unattributed_kernel_ns": 5000,
    }  # fmt: skip
    assert found.warnings == ()


def test_calls_without_device_work_are_counted():
    found = launching(make_trace(STEP, [launch(1, 10, 15)]))
    assert found.measures["launches_without_kernel"] == 1
    assert math.isnan(found.unattributed_share)
    assert "kernels_without_launch" not in found.measures


def test_a_cpu_run_launches_nothing():
    with pytest.raises(MissingData, match="CUDA activity"):
        launching(make_trace([op("a", 0, 10)]))


@given(DELAYS)
def test_the_length_of_a_queue_agrees_with_a_loop_over_instants(delays: list[tuple[int, int]]):
    calls = [launch(i, at, at) for i, (at, _) in enumerate(delays, 1)]
    work = [kernel("k", at + delay, 40, correlation=i) for i, (at, delay) in enumerate(delays, 1)]
    found = queue_lengths(make_trace([op("first", 0, 40)], calls, work))
    waiting = [sum(at <= i < at + delay for at, delay in delays) for i in range(40)]
    assert found.devices.to_dict("records") == [
        {
            "device": 0, "mean_count": sum(waiting) / 40, "empty_share": pytest.approx(waiting.count(0) / 40),
            "most_count": max(waiting), "most_ts_ns": 1000 * waiting.index(max(waiting)) if max(waiting) else 0,
        }
    ]  # fmt: skip
    rows = found.timeline
    assert [
        rows.loc[(rows["start_ns"] <= 1000 * i) & (1000 * i < rows["end_ns"]), "last_count"].item() for i in range(40)
    ] == waiting
    assert (rows["low_count"] == rows["high_count"]).all()


def test_each_device_has_a_queue_in_which_copies_wait_too_and_of_a_graph_the_first_kernel():
    calls = [launch(1, 0, 5), launch(2, 10, 15, name="cudaMemcpyAsync"), launch(3, 20, 25, name="cudaGraphLaunch")]
    work = [
        kernel("a", 40, 50, correlation=1), memcpy("HtoD", 50, 60, correlation=2), kernel("b", 30, 40, 7, 1, correlation=3),
        kernel("c", 40, 90, 7, 1, correlation=3),
    ]  # fmt: skip
    found = launching(make_trace(STEP, calls, work))
    wanted = {"queue_length_max": {0: 2, 1: 1}, "queue_length_mean": {0: 0.8, 1: 0.1}, "queue_empty_share": {0: 0.5, 1: 0.9}}
    assert {name: found.measures[name] for name in wanted} == wanted
    first = found.lengths.timeline[found.lengths.timeline["device"] == 0]
    assert first[["start_ns", "end_ns", "last_count"]].to_numpy().tolist() == [
        [0, 10_000, 1], [10_000, 40_000, 2], [40_000, 50_000, 1], [50_000, 100_000, 0],
    ]  # fmt: skip


def test_a_trace_with_launches_and_no_device_work_has_its_section():
    trace = make_trace([step(1, 0, 100), launch(1, 0, 5), launch(2, 50, 55, name="cudaDeviceSynchronize")])
    assert b"cudaLaunchKernel" in render_html(report_on(trace))


def test_graph_launches_without_a_kernel_are_counted_also_where_a_copy_is_recorded():
    graphs = [launch(i, 20 * i, 20 * i + 5, name="cudaGraphLaunch") for i in (1, 2, 3)]
    work = [kernel("k", 30, 35, correlation=1), memcpy("HtoD", 50, 55, correlation=2)]
    found = launching(make_trace([step(1, 0, 100)], graphs, work))
    assert (found.measures["graph_launches"], found.measures["graph_launches_without_kernels"]) == (3, 2)
    assert hidden_in_graphs(make_trace([step(1, 0, 100)], graphs, work)) is not None
