import pandas as pd
import pytest
from make_trace import Event, annotation, frame, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.call_tree import CallTree, call_tree
from longpole.analyze.contents import ANALYSES
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData
from longpole.reports.model import run_report
from longpole.reports.run_json import summary

ENTER = "<built-in method _record_function_enter_new of PyCapsule object at 0x7f16>"
EXIT = "torch/autograd/profiler.py(757): __exit__"


def row(found: CallTree, name: str) -> pd.Series:
    (index,) = found.rows.index[found.rows["name"] == name]
    return found.rows.loc[index]


def test_time_belongs_to_the_innermost_range_and_steps_are_none():
    found = call_tree(make_trace([step(1, 0, 100), frame("main", 0, 90), op("aten::mm", 10, 40), launch(1, 20, 25)]))
    assert found.measures["self_ns"] == {"main": 60_000, "aten::mm": 25_000, "cudaLaunchKernel": 5_000}
    assert found.measures["total_ns"] == {"main": 90_000, "aten::mm": 30_000, "cudaLaunchKernel": 5_000}
    assert (found.covered_ns, found.threads_count) == (90_000, 1)
    assert row(found, "main").self_share == pytest.approx(2 / 3)


def test_a_child_that_ends_late_keeps_its_time_and_crosses_nothing():
    found = call_tree(make_trace([frame("main", 0, 50), op("aten::mm", 10, 50.9)]))
    assert found.measures == {
        "self_ns": {"aten::mm": 40_900, "main": 10_000}, "total_ns": {"aten::mm": 40_900, "main": 50_000}, "crossing_ranges": 0,
    }  # fmt: skip
    assert found.warnings == ()


def test_threads_do_not_nest_in_each_other():
    found = call_tree(make_trace([op("a", 0, 40), op("b", 10, 20, tid=2), op("b", 50, 60, tid=3)]))
    assert found.measures["self_ns"] == {"a": 40_000, "b": 20_000}
    assert (found.threads_count, row(found, "b")["count"]) == (3, 2)


def test_recursion_counts_once_in_totals_and_at_each_level_in_calls():
    events = [frame("f", 0, 100), frame("g", 10, 90), frame("f", 20, 80), frame("f", 200, 210)]
    found = call_tree(make_trace(events, [launch(1, 30, 31)], [kernel("k", 40, 47, correlation=1)]))
    assert row(found, "f")[["count", "total_ns", "self_ns", "device_ns"]].tolist() == [3, 110_000, 89_000, 7_000]


def test_device_work_belongs_to_all_ranges_around_its_launch():
    host = [frame("main", 0, 100), op("aten::mm", 10, 20), launch(1, 12, 14), op("aten::add", 30, 40), launch(2, 32, 34)]
    other = [op("aten::mm", 12, 14, tid=2), launch(3, 12.5, 13, tid=2)]
    work = [kernel("k", 200, 205, correlation=1), kernel("k", 205, 215, correlation=2), kernel("k", 300, 320, correlation=3)]
    found = call_tree(make_trace(host, other, [*work, kernel("k", 400, 440, correlation=9)]))
    device = found.rows.set_index("name")["device_ns"].to_dict()
    assert device == {"main": 15_000, "aten::mm": 25_000, "aten::add": 10_000, "cudaLaunchKernel": 35_000}
    assert found.has_device


def test_of_equal_ranges_the_frame_is_outside_and_the_call_inside():
    found = call_tree(make_trace([launch(1, 0, 5), op("aten::mm", 0, 5), frame("mm", 0, 5)]))
    assert found.measures["self_ns"] == {"cudaLaunchKernel": 5_000, "aten::mm": 0, "mm": 0}


def crossing(*events: Event) -> tuple[int, list[bool]]:
    found = call_tree(make_trace(list(events)))
    return found.crossing_ranges, [warning.harmless for warning in found.warnings]


def test_a_range_that_crosses_the_end_of_a_step_is_counted_and_what_is_inside_it_is_not():
    steps = [step(3, 0, 1_000), step(4, 1_000, 2_000)]
    assert crossing(*steps, annotation("Optimizer.step#Adam.step", 950, 1_050), op("aten::add_", 960, 1_040)) == (1, [False])
    assert crossing(*steps, annotation("a", 900, 960), annotation("b", 950, 1_050)) == (1, [False])  # both ends, one range
    assert crossing(*steps, frame("main", -5, 2_500), op("aten::mm", 990, 1_000.5)) == (0, [])


def test_ranges_that_cross_each_other_are_counted():
    assert crossing(annotation("a", 0, 20), annotation("b", 10, 30)) == (1, [False])
    assert crossing(annotation("a", 0, 20), annotation("b", 10, 30), annotation("c", 15, 40)) == (2, [False])
    assert crossing(annotation("a", 0, 20), annotation("b", 10, 30, tid=2)) == (0, [])


def test_the_frames_that_open_and_close_ranges_cross_them_without_harm():
    assert crossing(frame(ENTER, 0, 4), annotation("block", 2, 50), frame(EXIT, 45, 52)) == (2, [True])
    both = [frame("torch/profiler/profiler.py(811): step", 990, 1_010), annotation("a", 10, 30), annotation("b", 20, 40)]
    assert crossing(step(1, 0, 1_000), *both) == (2, [False])


def test_crossing_ranges_are_told_in_the_json_and_steps_keep_their_times():
    trace = make_trace([step(3, 0, 1_000), annotation("Optimizer.step#Adam.step", 950, 1_050), step(4, 1_000, 2_000)])
    found = json(trace)
    assert found["measures"]["step_us"] == [1_000, 1_000]
    assert found["measures"]["total_us"] == {"Optimizer.step#Adam.step": 100}
    assert [(w["code"], w["count"]) for w in found["warnings"]] == [("crossing_range", 1)]


def json(trace: Trace) -> dict[str, object]:
    return summary(run_report(run(ANALYSES, trace), trace))


def test_without_host_ranges_there_is_no_call_tree():
    with pytest.raises(MissingData, match="no ranges of the host"):
        call_tree(make_trace([step(1, 0, 10)], [kernel("k", 0, 5)]))
