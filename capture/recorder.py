"""A training or inference loop of your own -> a bundle.

    with record("runs/base", steps=20) as rec:
        for batch in rec.steps(loader):
            with rec.phase("forward"):
                ...

The first `wait` steps run without any profiler and are only timed; `warmup` steps follow under the profiler and are
thrown away; then `steps` steps are recorded. The bundle is in place as soon as they are over, and the loop runs on with
nothing attached; the first `after` steps of that are timed again.
"""

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from .assemble import About, Outcome, raise_interrupt, write_bundle
from .beside import Beside, threads_beside
from .budget import Budget, Probe
from .bundle import HealthNote, Manifest, write_manifest
from .core_time import CoreTime, core_time
from .errors import CaptureError
from .machine import model_facts
from .staging import Staging, discard, prepared
from .termination import Terminated, Termination
from .window import Plan, Window, refuse_second_profiler, require_torch, synchronize

if TYPE_CHECKING:
    from torch.nn import Module

Item = TypeVar("Item")
MODES = ("training", "inference", None)
PHASE_PREFIX = "longpole.phase#"
Tell = Callable[[str], None]  # a sentence for the user, where there is no error to raise


@contextmanager
def record(
    folder: Path | str,
    *,
    steps: int = 10,
    wait: int = 5,
    warmup: int = 3,
    after: int = 5,
    shapes: bool = False,
    stacks: bool = False,
    memory: bool = False,
    title: str | None = None,
    mode: str | None = None,
    samples_per_step: int | None = None,
    seed: int | None = None,
    program: dict[str, Any] | None = None,
    model: "Module | None" = None,
    force: bool = False,
) -> Iterator["Recorder"]:
    """Record `steps` steps of the loop inside the `with` block into a bundle.

    A folder that is not empty is refused without `force`; with it, an older bundle is replaced once the new one is
    whole. `program` holds more facts for the manifest: strings, numbers and booleans by name.

    Raises CaptureError on entering when the recording cannot start. What fails later is raised once, on leaving, and
    only if the block itself raised nothing; else it is said on stderr. A loop that ends inside the window leaves an
    incomplete bundle, also where SIGTERM ends the program.
    """
    plan = Plan(steps, wait, warmup, shapes, stacks, memory, after)
    facts = {**({} if seed is None else {"seed": seed}), **model_facts(model), **(program or {})}
    about = About(title or Path(folder).resolve().name, now(), known_mode(mode), samples_per_step, facts)
    require_torch()
    refuse_second_profiler()
    recorder = Recorder(plan, lambda: about, prepared(Path(folder), force=force))
    try:
        yield recorder
    except BaseException as failure:
        recorder.leave(failure)
        if recorder.failure is not None:
            recorder.tell(str(recorder.failure))
        raise
    recorder.leave(None)
    if recorder.failure is not None:
        raise recorder.failure


class Advice(NamedTuple):
    """What to do about a loop that ends too soon, in words of how it is recorded."""

    before_window: str
    inside_window: str


BY_HAND = Advice(
    "A loop that does not go through rec.steps(...) must call rec.step() once per turn.",
    "To stop early, leave the loop once rec.done is True.",
)


