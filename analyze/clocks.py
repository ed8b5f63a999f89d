"""Device work beside the calls that launched it and waited for it -> do host and device share one clock?"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import trace as t
from .durations import possible_end
from .links import calls_named, calls_of, launching_call
from .trace import Ids, Ints, Mask, Trace

CLOCK_TOLERANCE_NS = 1000  # host and device clocks are aligned to about a microsecond
END_OF_TIME = np.iinfo(np.int64).max // 2
ALL_STREAMS = -2
STREAM_WAIT, DEVICE_WAIT = "Stream Sync", "Context Sync"  # how the names of cuda_sync rows begin, as Kineto writes them


@dataclass(frozen=True, eq=False)
class Clocks:
    """One row a piece of device work; far below 0 where no call in the file tells.

    `early_ns`: how long before the start of its launch it starts. `late_ns`: how long it ends after the return of a wait for its
    device or its stream that began after its launch had ended.
    """

    early_ns: Ints
    late_ns: Ints

    @property
    def offset(self) -> Mask:
        """Work whose times cannot be compared with those of the host."""
        return (self.early_ns > CLOCK_TOLERANCE_NS) | (self.late_ns > CLOCK_TOLERANCE_NS)


@dataclass(frozen=True, eq=False)
class _Waits:
    """Calls of one process, rows of trace.host, that wait for one device or one stream of it."""

    process: int
    device: int
    stream: int
    calls: Ids


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def clocks(trace: Trace) -> Clocks:
    """Each piece of device work against its launch, and against the waits for it."""
    host, work, call = trace.host, trace.device, launching_call(trace)
    end = possible_end(work)
    early, late = np.full(len(work), -END_OF_TIME), np.full(len(work), -END_OF_TIME)
    rows = np.flatnonzero(call >= 0)
    early[rows] = host.start_ns[call[rows]] - work.start_ns[rows]
    process = np.unique([pid for pid, _ in trace.threads], return_inverse=True)[1]
    own = np.full(len(work), -1)
    own[rows] = process[host.thread[call[rows]]]
    for waits in (*_waits_for_devices(trace, process, own), *_recorded_waits(trace, process)):
        mine = (own == waits.process) & (work.device == waits.device)
        rows = np.flatnonzero(mine if waits.stream == ALL_STREAMS else mine & (work.stream == waits.stream))
        returned = _first_return(trace, waits.calls, host.end_ns[call[rows]])
        late[rows] = np.maximum(late[rows], end[rows] - returned)
    return Clocks(early, late)


def _first_return(trace: Trace, calls: Ids, moment: Ints) -> Ints:
    """For each moment, the first end of a call that begins at it or later; the end of time where none does."""
    calls = calls[np.argsort(trace.host.start_ns[calls], kind="stable")]
    first = np.append(np.minimum.accumulate(trace.host.end_ns[calls][::-1])[::-1], END_OF_TIME)
    return first[np.searchsorted(trace.host.start_ns[calls], moment)]


def _waits_for_devices(trace: Trace, process: Ids, own: Ids) -> Iterator[_Waits]:
    """Calls do not say for which device they wait: known where all work that may be of their process is on one."""
    calls = np.flatnonzero(calls_named(trace, is_device_wait))
    waiting = process[trace.host.thread[calls]]
    for one in np.unique(waiting).tolist():
        devices = np.unique(trace.device.device[(own == one) | (own < 0)]).tolist()
        if len(devices) == 1:
            yield _Waits(one, devices[0], ALL_STREAMS, calls[waiting == one])


def _recorded_waits(trace: Trace, process: Ids) -> Iterator[_Waits]:
    """Calls beside which a cuda_sync row names the device and stream. A wait for an event does not say what came before that."""
    starts = np.array([name.startswith(STREAM_WAIT) - name.startswith(DEVICE_WAIT) for name in trace.names], np.int8)
    marks = trace.device_marks[trace.device_marks.category == t.SYNC]
    marks = marks[starts[marks.name] != 0] if len(marks) else marks
    calls = calls_of(trace, marks.correlation)
    marks, calls = marks[calls >= 0], calls[calls >= 0]
    if not len(calls):
        return
    streams = np.where(starts[marks.name] > 0, marks.stream, ALL_STREAMS)
    keys = np.stack((process[trace.host.thread[calls]], marks.device, streams), axis=1)
    for key in np.unique(keys, axis=0):
        one, device, stream = key.tolist()
        yield _Waits(one, device, stream, calls[(keys == key).all(axis=1)])


def is_device_wait(name: str) -> bool:
    return name.endswith(("DeviceSynchronize", "CtxSynchronize"))
