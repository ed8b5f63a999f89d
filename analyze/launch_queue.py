"""Device work and the calls that launched it -> how long kernels wait for their turn, and how much work waits at once."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import trace as t
from .clocks import clocks
from .links import launching_call
from .timeline import timeline
from .trace import Ids, Ints, Mask, Trace

# A kernel that starts this soon after its launch call has returned waited for nothing but the way to the device: a few
# microseconds on CUDA, up to about ten on ROCm.
QUEUE_EMPTY_NS = 10_000


@dataclass(frozen=True, eq=False)
class LaunchQueue(t.Table):
    """One row a call that launched work, by the start of the first piece of it: later ones of a graph wait for each other.

    Work whose times cannot be compared with those of the host is left out.
    """

    launched_ns: Ints  # start of the call
    returned_ns: Ints  # its end
    started_ns: Ints  # start of the work
    device: Ids

    @property
    def delay_ns(self) -> Ints:
        """From the start of the call to that of the work; below zero by at most the tolerance of the clocks."""
        return self.started_ns - self.launched_ns

    @property
    def unqueued_share(self) -> float:
        """Of the launches, those that found the queue empty: the device waited for the host, not the kernel for the device."""
        return float((self.started_ns - self.returned_ns <= QUEUE_EMPTY_NS).mean())

    @property
    def lengths(self) -> tuple[Ints, Ints]:
        """Each moment at which work is launched or starts, and how much of it waits from then on."""
        waits = self[self.started_ns > self.launched_ns]
        moment = np.concatenate((waits.launched_ns, waits.started_ns))
        order = np.argsort(moment, kind="stable")
        moment, change = moment[order], np.where(order < len(waits), 1, -1)
        last = np.append(moment[1:] > moment[:-1], True)[: len(moment)]  # of several at one moment
        return moment[last], np.cumsum(change)[last]


@dataclass(frozen=True, eq=False)
class QueueLengths:
    """How many pieces of work wait for a device: their call has begun, they have not.

    `devices`: device; mean_count, empty_share (over the window; empty: none waits); most_count; most_ts_ns (the first moment of
    it). `timeline`, as in analyze/timeline.py: device; start_ns, end_ns; low_count, high_count, last_count.
    """

    devices: pd.DataFrame
    timeline: pd.DataFrame


def launch_queue(trace: Trace) -> LaunchQueue:
    """The first kernel of each call that launched any."""
    return _queue(trace, trace.device.category == t.KERNEL)


def queue_lengths(trace: Trace) -> QueueLengths:
    """Over time, of kernels, copies and memsets."""
    queue = _queue(trace, np.ones(len(trace.device), bool))
    by_device = {device: queue[queue.device == device] for device in np.unique(queue.device).tolist()}
    rows = [{"device": device, **_figures(own, trace.window_ns)} for device, own in by_device.items()]
    lines = [timeline(*own.lengths, 0, trace.window_ns).assign(device=device) for device, own in by_device.items()]
    names = {name: f"{name}_count" for name in ("low", "high", "last")}
    return QueueLengths(
        pd.DataFrame(rows), pd.concat(lines, ignore_index=True).rename(columns=names) if lines else pd.DataFrame()
    )


def _queue(trace: Trace, asked: Mask) -> LaunchQueue:
    host, work, call = trace.host, trace.device, launching_call(trace)
    rows = np.flatnonzero((call >= 0) & asked)
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    rows = rows[np.sort(np.unique(call[rows], return_index=True)[1])]
    rows = rows[~clocks(trace).offset[rows]]
    return LaunchQueue(host.start_ns[call[rows]], host.end_ns[call[rows]], work.start_ns[rows], work.device[rows])


def _figures(queue: LaunchQueue, window_ns: int) -> dict[str, float]:
    moment, length = queue.lengths
    top = int(np.argmax(length)) if len(length) else -1
    waiting_ns = int(np.diff(moment)[length[:-1] > 0].sum())
    return {
        "mean_count": float(np.maximum(queue.delay_ns, 0).sum() / max(1, window_ns)),
        "empty_share": 1 - waiting_ns / max(1, window_ns),
        "most_count": int(length[top]) if len(length) else 0,
        "most_ts_ns": int(moment[top]) if len(length) else 0,
    }
