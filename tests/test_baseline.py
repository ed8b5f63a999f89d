import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_trace import allocation, kernel, launch, loop, make_bundle, make_ranges, make_trace, on_thread, op, phase, write_trace

from longpole.analyze.baseline import baseline_json, is_baseline, read_baseline
from longpole.analyze.measured import measured, metric_of
from longpole.capture.errors import BundleError, ChangeError, MissingData
from longpole.reports.cli import cli

STEPS = loop([100, 110, 120], lambda a, b: [phase("forward", a, a + 40), op("aten::mm", a, a + 30)])


def test_a_run_is_measured_in_what_it_recorded():
    found = measured(make_bundle(STEPS, unprofiled_step_ns=(900_000, 90_000, 91_000), program={"git_commit": "abc"})).metrics
    assert {name: metric.values.tolist() for name, metric in found.items()} == {
        "step_us": [100_000, 110_000, 120_000],
        "unprofiled_step_us": [90_000, 91_000],
        "phase:forward": [40_000] * 3,
        "phase:other": [60_000, 70_000, 80_000],
    }


def test_a_first_step_that_still_warms_up_is_set_aside():
    found = measured(make_trace(loop([400, 100, 110, 105], lambda a, b: [op("aten::mm", a, b)])))
    assert found.metrics["step_us"].values.tolist() == [100_000, 110_000, 105_000]
    assert found.set_aside == {"ProfilerStep#0": "still warming up"}


def test_a_gpu_run_is_measured_by_its_gpus_too():
    """A kernel of 30 µs in each step of 100."""
    starts = range(0, 300, 100)
    calls = [launch(n, a, a + 5) for n, a in enumerate(starts, 1)]
    work = [kernel("gemm", a + 10, a + 40, correlation=n) for n, a in enumerate(starts, 1)]
    found = measured(make_trace(loop([100] * 3), calls, work)).metrics
    assert found["gpu_busy_us"].values.tolist() == [30_000] * 3
    assert found["gpu_idle_us"].values.tolist() == [70_000] * 3
    assert (found["kernel_count"].unit, found["kernel_count"].values.tolist()) == ("count", [1, 1, 1])


def test_memory_is_the_peak_of_each_step():
    rows = [allocation(10, 500, 1, 0, total=500), allocation(110, 200, 1, 0, total=700), allocation(150, -700, 1, 0, total=0)]
    found = measured(make_trace(loop([100, 100, 100]), rows, profile_memory=1)).metrics["device_peak_bytes"]
    assert (found.unit, found.values.tolist()) == ("bytes", [500, 700, 0])


def test_operators_are_measured_where_asked_for_and_zero_where_they_do_not_run():
    found = measured(make_trace(STEPS), ["op:aten::mm", "op:aten::gone"]).metrics
    assert found["op:aten::mm"].values.tolist() == [30_000] * 3
    assert found["op:aten::gone"].values.tolist() == [0] * 3


def test_what_is_no_metric_or_was_not_recorded_is_refused():
    with pytest.raises(ChangeError, match="speed is no metric; possible are step_us"):
        metric_of(make_trace(STEPS), "speed")
    with pytest.raises(MissingData, match="memory=True"):
        metric_of(make_trace(STEPS), "device_peak_bytes")
    with pytest.raises(MissingData, match="no single steps"):
        measured(make_ranges(on_thread("f", 0, 10)))


def test_a_baseline_gives_back_what_was_measured(tmp_path: Path):
    found = measured(make_bundle(STEPS, unprofiled_step_ns=(9, 90_123, 91_000)))
    runs = [replace(found, name=name) for name in ("[ 1]", "second")]
    content = baseline_json(runs)
    (tmp_path / "base.json").write_bytes(content)
    assert is_baseline(tmp_path / "base.json")
    read = read_baseline(tmp_path / "base.json")
    assert baseline_json(read) == content
    assert [run.name for run in read] == ["[ 1]", "second"]
    assert read[0].facts == runs[0].facts
    assert read[0].metrics["unprofiled_step_us"].values.tolist() == [90_123, 91_000]
    assert b'"step_us": [100, 110, 120]' in content


def test_a_trace_is_no_baseline(tmp_path: Path):
    (tmp_path / "trace.json").write_text('{"traceEvents": []}', encoding="utf-8")
    assert not is_baseline(tmp_path / "trace.json")
    assert not is_baseline(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": "longpole.baseline/9"}, "install a newer longpole"),
        ({"runs": []}, "a baseline without runs"),
        ({"runs": [{}]}, "damaged baseline"),
        ({"runs": None}, "damaged baseline"),
    ],
)
def test_a_damaged_baseline_is_refused_in_one_sentence(tmp_path: Path, change: dict, why: str):
    content = {**json.loads(baseline_json([measured(make_bundle(STEPS))])), **change}
    path = tmp_path / "base.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BundleError, match=why):
        read_baseline(path)


@pytest.mark.parametrize("values", [[], ["1"], [-1], [1e999], None])
def test_values_that_are_none_are_refused(tmp_path: Path, values: object):
    content = json.loads(baseline_json([measured(make_bundle(STEPS))]))
    content["runs"][0]["metrics"]["step_us"] = values
    path = tmp_path / "base.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BundleError, match="damaged baseline"):
        read_baseline(path)


def test_the_command_keeps_metrics_that_are_asked_for_and_folders_out(tmp_path: Path):
    run, out = write_trace(tmp_path / "run.json", STEPS), tmp_path / "new" / "base.json"
    done = CliRunner().invoke(cli, ["baseline", str(run), "-o", str(out), "--metric", "op:aten::mm", "--processes", "1"])
    assert done.exit_code == 0, done.output
    text = out.read_text(encoding="utf-8")
    assert '"op:aten::mm": [30, 30, 30]' in text
    assert str(tmp_path) not in text
    assert json.loads(text)["runs"][0]["name"] == "run.json"


def test_a_baseline_is_not_written_over_a_run(tmp_path: Path):
    run = write_trace(tmp_path / "run.json", STEPS)
    before = run.read_bytes()
    done = CliRunner().invoke(cli, ["baseline", str(run), "-o", str(run), "--processes", "1"])
    assert done.exit_code == 1
    assert run.read_bytes() == before
