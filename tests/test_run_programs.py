"""Programs of different shape, one command each: the bundle is whole, and its phases are those the program measured itself."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from run_program import PROGRAMS, Ran, run_watched

from longpole.analyze.load import load
from longpole.analyze.step_time import step_time

pytestmark = [pytest.mark.live, pytest.mark.skipif(find_spec("torch") is None, reason="torch is needed to run programs")]

MARK = "annotated "  # as tests/programs/annotated.py has it
NEAR, NEAR_MS = 0.25, 1.0  # what two ways to measure a part of a step differ by at most, on a busy machine


def phases_ms(bundle: Path) -> dict[str, float]:
    """Median over the recorded steps, by phase."""
    return dict(step_time(load(bundle)).per_step("phase").median() / 1e6)


def measured_ms(ran: Ran) -> dict[str, float]:
    """The same of the same steps by the program's own stopwatch. (Where a step begins, longpole works, and not in the step.)"""
    first = int(ran.manifest.program["first_recorded_step"])
    steps = ran.stopwatch[first : first + ran.manifest.options["recorded_steps"]]
    assert len(steps) == ran.manifest.options["recorded_steps"]
    parts = {part for step in steps for part in step}
    return {part: median(step.get(part, 0.0) for step in steps) * 1e3 for part in parts}


def assert_as_measured(ran: Ran) -> None:
    assert ran.status == 0, ran.errors
    assert ran.manifest.complete
    found = phases_ms(ran.bundle)
    for part, expected in measured_ms(ran).items():
        assert found[part] == pytest.approx(expected, rel=NEAR, abs=NEAR_MS), (part, found)


def facts(ran: Ran, *names: str) -> Sequence[object]:
    return [ran.manifest.program[name] for name in names]


def test_training_with_a_loader_and_an_evaluation(tmp_path: Path):
    ran = run_watched(tmp_path, PROGRAMS / "classify.py", "--epochs", "3")
    assert_as_measured(ran)
    assert ran.output.startswith("epoch 0: ")
    assert ran.manifest.mode == "training"
    assert ran.manifest.samples_per_step == 8
    assert facts(ran, "step_ends_on", "models") == ["optimizer SGD", "Net"]
    assert "evaluation" in phases_ms(ran.bundle)  # 14 steps an epoch, and 20 are recorded: one evaluation is among them
    assert ran.manifest.program["parameters"] == 4 * 10 + 4 * 145


def test_two_optimizers_that_take_turns(tmp_path: Path):
    ran = run_watched(tmp_path, PROGRAMS / "adversaries.py")
    assert_as_measured(ran)
    assert facts(ran, "step_ends_on", "models") == ["optimizer Adam", "Sleepy, Sequential"]


def test_gradients_of_several_batches_in_mixed_precision(tmp_path: Path):
    ran = run_watched(tmp_path, PROGRAMS / "accumulate.py")
    assert_as_measured(ran)
    assert ran.manifest.samples_per_step == 4 * 8
    assert facts(ran, "step_ends_on") == ["optimizer AdamW"]


def test_an_optimizer_that_calls_back_for_its_loss(tmp_path: Path):
    ran = run_watched(tmp_path, PROGRAMS / "closures.py")
    assert_as_measured(ran)
    assert facts(ran, "step_ends_on") == ["optimizer Patient"]


@pytest.mark.skipif(find_spec("gymnasium") is None, reason="gymnasium is needed to play")
def test_an_agent_in_its_environment(tmp_path: Path):
    ran = run_watched(tmp_path, PROGRAMS / "play.py")
    assert_as_measured(ran)
    assert phases_ms(ran.bundle)["environment"] > 10 * 0.5  # ten moves of half a millisecond


def test_a_module_that_writes_token_by_token(tmp_path: Path):
    ran = run_watched(tmp_path, "package", "50", options=["-m"])
    assert_as_measured(ran)
    assert ran.output.startswith("50 tokens by __main__ ['50']")
    assert ran.manifest.mode == "inference"
    assert facts(ran, "step_ends_on", "models", "optimizers") == ["module", "Decoder", None]


PHASE_SHARE = 0.03  # of the step, in which a phase that was found and one that was marked may differ
ALIKE = {"forward", "loss", "backward", "optimizer", "data_loading", "environment"}  # what others are called, nobody can find
JOBS = ("mlp", "convnet", "transformer", "generate", "dqn")


@pytest.mark.parametrize("workload", JOBS)
def test_the_phases_of_a_bundled_workload_are_those_it_marks_itself(tmp_path: Path, workload: str):
    if workload == "dqn":
        pytest.importorskip("gymnasium", reason="gymnasium is needed to play")
    for attempt in ("first", "second"):  # another program on the machine may come between two marks
        (folder := tmp_path / attempt).mkdir()
        ran = run_watched(folder, PROGRAMS / "annotated.py", workload, options=["--steps", "20"])
        assert ran.status == 0, ran.errors
        apart = phases_apart(ran.bundle)
        if not apart:
            return
    pytest.fail(str(apart))


def phases_apart(bundle: Path) -> dict[str, tuple[float, float]]:
    """Found and marked median, ns, of the phases in which these differ by more than PHASE_SHARE of the median step."""
    trace = load(bundle)
    found, steps = step_time(trace).per_step("phase"), step_time(trace).steps
    marked = {phase: np.zeros(len(steps)) for phase in ALIKE}
    for name, start, end in zip(trace.host.name, trace.host.start_ns, trace.host.end_ns, strict=True):
        mark, _, phase = str(trace.names[name]).partition(MARK)
        if not mark and phase in ALIKE:  # a mark around the first call of a step begins in the step before
            marked[phase] += (np.minimum(steps["end_ns"], end) - np.maximum(steps["start_ns"], start)).clip(lower=0).to_numpy()
    assert np.median(marked["forward"]) > 0
    medians = {  # the first step lacks the mark that began before the profiler did
        phase: (float(found[phase].median()) if phase in found else 0.0, float(np.median(ns))) for phase, ns in marked.items()
    }
    allowed_ns = PHASE_SHARE * steps["step_ns"].median()
    return {phase: pair for phase, pair in medians.items() if abs(pair[0] - pair[1]) > allowed_ns}
