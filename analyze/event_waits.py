"""cuda_sync rows -> which work a stream, or the host, waits for by an event: all that was launched on a stream before its record.

Kineto writes them with `enable_cuda_sync_events`. Without, a call of cudaStreamWaitEvent tells neither of the two streams.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import trace as t
from .links import calls_named, calls_of
from .syncs import DEVICE_SIDE, NOT_TOLD
from .trace import DeviceRanges, Ids, Ints, Table, Trace

STREAM, RECORD = "wait_on_stream", "wait_on_cuda_event_record_corr_id"
THE_HOST = -2


@dataclass(frozen=True, eq=False)
class EventWaits(Table):
    """One row a wait of which the stream of the event and the call that recorded it are known, in the order of the file."""

    time_ns: Ints  # on the host: start of the call that waits, or makes a stream wait
    call: Ids  # its row of Trace.host; NOT_TOLD: only the cuda_sync row is there
    by_stream: Ids  # the stream that waits, or THE_HOST
    device: Ids
    stream: Ids  # on which the event was recorded
    recorded_ns: Ints  # start of the call that recorded it


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def event_waits(trace: Trace) -> EventWaits:
    """Without those whose record is not in the file or lies behind the wait: some Kinetos write the last record of an event."""
    rows, stream, record = _stated(trace)
    marks, recorder = trace.device_marks[rows], calls_of(trace, record)
    call = calls_of(trace, marks.correlation)
    host_start = np.append(trace.host.start_ns, 0)
    time, recorded = np.where(call >= 0, host_start[call], marks.start_ns), host_start[recorder]
    by_stream = np.where(_on_device(trace, marks), marks.stream, THE_HOST)
    known = (by_stream != NOT_TOLD) & (recorder >= 0) & (recorded <= time)
    return EventWaits(time, call, by_stream, marks.device, stream, recorded)[known]


def untold_waits(trace: Trace) -> Ints:
    """When calls made a stream wait for an event of which nothing is told, in order."""
    calls = np.flatnonzero(calls_named(trace, lambda name: "StreamWaitEvent" in name))
    return np.sort(trace.host.start_ns[calls[~np.isin(calls, event_waits(trace).call)]])


def are_told(trace: Trace) -> bool:
    """Whether Kineto wrote which streams wait for which."""
    return bool((event_waits(trace).by_stream != THE_HOST).any())


def _on_device(trace: Trace, marks: DeviceRanges) -> t.Mask:
    return np.array([name.startswith(DEVICE_SIDE) for name in trace.names], bool)[marks.name]


def _stated(trace: Trace) -> tuple[Ids, Ids, Ids]:
    """Rows of device_marks that carry both arguments, and their values, NOT_TOLD where they are no whole number."""
    keys = list(trace.argument_keys)
    columns = []
    for key in (STREAM, RECORD):
        of_row = np.full(len(trace.device_marks), NOT_TOLD, np.int64)
        if key in keys:
            given = trace.mark_arguments[trace.mark_arguments.key == keys.index(key)]
            of_row[given.row] = [_whole(str(trace.argument_values[code])) for code in given.value.tolist()]
        columns.append(of_row)
    rows = np.flatnonzero((columns[0] != NOT_TOLD) & (columns[1] != NOT_TOLD) & (trace.device_marks.category == t.SYNC))
    return rows, columns[0][rows], columns[1][rows]


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 18 else NOT_TOLD
