"""Runtime calls, without any of them cuda_sync rows -> the synchronisations of a trace: where the host waits, and for what.

A blocking copy is none, nor is a stream that waits for another one while the host goes on.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import trace as t
from .links import calls_named, calls_of
from .trace import Ids, Ints, Table, Trace

NOT_TOLD = -1
ALL_STREAMS = -2
# How the names of cuda_sync rows begin, as Kineto writes them. What came before an event, module event_waits knows.
STREAM_WAIT, DEVICE_WAIT, EVENT_WAIT, DEVICE_SIDE = "Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event"


@dataclass(frozen=True, eq=False)
class Syncs(Table):
    """When and where the host waits, for which device and stream. NOT_TOLD: of a row without a call, a call without a row."""

    call: Ids  # row of Trace.host; where there is no synchronising call, what a row's correlation leads to
    start_ns: Ints
    end_ns: Ints
    name: Ids  # row of Trace.names
    thread: Ids  # row of Trace.threads
    external_id: Ids  # of the operator that made the call
    device: Ids
    stream: Ids  # ALL_STREAMS for the whole device


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def syncs(trace: Trace) -> Syncs:
    """Calls with `Synchronize` in their names, a row beside them told; without any such call, the rows."""
    marks = trace.device_marks[trace.device_marks.category == t.SYNC]
    marks = marks[~_named(trace, DEVICE_SIDE)[marks.name]] if len(marks) else marks
    device_wide = _named(trace, DEVICE_WAIT)[marks.name]
    stream = np.where(device_wide, ALL_STREAMS, np.where(_named(trace, STREAM_WAIT)[marks.name], marks.stream, NOT_TOLD))
    call, calls = calls_of(trace, marks.correlation), np.flatnonzero(_calls(trace))
    if not len(calls):
        thread = np.append(trace.host.thread, NOT_TOLD)[call]
        return Syncs(call, marks.start_ns, marks.end_ns, marks.name, thread, marks.external_id, marks.device, stream)
    waits = trace.host[calls]
    device, streams = np.full(len(calls), NOT_TOLD), np.full(len(calls), NOT_TOLD)
    streams[_device_waits(trace)[waits.name]] = ALL_STREAMS
    telling = np.flatnonzero((stream != NOT_TOLD) & np.isin(call, calls))
    place = np.searchsorted(calls, call[telling])
    device[place], streams[place] = marks.device[telling], stream[telling]
    return Syncs(calls, waits.start_ns, waits.end_ns, waits.name, waits.thread, waits.external_id, device, streams)


def are_calls(trace: Trace) -> bool:
    """Whether the synchronisations are calls, and not the rows that stand for them."""
    return bool(_calls(trace).any())


def _calls(trace: Trace) -> t.Mask:
    return calls_named(trace, is_sync)


def _named(trace: Trace, beginning: str) -> t.Mask:
    return np.array([name.startswith(beginning) for name in trace.names], bool)


def _device_waits(trace: Trace) -> t.Mask:
    return np.array([is_device_wait(name) for name in trace.names], bool)


def is_sync(name: str) -> bool:
    """Of a call, or of a cuda_sync row that stands for one."""
    return "Synchronize" in name or name.startswith((STREAM_WAIT, DEVICE_WAIT, EVENT_WAIT))


def is_device_wait(name: str) -> bool:
    return name.endswith(("DeviceSynchronize", "CtxSynchronize"))
