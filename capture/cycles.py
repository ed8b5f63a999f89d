"""A profiler of your own, with its schedule -> a bundle for each of its cycles.

    plan = torch.profiler.schedule(wait=5, warmup=3, active=10)
    with torch.profiler.profile(schedule=plan, on_trace_ready=bundle_handler("runs/base")) as prof:
        for batch in loader:
            ...
            prof.step()

The first cycle goes to `runs/base`, the second to `runs/base-2`, and so on.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .assemble import About, Outcome, raise_interrupt, write_bundle
from .bundle import HealthNote, Manifest
from .errors import CaptureError
from .launch import this_launch
from .machine import model_facts
from .memory_history import MemoryHistory
from .recorder import known_mode, now
from .staging import Staging, discard, prepared
from .window import EXPORT_NAME, cuda_available, require_torch

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.profiler import profile


def bundle_handler(
    folder: Path | str,
    *,
    title: str | None = None,
    mode: str | None = None,
    samples_per_step: int | None = None,
    seed: int | None = None,
    program: dict[str, Any] | None = None,
    model: "Module | None" = None,
    force: bool = False,
) -> "BundleHandler":
    """Make an `on_trace_ready` that writes each cycle as a bundle; what it is told means the same as for `record`.

    Raises CaptureError at once where the folder is in use (without `force`) or cannot be written. Later nothing is raised, for
    that would end the loop: a sentence on stderr says what failed, and the handler's `failures` keep it.
    """
    require_torch()
    facts = {**({} if seed is None else {"seed": seed}), **model_facts(model), **(program or {})}
    about = About(title or Path(folder).resolve().name, "", known_mode(mode), samples_per_step, facts)
    discard(prepared(Path(folder), force=force, launch=this_launch()))
    return BundleHandler(Path(folder), about, force)


class BundleHandler:
    """Called by the profiler at the end of each cycle. `bundles`: those that were made; `failures`: why others were not."""

    def __init__(self, folder: Path, about: About, force: bool) -> None:
        self.bundles: list[Path] = []
        self.failures: list[CaptureError] = []
        self._folder, self._about, self._force = folder, about, force
        self._cycles = 0
        self._saved_step = -1  # the last step of the cycle before

    def __call__(self, profiler: "profile") -> None:
        """Write the cycle that is over; nothing is raised."""
        try:
            self._write(profiler)
        except CaptureError as failure:
            self._fail(failure)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it must not end the user's training
            error = CaptureError(f"The cycle could not be written: {failure!r}. The loop itself was not touched.")
            error.__cause__ = failure
            self._fail(error)

    def _write(self, profiler: "profile") -> None:
        cycle = cycle_of(profiler, self._saved_step)
        self._saved_step = cycle.last_step
        if cycle.marks_steps and not cycle.steps and not isinstance(cycle.raised, Exception):
            return  # the loop ended as the cycle began
        self._cycles += 1
        folder = self._folder if self._cycles == 1 else self._folder.with_name(f"{self._folder.name}-{self._cycles}")
        staging = prepared(folder, force=self._force, launch=this_launch())
        try:
            manifest = self._assemble(profiler, cycle, staging)
        finally:
            discard(staging)
        self.bundles.append(folder)
        raise_interrupt(manifest)

    def _assemble(self, profiler: "profile", cycle: "Cycle", staging: Staging) -> Manifest:
        export = staging.hidden / EXPORT_NAME
        try:
            profiler.export_chrome_trace(str(export))
        except RuntimeError as failure:
            raise CaptureError(
                f"torch cannot write the trace ({failure}); give the profiler no other handler that exports the same cycle."
            ) from failure
        if not export.is_file():  # torch reports a failed write on stderr only
            raise CaptureError(f"torch wrote no trace into {staging.folder}; check that the disk has space and is writable.")
        notes = [*([] if cycle.marks_steps else [NO_STEPS]), *([ACCUMULATED] if getattr(profiler, "acc_events", False) else [])]
        outcome = Outcome(cycle.steps, (), cycle.ended_early, notes=tuple(notes))
        setup = Setup(profiler.record_shapes, profiler.with_stack, profiler.profile_memory, self._cycles)
        about = replace(self._about, captured_at=now())
        return write_bundle(staging, setup, _Finished(_records_cuda(profiler), profiler, export), about, outcome)

    def _fail(self, failure: CaptureError) -> None:
        self.failures.append(failure)
        sys.stderr.write(f"longpole: {failure}\n")


NO_STEPS = HealthNote(
    "no_steps", "The profiler has no schedule, so no steps are marked: give it one, and call its step() once a turn."
)
ACCUMULATED = HealthNote("snapshot_of_all_cycles", "acc_events=True: key_averages() holds the events of the cycles before too.")


@dataclass(frozen=True)
class Setup:
    """What the profiler was asked for, and which of its cycles this is."""

    shapes: bool
    stacks: bool
    memory: bool
    cycle: int


@dataclass
class _Finished:
    cuda: bool
    profiler: Any
    export: Path
    lost: bool = False
    memory_history: MemoryHistory | None = None  # what the profiler's own options say of memory stands in the trace


# Cycles


@dataclass(frozen=True)
class Cycle:
    """The whole steps of a cycle, the number of its last one, and what ended the loop inside it, if anything did."""

    steps: int
    last_step: int
    ended_early: HealthNote | None = None
    raised: BaseException | None = None
    marks_steps: bool = True


def cycle_of(profiler: "profile", saved_step: int) -> Cycle:
    """The cycle that is over. `saved_step`: the last one of the cycle before.

    The profiler does not say whether its handler runs after the last step or because the loop ended inside a cycle: the schedule
    tells, for a cycle that was saved already cannot end again.
    """
    from torch.profiler import ProfilerAction

    if not profiler.record_steps:
        return Cycle(0, profiler.step_num, marks_steps=False)
    last = profiler.step_num - 1
    if last > saved_step and profiler.schedule(last) == ProfilerAction.RECORD_AND_SAVE:
        return Cycle(_recorded_until(profiler, last, saved_step), last)
    steps, raised = _recorded_until(profiler, last, saved_step), sys.exc_info()[1]
    return Cycle(steps, profiler.step_num, _early_note(steps, raised), raised)


def _recorded_until(profiler: "profile", last: int, saved_step: int) -> int:
    """Steps of the cycle up to its last whole one."""
    from torch.profiler import ProfilerAction

    first = last
    while first > saved_step and profiler.schedule(first) in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
        first -= 1
    return last - first


def _early_note(steps: int, raised: BaseException | None) -> HealthNote:
    where = f"after {steps} recorded steps; the last step range in the trace is not a whole step"
    if raised is not None:
        return HealthNote("exception", f"The loop raised {type(raised).__name__} {where}.")
    return HealthNote("loop_ended", f"The loop ended {where}.")


def _records_cuda(profiler: "profile") -> bool:
    from torch.profiler import ProfilerActivity

    return ProfilerActivity.CUDA in profiler.activities and cuda_available()
