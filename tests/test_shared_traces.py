"""Real traces against figures that were computed exactly from their JSON."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import SHARED, TRACES, names, shared_trace

from longpole.analyze.analyses.gpu_kernels import gpu_kernels
from longpole.analyze.analyses.ranks import ranks
from longpole.analyze.contents import ACROSS_RANKS, ANALYSES, analyses_for
from longpole.analyze.diffs import DIFFS
from longpole.analyze.load import load, load_run
from longpole.analyze.run import run
from longpole.analyze.step_time import step_time
from longpole.capture.errors import BundleError, MissingData
from longpole.reports.model import diff_report, of_ranks, run_report
from longpole.reports.prose import sentence
from longpole.reports.render_json import difference, summary

WITHOUT_GPU = ("hta_nongpu",)


@pytest.mark.parametrize("name", [name for name in TRACES if name not in WITHOUT_GPU])
def test_kernels_by_name_are_exact(shared: Path, name: str):
    found = gpu_kernels(shared_trace(f"traces/{name}.json.gz")).kernels.groupby(["cat", "name"], sort=False)
    ours = found.agg(count=("count", "sum"), total=("total_ns", "sum"), min=("min_ns", "min"), max=("max_ns", "max"))
    want = pd.read_csv(shared / f"traces/kernels/{name}.csv").set_index(["cat", "name"])
    assert set(ours.index) == set(want.index)
    want = want.loc[ours.index]
    assert ours["count"].tolist() == want["count"].tolist()
    for column in ("total", "min", "max"):
        assert ours[column].tolist() == (want[f"{column}_us"] * 1000).round().astype(np.int64).tolist()
    mean_us = ours["total"] / ours["count"] / 1000
    assert mean_us.tolist() == pytest.approx(want["mean_us"].tolist(), abs=0.00051)  # the file has 3 decimals


EXACT = {  # columns of the reference in microseconds -> ours
    "sum_kernel_dur_us": "kernel_sum_ns", "gpu_span_us": "span_ns", "busy_us": "busy_ns", "comp_us": "compute_ns",
    "comm_us": "comm_ns", "exposed_comm_us": "comm_exposed_ns", "memcpy_us": "copy_ns", "exposed_memcpy_us": "copy_exposed_ns",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TRACES if name not in WITHOUT_GPU])
def test_device_time_is_exact(shared: Path, name: str):
    want = pd.read_csv(shared / "traces/reference.csv").set_index("trace").loc[name]
    found = gpu_kernels(shared_trace(f"traces/{name}.json.gz"))
    (device,) = found.devices.to_dict("records")
    assert {ours: device[ours] for ours in EXACT.values()} == {ours: round(want[of] * 1000) for of, ours in EXACT.items()}
    assert device["span_ns"] - device["busy_ns"] == round(want["idle_us"] * 1000)
    assert device["busy_ns"] / device["span_ns"] * 100 == pytest.approx(want["busy_pct"], abs=0.0001)
    assert device["overlap_share"] * 100 == pytest.approx(want["comm_overlap_pct"], abs=0.0001, nan_ok=True)
    assert [device["kernel_count"], device["copy_count"]] == [want["n_kernel"], want["n_memcpy"]]
    assert device["busy_ns"] == device["compute_ns"] + device["comm_exposed_ns"] + device["copy_exposed_ns"]


@pytest.mark.parametrize("name", [name for name in TRACES if name not in WITHOUT_GPU])
def test_streams_and_names_are_exact(shared: Path, name: str):
    want = pd.read_csv(shared / "traces/reference.csv").set_index("trace").loc[name]
    found = gpu_kernels(shared_trace(f"traces/{name}.json.gz"))
    assert len(found.streams) == want["n_streams"]
    assert [found.kernels["count"].sum(), found.kernels["name"].nunique()] == [want["n_gpu"], want["n_distinct_gpu_names"]]
    totals = (found.streams["sum_ns"].sum(), found.kernels["total_ns"].sum(), found.classes["total_ns"].sum())
    assert totals == (round(want["sum_gpu_dur_us"] * 1000),) * 3
    short = found.kernels[["name", "short_name"]].drop_duplicates()
    assert len(short) == short["short_name"].nunique() == want["n_distinct_gpu_names"]


@pytest.mark.parametrize("name", WITHOUT_GPU)
def test_a_trace_without_gpu_work_says_so(shared: Path, name: str):
    with pytest.raises(MissingData):
        gpu_kernels(shared_trace(f"traces/{name}.json.gz"))


@pytest.mark.parametrize("name", TRACES)
def test_events_are_all_accounted_for(shared: Path, name: str):
    want = pd.read_csv(shared / "traces/reference.csv").set_index("trace").loc[name]
    coverage = shared_trace(f"traces/{name}.json.gz").coverage
    assert coverage.used + coverage.repaired + coverage.ignored + coverage.dropped == coverage.total
    assert coverage.total == sum(coverage.by_category.values())
    assert coverage.total == want["n_events"]


@pytest.mark.parametrize("name", TRACES)
def test_phases_and_operators_add_up_to_each_step(shared: Path, name: str):
    found = step_time(shared_trace(f"traces/{name}.json.gz"))
    for by in ("phase", "name"):
        assert found.per_step(by).sum(axis=1).tolist() == found.steps["step_ns"].tolist()


@pytest.mark.parametrize("name", TRACES)
def test_every_analysis_answers_or_says_what_is_missing(shared: Path, name: str):
    trace = shared_trace(f"traces/{name}.json.gz")
    sections = run(ANALYSES, trace)
    assert [(section.result is None) != (section.missing is None) for section in sections] == [True] * len(ANALYSES)
    assert all(0 <= f.low_ns <= f.saving_ns <= f.high_ns for section in sections for f in section.findings)
    assert json.dumps(summary(run_report(sections, trace)), allow_nan=False)


BROKEN = names("broken_json/*/*.json")
CASE_FILES = [name for name in names("field_cases/*") if not name.endswith((".expected.json", ".md"))]


@pytest.mark.parametrize("name", [*BROKEN, *CASE_FILES])
def test_a_file_is_a_trace_or_one_line_that_names_it(shared: Path, name: str):
    try:
        traces = load_run([shared / name])
    except BundleError as refusal:
        assert Path(name).name in str(refusal)
        assert "\n" not in str(refusal)
        return
    for trace in traces:
        coverage = trace.coverage
        assert coverage.used + coverage.repaired + coverage.ignored + coverage.dropped == coverage.total
        run(analyses_for(trace), trace)


EXPECTED = [
    path for path in names("field_cases/*.expected.json")
    if Path(path).name[:2] != "44"  # the diff has a test of its own
]  # fmt: skip


def case_of(path: str) -> str:
    return Path(path).name[:2]


def case(path: str) -> dict[str, Any]:
    return json.loads((SHARED / path).read_text())


def told(expected: dict[str, Any]) -> dict[str, Any]:
    """The JSON on its files: the ranks of one run, or one file that may hold several."""
    traces = load_run([SHARED / "field_cases" / name for name in expected["files"]])
    reports = [run_report(run(analyses_for(trace), trace), trace) for trace in traces]
    return summary(reports[0] if len(reports) == 1 else of_ranks(reports, 0, run(ACROSS_RANKS, *traces)))


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: Path(path).name.removesuffix(".expected.json"))
def test_what_is_said_of_a_field_case_is_right(shared: Path, path: str):
    expected = case(path)
    try:
        found = told(expected)
    except BundleError as refusal:
        assert expected["outcome"] == "refuse", refusal
        return
    assert expected["outcome"] != "refuse"
    said = {**found["coverage"], **found["measures"], "producer": found["source"]["producer"]}
    want = {**expected["report"], **expected.get("recover", {})}
    for name in want.keys() & said.keys():
        assert _asked(said[name], want[name]) == close(want[name]), name
    for name in want.keys() & found["withheld"].keys():
        assert want[name] is None, f"{name} is withheld: {found['withheld'][name]}"


def _asked(said: Any, want: Any) -> Any:
    """Of an object by name those names that are asked for: a trace has others, too."""
    return {key: said.get(key) for key in want} if isinstance(want, dict) and isinstance(said, dict) else said


def close(value: Any) -> Any:
    """Within 0.001 µs or points, also inside an object."""
    numbers = isinstance(value, float | int) or (
        isinstance(value, dict) and all(isinstance(v, float | int) for v in value.values())
    )
    return pytest.approx(value, abs=0.001) if numbers and not isinstance(value, bool) else value


def test_two_ranks_are_told_who_waits_for_whom(shared: Path):
    expected = case("field_cases/27_straggler_two_ranks.expected.json")
    found = told(expected)["measures"]
    assert {name: found[name] for name in expected["report"]} == expected["report"]


def test_ranks_whose_collectives_are_not_the_same_are_not_split(shared: Path):
    traces = [shared_trace(f"traces/{name}.json.gz") for name in ("hta_timeline_r0", "hta_filter_r1")]
    found = ranks(*traces)
    assert found.calls is not None
    assert found.calls.unmatched
    assert "wait_ns" not in found.measures


def test_field_cases_are_compared_in_more_than_a_few_figures(shared: Path):
    compared = 0
    for path in EXPECTED:
        expected = case(path)
        if expected["outcome"].startswith("ok"):
            found = told(expected)
            compared += len(expected["report"].keys() & found["measures"].keys())
    assert compared >= 70


@pytest.mark.parametrize("letter", "abc")
def test_a_file_of_metadata_is_refused_for_that(shared: Path, letter: str):
    with pytest.raises(BundleError, match="no timed events"):
        load(shared / f"field_cases/11_metadata_only_{letter}.json")


def test_each_field_case_that_warns_has_a_warning_or_something_withheld(shared: Path):
    silent = []
    for path in EXPECTED:
        expected = case(path)
        if expected["outcome"] != "ok_with_warnings":
            continue
        found = told(expected)
        costly = [warning for warning in found["warnings"] if not warning["harmless"]]
        if not costly and not found["withheld"].keys() - {"saving_upper_bound_us"}:
            silent.append(case_of(path))
    assert silent == []


def test_a_diff_of_unequal_runs_is_per_step(shared: Path):
    want = case("field_cases/44_diff_base_new.expected.json")["report"]
    before, after = (load(shared / f"field_cases/44_diff_base_new_{side}.json") for side in ("base", "new"))
    found = difference(diff_report(run(DIFFS, [before], [after]), [before], [after]))
    assert found["steps"] == want["steps"]
    step = found["step"]
    assert [step["before_us"], step["after_us"]] == [want["step_mean_us"]["base"], want["step_mean_us"]["new"]]
    assert [step["change_us"], step["change_pct"]] == [want["step_change_us"], want["step_change_pct"]]
    kernels = {row["name"]: row for row in found["rows"] if row["kind"] == "kernel"}
    assert {name: [row["before_us"], row["after_us"]] for name, row in kernels.items()} == want["per_step_us"]
    assert {name for name, row in kernels.items() if row["status"] != "within_noise"} == set(want["significant"])
    assert {name for name, row in kernels.items() if row["status"] == "within_noise"} == set(want["not_significant"])
    assert [row["name"] for row in found["rows"] if row["kind"] == "kernel"][:3] == ["demo_gemm", "demo_unfused", "demo_fused"]


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_against_itself_has_no_changed_row(shared: Path, name: str):
    trace = shared_trace(f"traces/{name}.json.gz")
    found = difference(diff_report(run(DIFFS, [trace], [trace]), [trace], [trace]))
    assert {row["status"] for row in found["rows"]} <= {"within_noise", "too_few_steps"}
    assert found["step"]["verdict"] in ("within_noise", "too_few_steps")
    assert re.fullmatch(r"1(\.0)?", str(found["step"]["speedup"]))


FIRST_FINDINGS = {
    "37": ("input_pipeline", "make a batch cheaper"),  # 600 µs, no more than a batch's way from a worker takes
    "41": ("launch_bound", "torch.compile"),
    "42": ("pageable_copies", "non_blocking"),
}


@pytest.mark.parametrize("number", ["37", "39", "41", "42"])
def test_the_cause_comes_first_and_nothing_else_is_advised(shared: Path, number: str):
    (path,) = (path for path in (shared / "field_cases").glob(f"{number}_*.json") if "expected" not in path.name)
    trace = load(path)
    findings = run_report(run(analyses_for(trace), trace), trace).findings
    found = [(f.id, FIRST_FINDINGS[number][1] in sentence(f.advice)) for f in findings]
    assert found == ([(FIRST_FINDINGS[number][0], True)] if number in FIRST_FINDINGS else [])


def test_a_first_collective_that_spins_is_no_headline(shared: Path):
    trace = load(shared / "field_cases/29_profiler_start_skew.json")
    report = run_report(run(analyses_for(trace), trace), trace)
    assert report.verdict.bound != "communication"
    assert report.verdict.sentence.values["compute_share"] == pytest.approx(0.89087, abs=1e-5)
