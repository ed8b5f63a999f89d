import math

import pytest
from make_report import diff_report_on
from make_trace import (
    asynchronous,
    average,
    kernel_average,
    make_ranges,
    make_snapshot,
    make_trace,
    on_device,
    on_thread,
    op,
    step,
)

from longpole.analyze.diffs.total_changes import total_changes
from longpole.capture.errors import MissingData
from longpole.reports.formats import plain
from longpole.reports.headline import step_changes
from longpole.reports.prose import sentence
from longpole.reports.render_json import difference
from longpole.reports.total_tables import change_table


def steps(count: int) -> dict[str, object]:
    return average("ProfilerStep*", count, 0, 100 * count, is_user_annotation=True)


def test_snapshots_that_know_their_steps_are_compared_per_step():
    found = total_changes(
        [make_snapshot(steps(10), average("aten::mm", 10, 600))], [make_snapshot(steps(20), average("aten::mm", 20, 600))]
    )
    row = found.host.iloc[0]
    assert found.per_step
    assert (row["name"], row["before_ns"], row["after_ns"], row["change_ns"]) == ("aten::mm", 60_000, 30_000, -30_000)
    assert (found.host_total.before_ns, found.host_total.after_ns, found.host_total.change_share) == (60_000, 30_000, -0.5)


def test_without_steps_on_both_sides_totals_are_compared():
    found = total_changes([make_snapshot(steps(10), average("aten::mm", 10, 600))], [make_snapshot(average("aten::mm", 20, 300))])
    assert not found.per_step
    assert found.host[["before_ns", "after_ns"]].iloc[0].tolist() == [600_000, 300_000]


def test_nothing_is_called_real_and_what_came_or_went_is_named():
    found = total_changes(
        [make_snapshot(average("a", 1, 30), average("b", 1, 20))], [make_snapshot(average("a", 1, 10), average("c", 1, 5))]
    )
    assert found.host[["name", "status"]].to_numpy().tolist() == [["a", "totals_only"], ["b", "removed"], ["c", "added"]]
    assert found.host["low_change_ns"].isna().all()


def test_a_snapshot_is_compared_with_a_trace_by_the_same_rows():
    trace = make_trace([step(1, 0, 100), step(2, 100, 200)], [op("aten::mm", 10, 50), op("aten::mm", 110, 150)])
    found = total_changes([make_snapshot(steps(1), average("aten::mm", 1, 60))], [trace])
    rows = found.host.set_index("name")
    assert rows.loc["aten::mm", ["before_ns", "after_ns"]].tolist() == [60_000, 40_000]
    assert rows.loc["ProfilerStep*", "after_ns"] == 60_000


def test_device_work_is_compared_by_name():
    found = total_changes([make_snapshot(kernel_average("gemm", 1, 30))], [make_snapshot(kernel_average("gemm", 1, 10))])
    assert found.device[["name", "change_ns"]].to_numpy().tolist() == [["gemm", -20_000]]


def test_ranges_of_one_tool_are_compared_by_self_time_and_device_time():
    before = make_ranges(on_thread("f", 0, 100), on_thread("g", 0, 40), on_device("fusion", 0, 60))
    found = total_changes([before], [make_ranges(on_thread("f", 0, 100), on_device("fusion", 0, 20))])
    assert found.host[["name", "change_ns"]].to_numpy().tolist() == [["f", 40_000], ["g", -40_000]]
    assert found.device_total.change_share == pytest.approx(-2 / 3)
    assert not found.per_step


def test_a_share_of_nothing_is_unknown():
    found = total_changes([make_snapshot(average("a", 1, 0))], [make_snapshot(average("a", 1, 5))])
    assert math.isnan(found.host_total.change_share)


def test_asynchronous_ranges_alone_have_nothing_to_add_up():
    waits = make_ranges(asynchronous("AllReduce", 0, 10))
    with pytest.raises(MissingData, match="nothing to add up"):
        total_changes([waits], [waits])
    assert sentence(diff_report_on(waits, waits).verdict.sentence) == "Nothing can be told of this recording"


def test_the_report_says_what_is_compared_and_gives_no_word_for_it():
    before, after = make_snapshot(steps(10), average("aten::mm", 10, 600)), make_snapshot(steps(10), average("aten::mm", 10, 300))
    report = diff_report_on(before, after)
    assert plain(sentence(report.verdict.sentence)) == "Self CPU time: 60.0 us -> 30.0 us per step, -50 %"
    assert sentence(report.verdict.lede).startswith("Totals over 10 and 10 steps are divided by their number.")
    assert (report.verdict.tag, report.verdict.bound, report.verdict.confidence) == ("Totals only", "unknown", "low")
    assert {change.word for change in step_changes(report)} == {""}
    totals = diff_report_on(make_snapshot(average("a", 1, 10)), after)
    assert "Totals of the whole recordings are compared" in sentence(totals.verdict.lede)


def test_the_json_has_the_rows_and_says_why_there_is_no_step():
    made = difference(diff_report_on(make_snapshot(average("a", 1, 10)), make_snapshot(average("a", 1, 5))))
    assert made["rows"] == [{
        "kind": "op", "name": "a", "before_us": 10, "after_us": 5, "change_us": -5, "ci_low_us": None, "ci_high_us": None,
        "status": "totals_only", "names_before": ["a"], "names_after": ["a"],
    }]  # fmt: skip
    assert set(made["step"].values()) == {None}
    assert made["steps"] == {"base": None, "new": None}
    assert "no timeline" in made["withheld"]["step"]
    assert made["comparable"]["comparable"] is False
    assert "number of steps is not known" in made["comparable"]["reasons"][0]
    known = difference(diff_report_on(make_snapshot(steps(10)), make_snapshot(steps(20))))
    assert known["comparable"] == {"comparable": True, "reasons": []}
    assert known["steps"] == {"base": 10, "new": 20}


def test_names_that_are_only_written_differently_share_a_row_and_it_says_so():
    found = total_changes([make_snapshot(average("aten::add.Tensor", 10, 600))], [make_snapshot(average("aten::add", 10, 500))])
    assert found.host[["name", "was", "change_ns"]].values.tolist() == [["aten::add", "aten::add.Tensor", -100_000]]
    assert change_table(found.host, 5).rows == (("aten::add", "600.0", "500.0", "\u2212100.0", "aten::add.Tensor"),)
