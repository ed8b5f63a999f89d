"""Each bundled workload: `after` computes what `before` does, captures are whole, reports name what `before` does wrong."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from click.testing import CliRunner
from make_report import run_report_of

from longpole.analyze.load import load
from longpole.analyze.step_time import step_time
from longpole.capture.bundle import read_manifest
from longpole.capture.errors import CaptureError
from longpole.capture.workloads import WORKLOADS
from longpole.capture.workloads.loops import Setup, Variant, one_thread

torch = pytest.importorskip("torch")

from longpole.capture.workloads import convnet, generate, mlp, transformer  # noqa: E402
from longpole.reports.cli import cli  # noqa: E402

SHORT: dict[str, Any] = {"steps": 40, "wait": 10, "warmup": 2, "device": "cpu"}
VARIANTS: tuple[Variant, ...] = ("before", "after")
TRAINING = {"data_loading", "forward", "loss", "backward", "optimizer", "other"}
JOBS = {"mlp": mlp.job, "convnet": convnet.job, "transformer": transformer.job, "generate": generate.job}
EXPECTED = {  # mode, samples of a step, its phases
    "mlp": ("training", 64, TRAINING),
    "convnet": ("training", 32, TRAINING),
    "transformer": ("training", 4, TRAINING),
    "generate": ("inference", 16, {"input", "forward", "sampling", "other"}),
}
PLANTED = [
    ("mlp", "repeated_ops:data_loading"),
    ("mlp", "data_wait"),
    ("mlp", "optimizer_step"),
    ("convnet", "casts"),
    ("convnet", "zero_grad"),
    ("convnet", "readbacks:logging"),
    ("transformer", "optimizer_step"),
    ("transformer", "scalar_reads"),
    ("generate", "repeated_ops:sampling"),
]
needs_gymnasium = pytest.mark.skipif(not __import__("importlib.util").util.find_spec("gymnasium"), reason="needs gymnasium")


def results(name: str, variant: Variant, turns: int, seed: int) -> list[float]:
    with one_thread():
        return list(JOBS[name](Setup(variant, turns, seed)).run())


@cache
def captured(name: str, variant: str, attempt: int = 1) -> Path:
    """A bundle, recorded once for all tests."""
    return WORKLOADS[name].capture(Path(mkdtemp()) / variant, variant=variant, **SHORT)


@cache
def savings(name: str, variant: str) -> dict[str, float]:
    """Expected saving of each finding, by id."""
    return {finding.id: finding.saving_ns for finding in run_report_of(captured(name, variant)).findings}


@pytest.mark.parametrize("name", ["mlp", "convnet", "transformer"])
def test_both_variants_of_a_training_have_the_same_losses_and_learn(name: str):
    before, after = (results(name, variant, 150, seed=3) for variant in VARIANTS)
    assert after == pytest.approx(before, rel=1e-2)
    assert sum(after[-10:]) < 0.9 * sum(after[:10])


def test_both_variants_of_generation_draw_the_same_tokens():
    turns = 2 * generate.REPLY + 3
    before, after = (results("generate", variant, turns, seed=3) for variant in VARIANTS)
    assert before == after
    assert len(before) == turns * generate.BATCH
    assert len(set(before)) > generate.TOKENS / 2


@pytest.mark.parametrize("name", JOBS)
def test_another_seed_computes_something_else(name: str):
    assert results(name, "after", 3, seed=1) != results(name, "after", 3, seed=2)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_capture_is_whole_and_says_what_it_is(name: str, variant: str):
    manifest = read_manifest(captured(name, variant))
    mode, samples, phases = EXPECTED[name]
    assert (manifest.mode, manifest.samples_per_step, manifest.complete) == (mode, samples, True)
    assert [note.code for note in manifest.health] == ["no_shapes"]
    assert (manifest.program["workload"], manifest.program["variant"]) == (name, variant)
    assert len(manifest.unprofiled_step_ns) == SHORT["wait"]
    found = step_time(load(captured(name, variant)))
    assert (len(found.steps), set(found.phases)) == (SHORT["steps"], phases)


@pytest.mark.parametrize(("name", "finding"), PLANTED)
def test_a_report_names_what_before_does_wrong_and_not_so_for_after(name: str, finding: str):
    before, after = (savings(name, variant) for variant in VARIANTS)
    assert finding in before
    assert after.get(finding, 0) < before[finding] / 2


@pytest.mark.parametrize("name", EXPECTED)
def test_a_diff_says_that_after_is_faster(name: str):
    """On a busy machine the steps of one capture may spread too widely to tell: then another pair does."""
    verdict = None
    for attempt in (1, 2):
        runs = [str(captured(name, variant, attempt)) for variant in VARIANTS]
        done = CliRunner().invoke(cli, ["diff", *runs, "--json", "--processes", "1"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        verdict = json.loads(done.stdout)["step"]["verdict"]
        if verdict == "faster":
            break
    assert verdict == "faster"


@pytest.mark.parametrize("name", [*JOBS, pytest.param("dqn", marks=needs_gymnasium)])
def test_a_workload_runs_by_itself_and_prints_one_line(name: str):
    turns = "--updates" if name == "dqn" else "--steps"
    command = [sys.executable, "-m", f"longpole.capture.workloads.{name}", "--variant", "after", turns, "5", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "after: " in done.stdout
    assert done.stdout.endswith(" samples/s\n")


def test_a_capture_leaves_threads_and_random_numbers_of_the_caller_alone(tmp_path: Path):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    for name in JOBS:
        WORKLOADS[name].capture(tmp_path / name, variant="before", steps=1, wait=1, warmup=1, device="cpu")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_mode_that_a_workload_lacks_is_refused_in_one_sentence(tmp_path: Path):
    for name, mode, has in (("generate", "train", "infer"), ("mlp", "infer", "train")):
        with pytest.raises(CaptureError) as refused:
            WORKLOADS[name].capture(tmp_path / name, mode=mode)
        assert str(refused.value) == f"The workload {name} has no mode {mode}; it has {has}."
    assert list(tmp_path.iterdir()) == []


def test_the_command_knows_the_workloads_and_their_modes():
    shown = CliRunner().invoke(cli, ["capture", "--help"]).stdout
    assert "{" + "|".join(WORKLOADS) + "}" in "".join(shown.split())
    for name, workload in WORKLOADS.items():
        assert "\n" not in workload.description, name
    assert [WORKLOADS[name].modes for name in ("dqn", "mlp", "generate")] == [("train", "infer"), ("train",), ("infer",)]
    unknown = CliRunner().invoke(cli, ["capture", "resnet", "-o", "x"])
    assert unknown.exit_code == 2
    assert "'resnet' is not one of" in unknown.stderr
