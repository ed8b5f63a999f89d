"""Pairs of the shared test data: what their reference figures say, and whether comparing them answers at all."""

import csv
import json
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader
from shared_data import SHARED, shared_trace

from longpole.analyze.diffs import diffs_for
from longpole.analyze.diffs.call_changes import call_changes
from longpole.analyze.diffs.op_changes import OpChanges, op_changes
from longpole.analyze.diffs.step_change import step_change
from longpole.analyze.run import run
from longpole.reports.model import diff_report
from longpole.reports.render_json import render_json
from longpole.reports.render_pdf import render_pdf

PAIRS = [
    ("hta_control", "hta_test"),  # eager against compiled, one GPU model against another
    ("torch_compile_triton", "hta_triton"),
    ("h100_bert", "h100_falconsai"),
    ("h100_qwen", "h100_timesformer"),
    ("hta_control", "hta_nongpu"),  # with and without a GPU
    ("mi210_gpu_only", "sglang_decode"),
]
STEPS = 6  # of both of the first pair; all of them count


def case_44(side: str) -> str:
    return f"field_cases/44_diff_base_new_{side}.json"


def test_a_pair_with_one_real_change_one_noisy_kernel_and_one_that_was_fused(shared: Path):
    told = json.loads((shared / "field_cases" / "44_diff_base_new.expected.json").read_text())["report"]
    before, after = (shared_trace(case_44(side)) for side in ("base", "new"))
    step, kernels = step_change([before], [after]), op_changes([before], [after]).kernels
    assert {"base": step.before.count, "new": step.after.count} == told["steps"]
    assert {"base": step.before.mean_ns / 1000, "new": step.after.mean_ns / 1000} == told["step_mean_us"]
    assert step.change_ns / 1000 == told["step_change_us"]
    rows = kernels.set_index("name")
    per_step = {name: [rows.loc[name, "before_ns"] / 1000, rows.loc[name, "after_ns"] / 1000] for name in told["per_step_us"]}
    assert per_step == told["per_step_us"]
    assert set(rows.index[rows["status"] != "within_noise"]) == set(told["significant"])
    assert set(rows.index[rows["status"] == "within_noise"]) == set(told["not_significant"])
    assert (rows.loc["demo_unfused", "status"], rows.loc["demo_fused", "status"]) == ("removed", "added")
    assert kernels["name"].tolist()[:3] == ["demo_gemm", "demo_unfused", "demo_fused"]


def listed(name: str) -> dict[str, tuple[int, float]]:
    """From the list of all device events of a file: how often and how many us in all, by name."""
    with (SHARED / "traces" / "kernels" / f"{name}.csv").open(encoding="utf-8", newline="") as rows:
        return {row["name"]: (int(row["count"]), float(row["total_us"])) for row in csv.DictReader(rows)}


@cache
def hta() -> OpChanges:
    return op_changes(*([shared_trace(f"traces/{name}.json.gz")] for name in ("hta_control", "hta_test")))


def test_kernels_that_came_and_went_are_those_of_the_lists(shared: Path):
    before, after, rows = listed("hta_control"), listed("hta_test"), hta().kernels
    old, new = ({name for names in rows[side] for name in names} for side in ("names_before", "names_after"))
    assert old == set(before)
    assert new <= set(after)  # all but what no step launched
    exact = rows[rows["names_before"] == rows["names_after"]]
    assert {names[0] for names in exact["names_before"]} == set(before) & new
    matched = rows[(rows["was"] != "")]
    removed = {name for names in rows.loc[rows["names_after"].map(len) == 0, "names_before"] for name in names}
    added = {name for names in rows.loc[rows["names_before"].map(len) == 0, "names_after"] for name in names}
    assert removed | {name for names in matched["names_before"] for name in names} == set(before) - new
    assert added | {name for names in matched["names_after"] for name in names} == new - set(before)
    assert (len(set(before) - set(after)), len(set(after) - set(before))) == (66, 27)


def test_a_step_runs_each_kernel_as_often_and_as_long_as_in_the_lists(shared: Path):
    before, after, rows = listed("hta_control"), listed("hta_test"), hta().kernels
    assert hta().before_outside_ns == 0
    for row in rows.to_dict("records"):
        was = [before[name] for name in row["names_before"]]
        assert row["before_count"] * STEPS == pytest.approx(sum(count for count, _ in was))
        assert row["before_ns"] * STEPS / 1000 == pytest.approx(sum(us for _, us in was))
        now = [after[name] for name in row["names_after"]]
        assert row["after_count"] * STEPS <= sum(count for count, _ in now) + 1e-6
    # The second file begins with work whose launch it does not hold: that belongs to no step.
    all_us = sum(us for _, us in after.values())
    assert rows["after_ns"].sum() * STEPS / 1000 + hta().after_outside_ns / 1000 == pytest.approx(all_us)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda name: str(name))
def test_unlike_recordings_are_compared_and_what_explains_their_change_adds_up(shared: Path, before: str, after: str):
    old, new = (shared_trace(f"traces/{name}.json.gz") for name in (before, after))
    rows = call_changes([old], [new]).rows
    assert rows["change_ns"].sum() == pytest.approx(step_change([old], [new]).change_ns)
    report = diff_report(run(diffs_for([old], [new]), [old], [new]), [old], [new])
    told = json.loads(render_json(report))
    assert {row["status"] for row in told["rows"]} <= {"changed", "within_noise", "added", "removed", "too_few_steps"}
    assert sum(call["change_us"] for call in told["calls"]) == pytest.approx(told["step"]["change_us"], abs=0.1)


def test_a_run_against_itself_has_no_changed_row(shared: Path):
    trace = shared_trace("traces/hta_control.json.gz")
    told = json.loads(render_json(diff_report(run(diffs_for([trace], [trace]), [trace], [trace]), [trace], [trace])))
    assert {row["status"] for row in told["rows"]} == {"within_noise"}
    assert all(row["kernels_removed"] == row["kernels_added"] == [] for row in told["device_time_by_op"])


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # WeasyPrint leaves its colour profile open
def test_the_print_of_a_diff_with_stacks_memory_and_a_gpu_has_two_pages(shared: Path):
    old, new = (shared_trace(f"traces/{name}.json.gz") for name in ("h100_bert", "h100_falconsai"))
    report = diff_report(run(diffs_for([old], [new]), [old], [new]), [old], [new], anyway=True)
    assert {section.name for section in report.sections if section.result} >= {"module_changes", "memory_changes", "call_changes"}
    assert len(PdfReader(BytesIO(render_pdf(report))).pages) == 2
