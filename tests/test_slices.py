import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_report import report_on
from make_trace import asynchronous, make_ranges, make_trace, on_device, on_thread, op

from longpole.analyze.analyses.slices import SliceTimes, slices
from longpole.analyze.forms import LEGACY
from longpole.capture.errors import MissingData
from longpole.reports.formats import plain
from longpole.reports.prose import sentence
from longpole.reports.render_html import render_html
from longpole.reports.render_json import summary


def by_name(found: SliceTimes, table: str, column: str) -> dict[str, int]:
    return getattr(found, table).set_index("name")[column].to_dict()


def test_self_time_is_what_the_inner_range_leaves_and_asynchronous_time_is_no_part_of_it():
    found = slices(make_ranges(on_thread("outer", 0, 100), on_thread("inner", 10, 60), asynchronous("AllReduce", 20, 80)))
    assert by_name(found, "host", "total_ns") == {"outer": 100_000, "inner": 50_000}
    assert by_name(found, "host", "self_ns") == {"outer": 50_000, "inner": 50_000}
    assert by_name(found, "asynchronous", "total_ns") == {"AllReduce": 60_000}


def test_threads_have_nothing_inside_each_other():
    found = slices(make_ranges(on_thread("a", 0, 100), on_thread("b", 10, 60, thread=1)))
    assert by_name(found, "host", "self_ns") == {"a": 100_000, "b": 50_000}
    assert found.threads_count == 2


def test_overlapping_device_work_counts_once_in_busy_time_and_each_time_by_name():
    found = slices(make_ranges(on_device("fusion", 0, 60), on_device("dot", 40, 80, thread=1), on_thread("wait", 0, 100)))
    assert (found.device_busy_ns, found.device_busy_share, found.device_events) == (80_000, 0.8, 2)
    assert by_name(found, "device", "total_ns") == {"fusion": 60_000, "dot": 40_000}
    assert by_name(found, "device", "total_share") == {"fusion": 0.6, "dot": 0.4}


def test_without_a_range_on_a_device_nothing_is_said_of_how_busy_it_is():
    found = slices(make_ranges(on_thread("f", 0, 100)))
    assert (found.device_busy_share, found.device_events) == (None, 0)


def test_a_range_inside_one_of_its_name_counts_at_both_levels_and_its_self_time_once():
    found = slices(make_ranges(on_thread("f", 0, 100), on_thread("f", 20, 60)))
    assert by_name(found, "host", "total_ns") == {"f": 140_000}
    assert by_name(found, "host", "self_ns") == {"f": 100_000}


def test_a_range_without_length_is_counted_and_takes_no_time():
    found = slices(make_ranges(on_thread("begun and ended at once", 50, 50), on_thread("f", 0, 100)))
    assert by_name(found, "host", "count") == {"f": 1, "begun and ended at once": 1}
    assert by_name(found, "host", "self_ns") == {"f": 100_000, "begun and ended at once": 0}
    assert slices(make_ranges(on_thread("nothing", 5, 5))).host["self_share"].tolist() == [0]


def test_a_trace_of_torch_profiler_has_no_ranges_of_another_tool():
    with pytest.raises(MissingData, match="no ranges of another tool"):
        slices(make_trace([op("aten::mm", 0, 10)]))


RANGES = st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 10), st.integers(0, 2))


@given(st.lists(RANGES, min_size=1, max_size=12))
def test_self_time_of_all_names_is_the_time_that_the_threads_cover(drawn):
    made = make_ranges(*(on_thread(name, start, start + length, thread) for name, start, length, thread in drawn))
    covered = np.zeros((3, 31), bool)
    for _, start, length, thread in drawn:
        covered[thread, start : start + length] = True
    assert slices(made).host["self_ns"].sum() == covered.sum() * 1000


def test_the_report_names_the_tool_how_busy_the_device_is_and_what_is_not_told():
    report = report_on(make_ranges(on_thread("f", 0, 100), on_device("fusion", 0, 60), on_device("dot", 60, 80)))
    assert plain(sentence(report.verdict.sentence)) == "A device is busy 80 % of the 100 us recorded by JAX/XLA"
    assert plain(sentence(report.verdict.lede)) == (
        "longpole can tell 3 named ranges of 3 names; most device time is in fusion, 60.0 us in 1 call. "
        "What limits the step is told only of traces that torch.profiler wrote."
    )
    assert (report.verdict.bound, report.verdict.confidence) == ("unknown", "low")
    assert "told only of traces that torch.profiler wrote" in summary(report)["withheld"]["gpu_idle_pct"]


def test_without_devices_the_name_with_most_self_time_leads():
    report = report_on(make_ranges(on_thread("f", 0, 100), on_thread("g", 10, 30), producer="unknown"))
    assert plain(sentence(report.verdict.sentence)) == "f holds 80 % of the host time recorded by a tool the file does not name"
    waits = report_on(make_ranges(asynchronous("AllReduce", 0, 100)))
    assert plain(sentence(waits.verdict.sentence)) == "AllReduce holds 100 % of the asynchronous time recorded by JAX/XLA"


def test_the_measures_of_a_trace_with_devices():
    legacy = make_ranges(
        on_thread("add", 101.5, 236), on_thread("mul", 240, 260), on_device("add", 103, 237), on_device("mul", 250, 350),
        producer=LEGACY,
    )  # fmt: skip
    measures = summary(report_on(legacy))["measures"]
    expected = {
        "window_us": 248.5, "device_busy_us": 234, "device_busy_pct": 94.165, "device_events": 2,
        "device_time_us": {"add": 134, "mul": 100}, "cpu_time_us": {"add": 134.5, "mul": 20},
    }  # fmt: skip
    assert expected.items() <= measures.items()


def test_the_measures_of_begins_and_ends():
    measures = summary(
        report_on(make_ranges(on_thread("outer", 0, 100), on_thread("inner", 10, 60), asynchronous("AllReduce", 20, 80)))
    )["measures"]
    times = {"outer": 100, "inner": 50}
    expected = {
        "total_us": times, "slices_us": times, "self_us": {"outer": 50, "inner": 50}, "async_us": {"AllReduce": 60},
        "gpu_activity_events": 0, "device_events": 0,
    }  # fmt: skip
    assert expected.items() <= measures.items()
    assert not {"device_busy_us", "device_busy_pct", "device_time_us"} & set(measures)


def test_the_legacy_profiler_has_device_time_of_operators_and_no_kernels():
    report = report_on(make_ranges(on_thread("add", 0, 10), on_device("add", 2, 8), producer=LEGACY))
    note = "per-op device time from CUDA events; no kernels and no streams were recorded"
    assert note in sentence(report.verdict.lede)
    assert note in render_html(report).decode("utf-8")
    assert note in summary(report)["withheld"]["kernel_count"]
