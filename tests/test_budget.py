"""How many steps a recording can hold."""

import pytest

from longpole.capture.budget import AVERAGED_EVENTS, Budget, Weight
from longpole.capture.window import Plan

PLAN = Plan(steps=20, wait=5, warmup=3)
MS = 1_000_000


@pytest.mark.parametrize(
    ("weight", "steps"),
    [
        (Weight(events=1_000, size_bytes=500_000, step_ns=10 * MS), 20),  # light: all that were planned
        (Weight(events=AVERAGED_EVENTS // 15, size_bytes=500_000, step_ns=10 * MS), 15),  # as many as torch can average
        (Weight(events=50_000, size_bytes=500_000, step_ns=10 * MS), 10),  # at least so many, without torch's averages
        (Weight(events=250_000, size_bytes=500_000, step_ns=10 * MS), 4),  # a million events
        (Weight(events=1_000, size_bytes=64 * 2**20, step_ns=10 * MS), 4),  # 256 MiB
        (Weight(events=1_000, size_bytes=2**30, step_ns=10 * MS), 1),  # one, however heavy
        (Weight(events=1_000, size_bytes=500_000, step_ns=8_000 * MS), 15),  # two minutes
        (Weight(events=1_000, size_bytes=500_000, step_ns=60_000 * MS), 10),  # or ten steps
    ],
)
def test_heavier_steps_are_fewer(weight: Weight, steps: int):
    plan, note = Budget().fitted(PLAN, weight)
    assert plan.steps == steps
    assert (note is None) == (steps == 20)
    if note:
        assert f"{steps} steps were recorded instead of 20: one makes {weight.events:,} events" in note.message


def test_the_rest_of_the_plan_stays():
    plan, _ = Budget().fitted(PLAN, Weight(250_000, 1, 1))
    assert (plan.wait, plan.warmup, plan.after) == (5, 3, 0)
