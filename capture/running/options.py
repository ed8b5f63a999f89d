"""What `longpole run` and `watch` may be asked for -> the plans of their recordings."""

from dataclasses import dataclass
from pathlib import Path

from ..window import Plan
from .loop import StepOn

DETAIL_STEPS = 5


@dataclass(frozen=True)
class Options:
    """What `longpole run` was asked for. `steps`: None for as many as the budget holds, at most `usual_steps`."""

    folder: Path
    title: str
    command: str | None = None  # where it is not what sys.argv says
    steps: int | None = None
    wait: int = 5
    warmup: int = 3
    after: int = 5
    usual_steps: int = 20
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    detail: bool = False
    step_on: StepOn = "auto"
    stop_after: bool = False
    samples_per_step: int | None = None
    force: bool = False

    @property
    def plan(self) -> Plan:
        """Of the first pass; CaptureError when it cannot be recorded."""
        steps = self.steps or self.usual_steps
        return Plan(steps, self.wait, self.warmup, self.shapes, self.stacks, self.memory, self.after)

    @property
    def detail_plan(self) -> Plan:
        """Of the second pass: everything that slows steps down, for a few of them."""
        return Plan(min(DETAIL_STEPS, self.plan.steps), 1, self.warmup, shapes=True, stacks=True, memory=True)
