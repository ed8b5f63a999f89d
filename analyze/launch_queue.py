"""Kernels and the calls that launched them -> how long kernels wait for their turn, and how many at once."""

from dataclasses import dataclass

import numpy as np

from . import trace as t
from .clocks import clocks
from .links import launching_call
from .trace import Ints, Trace

# A kernel that starts this soon after its launch call has returned waited for nothing but the way to the device: a few
# microseconds on CUDA, up to about ten on ROCm.
QUEUE_EMPTY_NS = 10_000


@dataclass(frozen=True, eq=False)
class LaunchQueue:
    """One row a call that launched kernels, by the start of the first of them: later ones of a graph wait for each other.

    Work whose times cannot be compared with those of the host is left out.
    """

    launched_ns: Ints  # start of the call
    returned_ns: Ints  # its end
    started_ns: Ints  # start of the kernel

    @property
    def delay_ns(self) -> Ints:
        """From the start of the call to that of the kernel; below zero by at most the tolerance of the clocks."""
        return self.started_ns - self.launched_ns

    @property
    def unqueued_share(self) -> float:
        """Of the launches, those that found the queue empty: the device waited for the host, not the kernel for the device."""
        return float((self.started_ns - self.returned_ns <= QUEUE_EMPTY_NS).mean())

    @property
    def longest_count(self) -> int:
        """The most kernels that were launched and not started at one moment."""
        waiting = np.arange(1, len(self.launched_ns) + 1)
        launched = np.sort(self.launched_ns)
        return int((waiting - np.searchsorted(self.started_ns, launched, side="right")).max(initial=0))

    def mean_count(self, window_ns: int) -> float:
        """Kernels that were launched and not started, averaged over the window."""
        return float(np.maximum(self.delay_ns, 0).sum() / max(1, window_ns))


def launch_queue(trace: Trace) -> LaunchQueue:
    """The first kernel of each call that launched any."""
    host, work, call = trace.host, trace.device, launching_call(trace)
    rows = np.flatnonzero((call >= 0) & (work.category == t.KERNEL))
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    rows = rows[np.sort(np.unique(call[rows], return_index=True)[1])]
    rows = rows[~clocks(trace).offset[rows]]
    return LaunchQueue(host.start_ns[call[rows]], host.end_ns[call[rows]], work.start_ns[rows])
