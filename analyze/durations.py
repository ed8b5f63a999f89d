"""Device work -> its streams, and the ends that its kernels can have.

An impossible duration runs past the end of a later kernel of its stream, which cannot have begun before. It is cut at the next
start there. A kernel that only overlaps the next one is legal: programmatic dependent launch starts it early.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from . import trace as t
from .intervals import outer_first
from .trace import DeviceRanges, Ints, Trace

NEVER = np.iinfo(np.int64).max


def possible_end(work: DeviceRanges) -> Ints:
    """The end of each row, that of an impossible duration moved to the next start on its stream."""
    end = work.end_ns.copy()
    kernels = np.flatnonzero((work.category == t.KERNEL) & (work.stream >= 0))  # of -1 nothing is known
    for _, _, place in by_stream(work[kernels]):
        rows = kernels[place]
        start, until = work.start_ns[rows], work.end_ns[rows]
        if not (until[:-1] > start[1:]).any():
            continue
        later = np.searchsorted(start, start, side="right")
        first_end = np.append(np.minimum.accumulate(until[::-1])[::-1], NEVER)[later]
        impossible = until > first_end
        end[rows[impossible]] = start[later[impossible]]
    return end


def by_stream(work: DeviceRanges) -> Iterator[tuple[int, int, Ints]]:
    """Device, stream and the rows of its work by start, for each stream in order."""
    if not len(work):
        return
    devices, streams = np.unique(work.device), np.unique(work.stream)
    device, stream = np.searchsorted(devices, work.device), np.searchsorted(streams, work.stream)
    track = device * len(streams) + stream
    order = outer_first(work.start_ns, work.end_ns, track)
    firsts = np.flatnonzero(np.diff(track[order], prepend=-1))
    for rows in np.split(order, firsts[1:]):
        yield int(devices[device[rows[0]]]), int(streams[stream[rows[0]]]), rows


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def repaired_work(trace: Trace) -> DeviceRanges:
    """trace.device, row by row, without impossible durations: what busy time is counted from."""
    return replace(trace.device, end_ns=possible_end(trace.device))
