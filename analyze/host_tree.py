"""Host ranges -> the call tree: at each instant the open range of its thread that started last is the innermost.

This is the rule of everything but the operator table, which follows torch's (callstack).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from . import trace as t
from .durations import repaired_work
from .intervals import Peaks, around, covered, outer_first, union
from .links import launching_call
from .trace import HostRanges, Ids, Ints, Mask, Trace

LATE_NS = 1000  # a child that ends so much later than its parent is still a child: frames and calls are timed by several clocks
OUTER_FIRST = (t.PYTHON, t.ANNOTATION, t.OP, t.RUNTIME)  # of ranges with the same borders


@dataclass(frozen=True, eq=False)
class HostTree:
    """Ranges of all threads, one thread after the other on one line of time, by start, the longest first."""

    row: Ids  # of trace.host
    start: Ints  # on the line, as the ends
    end: Ints

    @classmethod
    def of(cls, trace: Trace, taken: Mask) -> Self:
        """Of these host ranges; overhead is never one of them."""
        host = trace.host
        row = np.concatenate([np.flatnonzero(taken & (host.category == kind)).astype(np.int32) for kind in OUTER_FIRST])
        offset = thread_offsets(host)[host.thread[row]]
        start, end = host.start_ns[row] + offset, host.end_ns[row] + offset
        order = outer_first(start, end)
        return cls(row[order], start[order], end[order])

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def ends(self) -> Peaks:
        return Peaks.of(self.end)

    @cached_property
    def around(self) -> Ids:
        """The place of the range that is innermost when this one starts, or -1."""
        return around(self.end, self.start)

    def innermost_at(self, moment: Ints) -> Ids:
        """For each moment on the line the place of the innermost range, or -1."""
        return self.ends.last_above(np.searchsorted(self.start, moment, side="right"), moment)

    def self_ns(self) -> Ints:
        """Time in which each range is the innermost: what those that started later leave of it."""
        own = self.end - self.start
        inner = np.flatnonzero(self.around >= 0).astype(np.int32)
        outer, since = self.around[inner], self.start[inner]
        while len(inner):
            until = np.minimum(self.end[inner], self.end[outer])
            np.subtract.at(own, outer, until - since)
            late = until < self.end[inner]  # from the end of the range around it on, it takes the time of the next one out
            inner, since = inner[late], until[late]
            outer = self.ends.last_above(outer[late], since)
            inner, outer, since = inner[outer >= 0], outer[outer >= 0], since[outer >= 0]
        return own

    def late(self) -> Mask:
        """Which ranges start in another one and end more than LATE_NS after it, the innermost around them.

        What ends with such a range or before it crosses no end that this one does not cross, and is not late.
        """
        return (self.around >= 0) & (self.end > self.end[self.around] + LATE_NS)

    def late_after(self, start: Ints, end: Ints) -> Mask:
        """The same of containers that are not of the tree: intervals on the line in order that do not overlap."""
        holds = np.searchsorted(start, self.start) - 1
        opened_last = (holds >= 0) & ((self.around < 0) | (start[holds] >= self.start[self.around]))
        return opened_last & (self.start < end[holds]) & (self.end > end[holds] + LATE_NS)

    def late_together(self, late: Mask, start: Ints, end: Ints) -> Ids:
        """Places of the ranges that end less than LATE_NS after the one around them, and more than that after one farther out.

        `late`: the others that cross an end, which excuse what lies inside them; start, end: containers as in `late_after`.
        """
        found, counted = [], late.copy()
        for place in self._a_little_late(start, end).tolist():
            holds = []
            at = int(self.around[place])
            while at >= 0:
                holds += [at] if self.end[at] > self.start[place] else []
                at = int(self.around[at])
            ends = [(self.start[row], self.end[row]) for row in holds]
            inside = np.searchsorted(start, self.start[place]) - 1
            ends += [(start[inside], end[inside])] if inside >= 0 and self.start[place] < end[inside] else []
            around = [row for row in holds if counted[row] and self.end[place] <= self.end[row] + LATE_NS]
            if any(
                self.end[place] > over + LATE_NS
                and not any(self.start[row] > since and self.end[row] > over + LATE_NS for row in around)
                for since, over in ends
            ):
                counted[place] = True
                found.append(place)
        return np.array(found, np.int64)

    def _a_little_late(self, start: Ints, end: Ints) -> Ids:
        """Places of the ranges that end at most LATE_NS after the one around them, and beyond one farther out or a container."""
        place = np.flatnonzero(self.around >= 0)
        after = self.end[place] - self.end[self.around[place]]
        place = place[(after > 0) & (after <= LATE_NS)]
        inside = np.searchsorted(start, self.start[place]) - 1
        beyond = np.append(end, 0)[inside]  # of no container it is 0, when nothing has begun
        found = [place[(self.start[place] < beyond) & (self.end[place] > beyond + LATE_NS)]]
        at = self.around[place]
        while len(place):
            over = (self.end[at] > self.start[place]) & (self.end[place] > self.end[at] + LATE_NS)
            found.append(place[over])
            at = self.around[at]
            on = ~over & (at >= 0)
            place, at = place[on], at[on]
        return np.unique(np.concatenate(found))

    def outermost(self, group: Ids) -> Mask:
        """Which ranges start in no other one of their group; groups are numbered from 0."""
        key = group.astype(np.min_scalar_type(int(group.max(initial=0))))  # narrow integers are sorted by radix
        order = np.argsort(key, kind="stable").astype(np.int32)
        place = group[order] * np.int64(len(self) + 1)  # what is in a later group has a later place
        reach = np.searchsorted(self.start, self.end)[order]
        reach += place
        place += order
        result = np.ones(len(self), bool)
        result[order[1:]] = place[1:] >= np.maximum.accumulate(reach, out=reach)[:-1]
        return result


@lru_cache(maxsize=4)  # a report's analyses share it; 4: a diff has two traces, of which excerpts may be replayed
def thread_offsets(host: HostRanges) -> Ints:
    """What puts the times of each thread behind those of the thread before it, and apart: a range may have no length."""
    first = np.full(int(host.thread.max(initial=0)) + 2, np.iinfo(np.int64).max)
    last = np.full(len(first), np.iinfo(np.int64).min)
    runs = np.flatnonzero(np.diff(host.thread, prepend=-2))  # a file tells of its threads in few runs
    if len(runs):
        np.minimum.at(first, host.thread[runs], np.minimum.reduceat(host.start_ns, runs))
        np.maximum.at(last, host.thread[runs], np.maximum.reduceat(host.end_ns, runs))
    first, last = np.where(first <= last, first, 0), np.where(first <= last, last, 0)
    return np.cumsum(last - first + 1) - last - 1  # the spans before, less the thread's own start


@dataclass(frozen=True, eq=False)
class Launches:
    """Device work by the moment of the call that launched it, on the line of HostTree; work without a call is left out."""

    work: Ids  # rows of trace.device, by moment
    moment: Ints
    ns: Ints

    @classmethod
    def of(cls, trace: Trace) -> Self:
        host, work, call = trace.host, repaired_work(trace), launching_call(trace)
        known = np.flatnonzero(call >= 0)
        moment = host.start_ns[call[known]] + thread_offsets(host)[host.thread[call[known]]]
        order = np.argsort(moment, kind="stable")
        known = known[order]
        return cls(known, moment[order], work.end_ns[known] - work.start_ns[known])

    def inside(self, start: Ints, end: Ints) -> Ints:
        """For each [start, end) on the line: time of the device work that is launched there."""
        before = np.concatenate(([0], np.cumsum(self.ns)))
        return before[np.searchsorted(self.moment, end)] - before[np.searchsorted(self.moment, start)]


def launched_in(trace: Trace, ranges: Mask) -> Mask:
    """Which device work is launched inside one of these host ranges, on its thread."""
    host, call = trace.host, launching_call(trace)
    if not ranges.any() or not len(call):
        return np.zeros(len(call), bool)
    offset = thread_offsets(host)
    start, end = (time[ranges] + offset[host.thread[ranges]] for time in (host.start_ns, host.end_ns))
    moment = host.start_ns[call] + offset[host.thread[call]]
    return (call >= 0) & (covered(*union(start, end), moment, moment + 1) > 0)