class Recorder:
    """What the `with` block of `record` works with. None of its methods ever raises an error of ours into the loop.

    It goes from stage to stage, each told of the end of a step: waiting, measuring what a step weighs (with a `budget`),
    inside the window, after it.
    """

    def __init__(
        self,
        plan: Plan,
        about: Callable[[], About],
        staging: Staging,
        budget: Budget | None = None,
        tell: Tell | None = None,
        advice: Advice = BY_HAND,
    ) -> None:
        self.done = False  # True once the window is over: a loop may stop early then
        self.over = False  # True once there is nothing left to do in the loop
        self.failure: CaptureError | None = None
        self.notes: list[HealthNote] = []  # more for the manifest
        self._plan = plan
        self._about = about
        self._budget = budget
        self._advice = advice
        self._staging = staging
        self.tell = tell or teller(sys.stderr)
        self._process = os.getpid()
        self._termination = Termination(self._terminated)
        self._steps_run = self._window_steps = 0
        self._unprofiled_step_ns: list[int] = []
        self._after_step_ns: list[int] = []
        self._unprofiled_core: CoreTime | None = None
        self._beside: Beside | None = None
        self._manifest: Manifest | None = None
        self._probe: Probe | None = None
        self.loader_workers: int | None = None
        self._stage: Callable[[int], None] = self._waited
        try:
            self._window = Window(plan, staging.hidden)
            self._begin()
        except CaptureError:
            self._clear_away()
            raise
        except Exception as failure:
            self._clear_away()
            raise CaptureError(f"torch.profiler cannot start here ({failure}).") from failure

    @property
    def profiling(self) -> bool:
        """Whether a profiler of ours is attached now."""
        return self._window.running

    @property
    def recorded_steps(self) -> int:
        """Whole steps in the window so far."""
        return max(self._window_steps - self._plan.warmup, 0)

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield every item; one step is fetching an item and what the loop does with it."""
        if self._steps_run == 0 and not self.profiling:
            self._began_ns = time.perf_counter_ns()  # what the block did before its loop belongs to no step
            self._core_began = core_time()
        self.loader_workers = workers_of(items)
        iterator = iter(items)
        while not self.over:
            try:
                with self.phase("data_loading"):
                    item = next(iterator)
            except StopIteration:
                return
            yield item
            self.step()
        yield from iterator

    def step(self) -> None:
        """End a step and begin the next: call it once, at the end of each turn of a loop that does not use `steps`."""
        if self.over or os.getpid() != self._process:
            return
        ended_ns = time.perf_counter_ns()
        self._guarded(lambda: self._advance(ended_ns - self._began_ns))
        self._began_ns = time.perf_counter_ns()

    def restart_step(self) -> None:
        """The step that goes on began only now; what came before belongs to none."""
        self._began_ns = time.perf_counter_ns()
        if not self._steps_run:
            self._core_began = core_time()

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Mark a part of the step: "forward", "loss", "backward", "optimizer", or a name of yours."""
        if not self.profiling:
            return nullcontext()
        from torch.profiler import record_function

        return record_function(phase_range(name))

    def leave(self, failure: BaseException | None) -> None:
        """The loop is over: keep what an unfinished window has, and leave nothing half made behind.

        A process that the loop has forked leaves all that to this one.
        """
        if os.getpid() != self._process:
            return
        try:
            if not self.done:
                self._guarded(lambda: self._end_early(failure))
            elif not self.over and self._manifest:
                self._guarded(self._close)
            elif not self.over:
                came = "SIGTERM" if isinstance(failure, Terminated) else type(failure or KeyboardInterrupt()).__name__
                self._fail(CaptureError(f"{came} came while the recording was written; nothing of it is kept."))
        finally:
            self._clear_away()

    def give_up(self, reason: CaptureError) -> None:
        """Stop profiling at once, and make no bundle."""
        if not self.done:
            self._fail(reason)

    def _begin(self) -> None:
        synchronize()
        self._began_ns = time.perf_counter_ns()
        self._core_began = core_time()
        if self._plan.wait == 0:
            self._open_window()
            self._began_ns = time.perf_counter_ns()

    def _advance(self, step_ns: int) -> None:
        self._steps_run += 1
        self._stage(step_ns)

    def _waited(self, step_ns: int) -> None:
        self._unprofiled_step_ns.append(step_ns)
        if self._steps_run < self._plan.wait:
            return
        self._unprofiled_core = core_time().since(self._core_began)
        if self._budget is None:
            self._open_window()
        else:
            self._probe = Probe(self._plan, self._staging.hidden)
            self._stage = self._probed

    def _probed(self, step_ns: int) -> None:
        assert self._budget and self._probe
        probe, self._probe = self._probe, None
        self._plan, note = self._budget.fitted(self._plan, probe.weight())
        self.notes += [note] if note else []
        self._window = Window(self._plan, self._staging.hidden)
        self._open_window()

    def _open_window(self) -> None:
        self._termination.arm()
        self._window.start()
        self._stage = self._windowed

    def _windowed(self, step_ns: int) -> None:
        self._window_steps += 1
        if self._window_steps == self._plan.warmup:
            synchronize()  # else kernels of the warm-up would run inside the window, without their launches
            self._beside = threads_beside()
        self._window.step()
        if self._window_steps == self._plan.warmup + self._plan.steps:
            self._finish(None)

    def _followed(self, step_ns: int) -> None:
        self._after_step_ns.append(step_ns)
        if len(self._after_step_ns) == self._plan.after:
            self._close()

    def _finish(self, ended_early: HealthNote | None) -> None:
        self.done = True
        beside = self._beside and (self._beside, threads_beside())
        self._window.stop()
        recorded = self.recorded_steps
        unprofiled, notes = tuple(self._unprofiled_step_ns), tuple(self.notes)
        outcome = Outcome(recorded, unprofiled, ended_early, self._unprofiled_core, self.loader_workers, notes, beside)
        self._manifest = write_bundle(self._staging, self._plan, self._window, self._about(), outcome)
        self._stage = self._followed
        if ended_early or not self._plan.after:
            self._close()
        raise_interrupt(self._manifest)

    def _close(self) -> None:
        """Put the times after the window into the manifest."""
        self.over = True
        self._clear_away()
        if self._manifest and self._after_step_ns:
            amended = replace(self._manifest, unprofiled_after_step_ns=tuple(self._after_step_ns))
            try:
                write_manifest(self._staging.folder, amended)
            except OSError as failure:
                untold = "lacks only the times of the steps after the profiler"
                raise CaptureError(f"The recording in {self._staging.folder} is whole and {untold} ({failure}).") from failure

    def _clear_away(self) -> None:
        self._termination.disarm()
        discard(self._staging)

    def _terminated(self) -> None:
        self.leave(Terminated())
        if self.failure is not None:
            self.tell(str(self.failure))

    def _end_early(self, failure: BaseException | None) -> None:
        recorded = self._window_steps - self._plan.warmup
        if recorded < 0 or (recorded == 0 and failure is None):
            raise CaptureError(_too_short(self._steps_run, self._plan, self._advice))
        note = _early_note(failure, recorded, self._plan.steps, self._advice)
        self._finish(note)
        self.tell(f"{note.message} The incomplete recording is kept in {self._staging.folder}.")

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            with self._termination.held():
                action()
        except CaptureError as failure:
            self._fail(failure)
        except OSError as failure:
            self._fail(CaptureError(_unwritten(self._staging.folder, failure)), failure)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it must not end the user's training; raised on leaving
            self._fail(CaptureError(f"The recording failed: {failure!r}. The loop itself was not touched."), failure)

    def _fail(self, failure: CaptureError, cause: Exception | None = None) -> None:
        self.failure = failure
        self.failure.__cause__ = cause or failure.__cause__
        self.done = self.over = True
        with suppress(Exception):  # it may be what failed
            self._window.stop()
        with suppress(Exception):
            if self._probe:
                self._probe.profiler.stop()
        self._clear_away()


