"""Trace -> its device work, each piece with its stream, its launch and the work that ended before it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..durations import repaired_work
from ..launches import is_graph_launch
from ..links import launching_call
from ..trace import DeviceRanges, Ids, Ints, Mask, Trace
from .points import HostSide


@dataclass(frozen=True, eq=False)
class Work:
    """Columns of equal length, one row a piece of device work."""

    start: Ints
    end: Ints
    device: Ids
    track: Ids  # number of its stream among those of all devices
    call: Ids  # number among HostSide.calls, -1 where it is not known
    launched: Ints  # start of that call, far in the past where it is not known
    in_graph: Mask
    ahead: Ids  # of the work of its stream that ended by its start, the last to end, or -1

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def by_track(self) -> list[Ids]:
        """Rows of each stream, by end."""
        order = np.lexsort((self.end, self.track))
        return np.split(order, np.flatnonzero(np.diff(self.track[order])) + 1) if len(self) else []


def work_of(trace: Trace, side: HostSide) -> Work:
    """Of all devices."""
    work, row = repaired_work(trace), launching_call(trace)
    call = np.where(row >= 0, np.append(side.calls.of_row, -1)[row], -1)
    track = _tracks(work)
    launched = np.where(call >= 0, np.append(side.points.time_ns[side.calls.start], 0)[call], np.iinfo(np.int64).min // 2)
    graph = np.array([is_graph_launch(name) for name in trace.names], bool)
    in_graph = np.zeros(len(work), bool)
    in_graph[row >= 0] = graph[trace.host.name[row[row >= 0]]]
    return Work(
        work.start_ns, work.end_ns, work.device, track, call, launched, in_graph, last_ended(track, work.start_ns, work.end_ns)
    )


def _tracks(work: DeviceRanges) -> Ids:
    if not len(work):
        return np.empty(0, np.int64)
    return np.unique(np.stack((work.device.astype(np.int64), work.stream)), axis=1, return_inverse=True)[1].ravel()


def last_ended(track: Ids, start: Ints, end: Ints) -> Ids:
    """For each row, of those of its track that end by its start and come before it, the last to end, or -1."""
    count = len(start)
    turn = np.empty(count, np.int64)
    turn[np.lexsort((end, start))] = np.arange(count)
    key = np.lexsort((np.repeat((0, 1), count), np.tile(turn, 2), np.concatenate((start, end)), np.tile(track, 2)))
    is_end = key >= count
    last = np.maximum.accumulate(np.where(is_end, np.arange(2 * count), -1)) if count else key
    found = np.full(count, -1)
    asked = np.flatnonzero(~is_end & (last >= 0))
    row, before = key[asked], key[last[asked]] - count
    same = track[row] == track[before]
    found[row[same]] = before[same]
    return found


def running_latest(end: Ints) -> Ids:
    """For each place the place of the largest so far."""
    top = np.maximum.accumulate(end)
    return np.maximum.accumulate(np.where(end == top, np.arange(len(end)), 0))
