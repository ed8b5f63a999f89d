"""A plan and a folder -> torch.profiler, started, stepped and exported there once, as plain Chrome JSON."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from .errors import CaptureError
from .memory_history import MemoryHistory

if TYPE_CHECKING:
    from torch.profiler import profile

EXPORT_NAME = "export.json"
SILENT_KINETO = "99"  # levels 0 to 5 still print the USDT lines of torch 2.13


@dataclass(frozen=True)
class Plan:
    """What is recorded: `wait` steps without a profiler, `warmup` thrown away, `steps` kept; and what events carry.

    `after`: steps behind them that are timed without a profiler again, where the loop has so many.
    """

    steps: int
    wait: int
    warmup: int
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    after: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.wait < 0 or self.warmup < 1 or self.after < 0:
            raise CaptureError(
                f"steps={self.steps}, wait={self.wait}, warmup={self.warmup}, after={self.after} cannot be recorded: use steps of"
                " at least 1, wait and after of at least 0, and warmup of at least 1: a profiler's first step is unlike others."
            )

    @property
    def steps_needed(self) -> int:
        """Steps a loop must have for a complete recording."""
        return self.wait + self.warmup + self.steps


class Window:
    """The profiler of one recording; the export lies in `folder / EXPORT_NAME` once the window is over."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        from torch.profiler import profile, schedule

        self.cuda = cuda_available()
        self.profiler = own(
            profile(
                activities=activities(self.cuda),
                schedule=schedule(wait=0, warmup=plan.warmup, active=plan.steps, repeat=1),
                on_trace_ready=self._export,
                record_shapes=plan.shapes,
                profile_memory=plan.memory,
                with_stack=plan.stacks,
            )
        )
        self.memory_history = MemoryHistory() if plan.memory and self.cuda else None
        self.export = folder / EXPORT_NAME
        self.running = False
        self.lost = False  # another profiler has ended ours

    def start(self) -> None:
        """Begin the warm-up."""
        refuse_second_profiler()
        with quiet_kineto(self.cuda):
            self.profiler.start()
        self.running = True
        if self.memory_history:
            self.memory_history.start()

    def step(self) -> None:
        """End one step and begin the next; after the last one the profiler writes the export."""
        self._refuse_intruder()
        self.profiler.step()

    def stop(self) -> None:
        """Stop a started profiler; inside the window it first writes the export of what it has."""
        if self.running:
            self.running = False
            self.lost = self.lost or (self._recording() and not profiler_enabled())
            if self.memory_history:
                self.memory_history.stop()
            self.profiler.stop()

    def _recording(self) -> bool:
        from torch.profiler import ProfilerAction

        return self.profiler.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _refuse_intruder(self) -> None:
        # A profiler that starts and ends inside ours takes its events along; exporting what is left crashes torch 2.13.
        self.lost = self._recording() != profiler_enabled()
        if self.lost:
            raise CaptureError(
                "Another PyTorch profiler ran inside the recorded loop and took its events away; take it out of the loop."
            )

    def _export(self, profiler: "profile") -> None:
        if self.lost:
            return
        profiler.export_chrome_trace(str(self.export))
        if not self.export.is_file():  # torch reports a failed write on stderr only
            raise OSError("torch wrote no trace")


_OWN: WeakSet = WeakSet()


def own(profiler: "profile") -> "profile":
    """A profiler, known as ours from now on."""
    _OWN.add(profiler)
    return profiler


def is_own(profiler: object) -> bool:
    """Whether a profiler is one of ours, and not the program's."""
    return profiler in _OWN


def synchronize() -> None:
    """Wait for the current GPU, if this process uses one, so that earlier work does not run inside the next step."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def require_torch() -> None:
    """CaptureError where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError as missing:
        raise CaptureError("PyTorch is not installed here; install longpole[capture], or record where it is.") from missing


def refuse_second_profiler() -> None:
    """CaptureError when a profiler already records this thread: two at once empty each other."""
    if profiler_enabled():
        raise CaptureError("Another PyTorch profiler is already running; stop it first, two at once empty each other.")


def profiler_enabled() -> bool:
    """Whether a profiler records this thread now; one that only warms up does not."""
    import torch

    return torch.autograd._profiler_enabled()  # pyright: ignore[reportPrivateImportUsage] - there is no public query


def cuda_available() -> bool:
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    return torch.cuda.is_available() and ProfilerActivity.CUDA in supported_activities()


def activities(cuda: bool) -> list:
    from torch.profiler import ProfilerActivity

    return [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]


@contextmanager
def quiet_kineto(cuda: bool) -> Iterator[None]:
    # Kineto reads the level once, at the first profiler's start. With CUDA it may say why kernels are missing: left on.
    if cuda or "KINETO_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["KINETO_LOG_LEVEL"] = SILENT_KINETO
    try:
        yield
    finally:
        del os.environ["KINETO_LOG_LEVEL"]
