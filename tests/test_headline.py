"""The numbers of page one and where they come from."""

from dataclasses import replace
from pathlib import Path

import pytest
from make_report import H200, gpu, reports, run_report_of, write

from longpole.reports.formats import plain
from longpole.reports.headline import coverage_line, headlines, provenance, step_changes, unprofiled_savings


def shown(kind: str) -> dict[str, str]:
    return {h.label: plain(f"{h.value} {h.unit}|{h.note}") for h in headlines(reports()[kind])}


def test_a_run_shows_its_step_with_the_interval_of_its_mean():
    assert shown("trace")["Step time, mean"] == "955 us|95 % CI 948.3 to 961.7; 12 steps"


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
        ["Step time, median", "955.0 us", "465.0 us", "-490.0 us", "-51 %", ""],
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
    line = coverage_line(reports()["gpu"].recordings[0])
    assert line == "48 events read: 48 used, 0 ignored (metadata, flows, unknown kinds), 0 dropped."


def test_savings_without_the_profiler_shrink_as_the_step_does_and_only_on_the_host():
    report = reports()["bundle"]
    first = report.findings[0]
    assert unprofiled_savings(report)[first.id] == pytest.approx(first.saving_ns * 510 / 955)
    assert unprofiled_savings(reports()["trace"]) == {}
    assert unprofiled_savings(reports()["gpu"]) == {}


def test_runs_that_cannot_be_compared_get_no_verdict_word():
    mixed = reports()["mixed diff"]
    assert not mixed.result("comparability").comparable
    assert {change.word for change in step_changes(mixed)} == {""}
