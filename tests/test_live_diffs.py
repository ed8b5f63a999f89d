"""Real captures compared: the DQN before its fix, after it, after it once more, and a little slower.

The environment of the last three takes PACE_S a step, so that what else runs on the machine is a small part of it.
"""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from longpole.capture.recorder import record
from longpole.capture.workloads.dqn import Agent, Variant, one_thread

pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")

from longpole.reports.cli import cli  # noqa: E402

PACE_S = 0.15
STEP_S = PACE_S + 0.003  # what a step takes about
RUNS, STEPS = 6, 6
VARIANTS: tuple[Variant, ...] = ("before", "after")


class Paced(gymnasium.Wrapper):
    """An environment that takes its time."""

    def __init__(self, environment: "gymnasium.Env", pace_s: float) -> None:
        super().__init__(environment)
        self.pace_s = pace_s

    def step(self, action: int):
        time.sleep(self.pace_s)
        return self.env.step(action)


def captured(folder: Path, variant: Variant, pace_s: float, steps: int = STEPS) -> str:
    with one_thread(), Agent(variant, 0, "cpu") as agent:
        agent.play_at_random()
        agent.environment = Paced(agent.environment, pace_s)
        with record(folder, steps=steps, wait=2, warmup=2, mode="training", title=folder.name) as rec:
            while not rec.done:
                agent.step(rec.phase)
                rec.step()
    return str(folder)


def verdict(before: list[str], after: list[str]) -> str:
    done = CliRunner().invoke(cli, ["diff", *before, "--", *after, "--json", "--processes", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["step"]["verdict"]


def alternated(folder: Path, *kinds: tuple[str, Variant, float]) -> list[list[str]]:
    """RUNS of each kind in turn: what drifts on the machine is in all of them."""
    made = [[captured(folder / f"{name}{n}", variant, pace_s) for name, variant, pace_s in kinds] for n in range(RUNS)]
    return [list(runs) for runs in zip(*made, strict=True)]


def test_the_fix_of_the_dqn_makes_its_step_faster(tmp_path: Path):
    before, after = (captured(tmp_path / name, name, pace_s=0, steps=40) for name in VARIANTS)
    assert verdict([before], [after]) == "faster"
    check = CliRunner().invoke(cli, ["check", before, after, "--processes", "1"])
    assert check.exit_code == 0, check.output
    back = CliRunner().invoke(cli, ["check", after, before, "--processes", "1"])
    assert back.exit_code == 1, back.output


def test_the_same_program_again_is_within_noise_and_one_that_sleeps_three_per_cent_longer_is_slower(tmp_path: Path):
    """One comparison in twenty of a program with itself may claim a difference by chance; of two tries both seldom do."""
    claims = []
    for attempt in ("first", "second"):
        kinds = ("after", PACE_S), ("again", PACE_S), ("slower", PACE_S + 0.03 * STEP_S)
        after, again, slower = alternated(tmp_path / attempt, *((name, "after", pace_s) for name, pace_s in kinds))
        claims.append((verdict(after, again), verdict(after, slower)))
        if claims[-1] == ("within_noise", "slower"):
            break
    assert claims[-1] == ("within_noise", "slower"), claims
