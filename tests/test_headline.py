"""The numbers of page one and where they come from."""

from dataclasses import replace
from pathlib import Path

import pytest
from make_report import H200, gpu, reports, run_report_of, write

from longpole.reports.formats import plain
from longpole.reports.headline import coverage_line, headlines, provenance, step_changes


def shown(kind: str) -> dict[str, str]:
    return {h.label: plain(f"{h.value} {h.unit}|{h.note}") for h in headlines(reports()[kind])}


def test_a_run_shows_its_step_with_the_interval_of_its_mean():
    assert shown("trace")["Step time, mean"] == "955 us|95 % CI 947.6 to 962.4; 12 steps"


def test_a_bundle_shows_the_step_without_the_profiler_and_the_throughput_then():
    numbers = shown("bundle")
    assert numbers["Without the profiler"] == "510 us|median of 3; profiled 1.87x that"
    assert numbers["Throughput"] == "125,490 samples/s|without the profiler"  # 64 in 510 us
    assert "Throughput" not in shown("trace")


def test_a_host_run_shows_how_many_operators_python_calls_and_the_time_outside_them():
    numbers = shown("trace")
    assert numbers["Operators"] == "72 per step|called from Python; 60 tiny"  # 60 reads, 8 updates, 2 linear, 1 backward, 1 item
    assert numbers["Outside operators"] == "38 %|Python, interpreter, waits"  # 365 of 955


def test_a_gpu_run_shows_how_busy_the_gpu_is():
    numbers = shown("gpu")
    assert numbers["GPU busy"] == "46 %|of the recording"  # 2,700 of 5,900
    assert numbers["GPU at work"] == "2.70 ms|overlapping work counts once"
    assert numbers["Kernels"] == "12 |of 3 names"
    assert "Outside operators" not in numbers


def test_a_recording_without_steps_speaks_of_no_step():
    numbers = shown("no steps")
    assert numbers == {
        "Recording": "1.00 ms|no steps marked",
        "Operators": "3 |called from Python; 0 tiny",
        "Outside operators": "29 %|Python, interpreter, waits",
    }


def test_busy_time_with_launches_that_have_no_kernel_is_a_lower_bound(tmp_path: Path):
    lost = [e for e in gpu() if not (e["cat"] == "kernel" and e["args"]["correlation"] == 51)]
    numbers = {h.label: h.note for h in headlines(run_report_of(write(tmp_path / "lost.json", lost, **H200)))}
    assert numbers["GPU busy"] == "at least, of the recording"


def test_a_busy_share_that_cannot_be_told_is_left_out(tmp_path: Path):
    early = [{**e, "ts": e["ts"] - 200} if e["name"].startswith("void gemm") else e for e in gpu()]
    numbers = {h.label for h in headlines(run_report_of(write(tmp_path / "early.json", early, **H200)))}
    assert "GPU busy" not in numbers
    assert "GPU at work" in numbers


def test_no_run_has_more_than_five_numbers():
    assert all(1 <= len(headlines(report)) <= 5 for report in reports().values() if report.kind == "run")


def test_a_diff_compares_the_mean_the_median_and_the_steps_without_the_profiler():
    rows = [
        [plain(cell) for cell in (c.label, c.before, c.after, c.change, c.relative, c.word)]
        for c in step_changes(reports()["diff"])
    ]
    assert rows == [
        ["Step time, mean", "955.0 us", "465.0 us", "-490.0 us", "-51 %", "faster"],
        ["Step time, median", "955.0 us", "465.0 us", "-490.0 us", "-51 %", "faster"],
        ["Without the profiler, median", "510.0 us", "255.0 us", "-255.0 us", "-50 %", ""],
    ]
    assert len(step_changes(reports()["bare diff"])) == 2


def test_a_run_against_itself_claims_nothing():
    first = step_changes(reports()["gpu diff"])[0]
    assert first.word == "within noise"
    assert plain(first.change) == "0.0 us"


