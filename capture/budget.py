"""One step under a profiler -> what a step weighs in events and bytes, and how many steps a recording can hold."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from .bundle import HealthNote
from .health import PARSE_LIMIT_BYTES
from .window import Plan, activities, cuda_available, own, quiet_kineto, refuse_second_profiler, synchronize

AVERAGED_EVENTS = 100_000  # that torch reads back for its averages where nobody asked for a number of steps: up to 13 seconds
EVENT = b'"ph"'  # once in every event of a trace


@dataclass(frozen=True)
class Weight:
    """Of one step: its events, their bytes as plain Chrome JSON, and its time under the profiler."""

    events: int
    size_bytes: int
    step_ns: int


@dataclass(frozen=True)
class Budget:
    """What a recording may hold: enough steps for statistics, in a trace that every tool can open.

    `least`: steps that are recorded even if torch's own averages are then left out for their cost. `seconds`: what the recorded
    steps may take; `events` and `size_bytes`: what the trace may hold. These two go before `least`.
    """

    least: int = 10
    events: int = 1_000_000
    size_bytes: int = PARSE_LIMIT_BYTES
    seconds: float = 120.0

    def fitted(self, plan: Plan, weight: Weight) -> tuple[Plan, HealthNote | None]:
        """The plan with as many steps as can be held, at most its own; and what to tell where that is fewer."""
        wanted = min(AVERAGED_EVENTS // max(weight.events, 1), int(self.seconds * 1e9 / max(weight.step_ns, 1)))
        most = min(self.events // max(weight.events, 1), self.size_bytes // max(weight.size_bytes, 1))
        steps = max(min(plan.steps, max(wanted, self.least), most), 1)
        if steps == plan.steps:
            return plan, None
        message = (
            f"{steps} steps were recorded instead of {plan.steps}: one makes {weight.events:,} events and takes"
            f" {weight.step_ns / 1e6:,.1f} ms under the profiler; --steps asks for a number whatever they weigh."
        )
        return replace(plan, steps=steps), HealthNote("steps_reduced", message)


class Probe:
    """A profiler that runs from now until `weight` is asked for, one step later."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        from torch.profiler import profile

        refuse_second_profiler()
        cuda = cuda_available()
        self.file = folder / "probe.json"
        self.profiler = own(
            profile(activities=activities(cuda), record_shapes=plan.shapes, profile_memory=plan.memory, with_stack=plan.stacks)
        )
        with quiet_kineto(cuda):
            self.profiler.start()
        self.began_ns = time.perf_counter_ns()

    def weight(self) -> Weight:
        """Stop, and weigh what was recorded."""
        synchronize()
        step_ns = time.perf_counter_ns() - self.began_ns
        self.profiler.stop()
        self.profiler.export_chrome_trace(str(self.file))
        text = self.file.read_bytes()  # not there when it could not be written
        self.file.unlink()
        return Weight(text.count(EVENT), len(text), step_ns)
