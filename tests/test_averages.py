"""A key_averages snapshot alone: torch's own rows, in every report and in the operator table."""

import json
from pathlib import Path

import pytest
from make_report import report_on
from make_trace import average, kernel_average, make_snapshot
from shared_data import names

from longpole.analyze.analyses.op_table import op_table, op_table_by_shape
from longpole.capture.errors import MissingData
from longpole.reports.formats import plain
from longpole.reports.headline import headlines
from longpole.reports.ops_table import torch_table
from longpole.reports.prose import sentence
from longpole.reports.render_json import summary

STEPS = average("ProfilerStep*", 10, 3000, 10_000, is_user_annotation=True)


def test_microseconds_become_the_nearest_nanosecond():
    row = op_table(make_snapshot(average("aten::mm", 2, 10.000_000_4, 20.0005))).rows.iloc[0]
    assert (row["self_cpu_ns"], row["cpu_ns"], row["count"]) == (10_000, 20_000, 2)


def test_rows_keep_the_order_and_the_printed_figures_of_torch():
    printed = torch_table(op_table(make_snapshot(average("b", 1, 10.0005), average("a", 4, 30, 40)))).splitlines()
    assert [line.split()[0] for line in printed[3:5]] == ["b", "a"]
    assert printed[4].split() == ["a", "75.00%", "30.000us", "100.00%", "40.000us", "10.000us", "4"]


def test_what_an_older_torch_called_cuda_is_device_time():
    old = average("aten::mm", 1, 10)
    old = {key.replace("device_time", "cuda_time"): value for key, value in old.items() if key != "is_user_annotation"}
    table = op_table(make_snapshot({**old, "self_cuda_time_total": 7, "cuda_time_total": 7, "cpu_memory_usage": None}))
    assert table.rows["self_device_ns"].tolist() == [7000]
    assert (table.has_device, table.has_memory) == (True, False)


def test_a_snapshot_grouped_by_shape_has_a_row_for_each_shape():
    rows = [average("aten::mm", 1, 10, input_shapes=shapes) for shapes in ([[2, 2]], [[4, 4]])]
    grouped = make_snapshot(*rows, by_shape=True)
    assert op_table_by_shape(grouped).rows["input_shapes"].tolist() == ["[[2, 2]]", "[[4, 4]]"]
    assert op_table(grouped).by_shape
    assert [row["input_shapes"] for row in summary(report_on(grouped))["ops"]] == ["[[2, 2]]", "[[4, 4]]"]


def test_rows_that_differ_in_their_stack_alone_are_one():
    table = op_table(make_snapshot(average("aten::mm", 1, 10, stack=["a"]), average("aten::mm", 2, 5, stack=["b"])))
    assert table.rows[["count", "self_cpu_ns"]].to_numpy().tolist() == [[3, 15_000]]


def test_a_snapshot_without_shapes_cannot_be_grouped_by_them():
    with pytest.raises(MissingData, match="not grouped by input shape"):
        op_table_by_shape(make_snapshot(average("aten::mm", 1, 10)))


def test_steps_are_known_where_the_profiler_marked_them():
    with_steps, without = op_table(make_snapshot(STEPS)), op_table(make_snapshot(average("aten::mm", 1, 10)))
    assert (with_steps.steps_count, with_steps.step_ns) == (10, 1_000_000)
    assert (without.steps_count, without.step_ns) == (None, None)


def test_the_verdict_is_what_holds_most_and_that_there_is_no_timeline():
    verdict = report_on(make_snapshot(STEPS, average("aten::mm", 20, 7000))).verdict
    assert plain(sentence(verdict.sentence)) == "aten::mm holds 70 % of the CPU time in this key_averages snapshot"
    assert plain(sentence(verdict.lede)) == (
        "The snapshot of torch 2.13.0 has totals by operator and no timeline: 2 rows, 20 calls, 10.0 ms of CPU time, "
        "10 steps of 1.00 ms on average. What limits the step is told only of traces."
    )
    assert (verdict.bound, verdict.confidence) == ("unknown", "low")


def test_time_of_a_step_itself_is_time_outside_operators():
    verdict = report_on(make_snapshot(STEPS)).verdict
    assert plain(sentence(verdict.sentence)).startswith("Time outside operators holds 100 % of the CPU time")


def test_with_device_work_its_largest_kernel_leads():
    made = make_snapshot(average("aten::mm", 1, 50, device=30), kernel_average("gemm", 1, 30), kernel_average("copy", 1, 10))
    report = report_on(made)
    assert plain(sentence(report.verdict.sentence)) == "gemm holds 75 % of the device time in this key_averages snapshot"
    assert {h.label: plain(f"{h.value} {h.unit}") for h in headlines(report)} == {
        "Self CPU time": "50.0 us", "Device time": "40.0 us", "Calls": "1 ",
    }  # fmt: skip


def test_the_json_has_the_rows_and_withholds_what_needs_a_timeline():
    made = summary(report_on(make_snapshot(STEPS, average("aten::mm", 20, 7000))))
    assert [(row["name"], row["self_cpu_us"], row["self_cpu_pct"]) for row in made["ops"]] == [
        ("aten::mm", 7000, 70), ("ProfilerStep*", 3000, 30),
    ]  # fmt: skip
    assert (made["measures"]["step_count"], made["measures"]["step_mean_us"]) == (10, 1000)
    assert "no timeline" in made["withheld"]["gpu_busy_pct"]
    assert (made["steps"], made["phases"], made["kernels"]) == ([], [], [])
    assert "window_us" not in made["measures"]
    assert made["source"]["torch"] == "2.13.0"


def test_a_snapshot_without_rows_says_so_in_a_report():
    report = report_on(make_snapshot())
    assert sentence(report.verdict.sentence) == "Nothing can be told of this recording"
    assert sentence(report.verdict.lede).startswith("The snapshot has no rows")
    assert summary(report)["ops"] == []


@pytest.mark.parametrize(
    "path", [name for scenario in ("base", "threads", "workers") for name in names(f"keyavg/*/{scenario}.ka.json")]
)
def test_a_real_snapshot_prints_as_torch_printed_it(path: str, shared: Path):
    snapshot = json.loads((shared / path).read_bytes())
    printed = torch_table(op_table(make_snapshot(*snapshot["rows"], torch=snapshot["torch"])), "self_cpu_time_total", limit=100)
    assert printed.strip() == (shared / path.replace(".ka.json", ".table.txt")).read_text(encoding="utf-8").strip()