def test_provenance_names_what_is_known_and_leaves_out_the_rest():
    facts = dict(provenance(replace(reports()["bundle"], version="1.2.3"))[0])
    assert facts["Captured"] == "2026-01-15 10:20:30 UTC"
    assert facts["Machine"] == "Example CPU"
    assert facts["Software"] == "Python 3.12.1, PyTorch 2.13.0+cpu"
    assert facts["Code"] == "0123456789ab, with uncommitted changes"
    assert facts["Command"] == "python train.py --steps 12"
    assert len(facts["SHA-256"]) == 64
    assert facts["Report"] == "longpole 1.2.3"
    bare = dict(provenance(replace(reports()["gpu"], version="1.2.3"))[0])
    assert list(bare) == ["Trace", "SHA-256", "Mode", "GPU", "Runtime", "Report"]
    assert (bare["GPU"], bare["Runtime"]) == ("NVIDIA H200", "CUDA 12.4")


def test_the_fates_of_all_events_add_up():
    line = coverage_line(reports()["gpu"], reports()["gpu"].recordings[0])
    assert line == (
        "48 events read: 48 used, 0 ignored (metadata, flows, unknown kinds), 0 dropped. 6 steps: 6 whole, 0 partial. "
        "12 kernels: 12 linked to their launch, 0 not."
    )


def test_savings_without_the_profiler_shrink_as_the_step_does_and_only_on_the_host():
    report = reports()["bundle"]
    first = report.findings[0]
    assert first.saving_unprofiled_ns == pytest.approx(first.saving_ns * 510 / 955)
    assert {finding.saving_unprofiled_ns for finding in reports()["trace"].findings} == {None}
    assert reports()["gpu"].findings == ()


def test_of_runs_that_cannot_be_compared_no_change_is_told():
    mixed = reports()["mixed diff"]
    assert not mixed.result("comparability").comparable
    assert step_changes(mixed) == []


def test_another_tools_trace_shows_how_busy_its_devices_are_and_how_much_it_names():
    assert shown("jax") == {
        "Recording": "1.00 ms|first start to last end",
        "Device busy": "80 %|of the recording; at least one device",
        "Devices at work": "800 us|overlapping work counts once",
        "Device events": "2 |of 2 names",
        "Host ranges": "3 |of 3 names on 1 thread",
    }
    assert shown("pairs") == {
        "Recording": "100 us|first start to last end",
        "Host ranges": "2 |of 2 names on 1 thread",
        "Asynchronous": "1 |of 1 name",
    }


def test_a_snapshot_shows_its_sums_and_the_mean_step_without_statistics():
    assert shown("snapshot") == {
        "Self CPU time": "10.0 ms|all operators and threads, added up",
        "Step time, mean": "1.00 ms|10 steps; no statistics",
        "Calls": "120 |in 3 rows",
    }
    assert shown("gpu snapshot")["Device time"] == "5.00 ms|all device work, added up"


def test_the_provenance_of_other_forms_names_the_tool_or_the_torch():
    facts = dict(provenance(reports()["jax"])[0])
    assert (facts["Trace"], facts["Written by"]) == ("JAX.json", "JAX/XLA")
    assert "Written by" not in dict(provenance(reports()["pairs"])[0])
    assert "Mode" not in facts
    snapshot = dict(provenance(reports()["snapshot"])[0])
    assert (snapshot["Snapshot"], snapshot["Software"]) == ("key_averages.json", "PyTorch 2.13.0")


def test_rows_of_a_snapshot_are_no_events():
    assert (
        coverage_line(reports()["snapshot"], reports()["snapshot"].recordings[0])
        == "3 rows of key_averages() read: 3 used, 0 dropped."
    )


def test_a_diff_of_totals_compares_sums_and_claims_nothing():
    rows = [
        [plain(cell) for cell in (c.label, c.before, c.after, c.change, c.word)] for c in step_changes(reports()["snapshot diff"])
    ]
    assert rows == [["Self CPU time", "1.00 ms", "0.80 ms", "-0.20 ms", ""]]
    assert [c.label for c in step_changes(reports()["jax diff"])] == ["Self time of all ranges", "Time on devices"]
