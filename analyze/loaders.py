"""Time that a step waits for its batch -> what the step would take with worker processes, or with more of them.

One model for runs with and without a GPU: with w workers a step takes max(C + o, D/w), where D is what loading a batch takes, C
the rest of the step and o a batch's way between processes; and where loading computes no less than (C + D) ÷ cores.
"""

from dataclasses import dataclass

from .trace import Trace

HAND_OVER_NS = 700_000  # a batch that comes from another process costs 0.5 to 0.9 ms: pickling, queue, wake-up
WORKERS = 2  # that the prediction assumes
STARVED_SHARE = 0.2  # of the step: other programs, or the step's own threads, keep all cores busy
BUSY_SHARE = 0.5  # of the loading time on a core: above, loading computes; below, it mostly waits
WITH_WORKERS, NO_WORKERS = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"  # in enumerate(DataLoader)#…


def has_workers(trace: Trace) -> bool | None:
    """Whether processes of a DataLoader load; None where no DataLoader is named."""
    if any(WITH_WORKERS in name for name in trace.names):
        return True
    return False if any(NO_WORKERS in name for name in trace.names) else None


@dataclass(frozen=True)
class Loader:
    """What the recording says of loading; None where it does not say. `loading_ns`, `rest_ns`: of a step.

    `workers`: whether processes of a DataLoader load already. `workers_count`: of the DataLoader. `cores`: CPUs that the program
    may use. `busy_share`: of the loading time, what the loop's thread has or wants of a core beyond the rest of the step.
    `starved_share`: of the step, in which it wants a core and others have all.
    """

    loading_ns: float
    rest_ns: float
    workers: bool
    workers_count: int | None
    cores: int | None
    busy_share: float | None
    starved_share: float | None

    @property
    def taken(self) -> bool:
        """Whether another worker would find no core: as many load already, there is but one, or other programs have them."""
        full = self.cores is not None and self.cores <= (self.workers_count or 0 if self.workers else 1)
        return self.computes and (full or (self.starved_share or 0.0) >= STARVED_SHARE)

    @property
    def computes(self) -> bool:
        """Whether loading needs a core: so it is taken to do where nothing tells."""
        return self.busy_share is None or self.busy_share >= BUSY_SHARE

    @property
    def crowded(self) -> bool:
        """Whether WORKERS workers that compute leave no core to the rest of the step."""
        return not self.workers and self.computes and self.cores is not None and self.cores <= WORKERS

    @property
    def step_ns(self) -> float:
        return self.loading_ns + self.rest_ns

    @property
    def advised_ns(self) -> float:
        """The step with WORKERS workers, or with twice as many as there are."""
        return self.with_more_workers(2) if self.workers else self.with_workers(WORKERS)

    def with_workers(self, count: int) -> float:
        """The step where so many workers load instead of this process: the slowest of what then goes on side by side.

        The rest of the step, a batch's way between processes with it; the workers; and the cores, where loading computes.
        """
        shared = self.step_ns / self.cores if self.computes and self.cores else 0.0
        return max(self.rest_ns + HAND_OVER_NS, self.loading_ns / count, shared)

    def with_more_workers(self, times: float) -> float:
        """The step with so many times the workers that it waits for now."""
        return max(self.rest_ns + HAND_OVER_NS, self.step_ns / times)


def loader_of(trace: Trace, loading_ns: float, rest_ns: float) -> Loader:
    """`loading_ns`, `rest_ns`: of a step, as recorded."""
    manifest, workers = trace.manifest, bool(has_workers(trace))
    facts = {} if manifest is None else manifest.machine | manifest.options
    unprofiled_ns = sum(manifest.unprofiled_step_ns) if manifest else 0
    had, wanted = (facts.get(name) for name in ("unprofiled_cpu_ns", "unprofiled_core_wait_ns"))
    busy = starved = None
    if had is not None and unprofiled_ns and loading_ns and not workers:
        beyond_ns = (loading_ns + rest_ns) * (had + (wanted or 0)) / unprofiled_ns - rest_ns
        busy = min(1.0, max(0.0, beyond_ns / loading_ns))
    if wanted is not None and unprofiled_ns:
        starved = wanted / unprofiled_ns
    return Loader(loading_ns, rest_ns, workers, facts.get("loader_workers"), facts.get("cpu_usable_count"), busy, starved)