def teller(stream: IO[str]) -> Tell:
    """What says a sentence there, unless the program has closed it since."""

    def tell(sentence: str) -> None:
        with suppress(Exception):  # whatever the program has put there: it must not end by our words
            stream.write(f"longpole: {sentence}\n")
            stream.flush()

    return tell


@lru_cache(maxsize=256)
def phase_range(name: str) -> str:
    """The range that marks a phase; its name keeps what Kineto does: printable ASCII without quotes and backslashes."""
    plain = unicodedata.normalize("NFKD", str(name)).encode("ascii", "ignore").decode("ascii")
    kept = "".join(character for character in plain if character.isprintable() and character not in '"\\')
    return PHASE_PREFIX + (kept.strip() or "unnamed")


def workers_of(items: object) -> int | None:
    """Worker processes of a DataLoader."""
    workers = getattr(items, "num_workers", None)
    return workers if isinstance(workers, int) else None


def known_mode(mode: str | None) -> str | None:
    """The mode; CaptureError where it is none."""
    if mode not in MODES:
        raise CaptureError(f'mode={mode!r} is not known; use "training", "inference" or None.')
    return mode


def _too_short(steps_run: int, plan: Plan, advice: Advice) -> str:
    return (
        f"The loop ran {steps_run} steps, and a whole recording needs {plan.steps_needed}"
        f" (wait={plan.wait}, warmup={plan.warmup}, steps={plan.steps}): run more steps, or ask for fewer."
        f" {advice.before_window}"
    )


def _early_note(failure: BaseException | None, recorded: int, steps: int, advice: Advice) -> HealthNote:
    where = f"after {recorded} of {steps} recorded steps; the last step range in the trace is not a whole step"
    if isinstance(failure, Terminated):
        return HealthNote("exception", f"SIGTERM ended the program {where}.")
    if failure is not None and not isinstance(failure, GeneratorExit):  # of a generator that nobody goes on with
        return HealthNote("exception", f"The loop raised {type(failure).__name__} {where}.")
    return HealthNote("loop_ended", f"The loop ended {where}. {advice.inside_window}")


def _unwritten(folder: Path, failure: OSError) -> str:
    if not folder.exists():
        return f"{folder} was removed while it was recorded into; name a folder that the program leaves alone."
    return f"The recording could not be written into {folder} ({failure}); free space there, or name another folder."


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
