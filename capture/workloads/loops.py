"""What all workloads share: what a workload is asked, what runs it, and what its loop may be told."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    import torch

Item = TypeVar("Item")
Variant = Literal["before", "after"]
Mode = Literal["train", "infer"]
Phase = Callable[[str], AbstractContextManager[object]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Setup:
    """`turns`: steps of the loop. `progress(done, total)` may be called while a workload is made, never inside its loop."""

    variant: Variant = "after"
    turns: int = 100
    seed: int = 0
    device: str = "cpu"
    progress: Progress | None = None


class Loop(Protocol):
    """What a loop tells where its steps and phases are: a Recorder, or no one."""

    def steps(self, items: Iterable[Item]) -> Iterable[Item]: ...
    def step(self) -> None: ...
    def phase(self, name: str) -> AbstractContextManager[object]: ...


class Unwatched:
    """A loop that runs by itself."""

    def steps(self, items: Iterable[Item]) -> Iterable[Item]:
        return items

    def step(self) -> None:
        pass

    def phase(self, name: str) -> AbstractContextManager[object]:
        return nullcontext(name)


UNWATCHED = Unwatched()


class Job(Protocol):
    """A workload that is ready to run, made from a Setup. `run` gives its results as numbers: losses, tokens or actions."""

    title: str
    mode: str  # of `record`
    samples_per_step: int

    @property
    def model(self) -> "torch.nn.Module": ...
    def run(self, loop: Loop = UNWATCHED) -> Sequence[float]: ...


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one CPU thread: for layers this small, more threads only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of a seed on the CPU; those of the caller stay as they were."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def best_device() -> str:
    """The GPU where torch has one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
