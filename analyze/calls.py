"""Trace -> the operators that the steps' own code calls, in order, and the regions they make: from a first to a last call with
the Python between, which is what goes when a program no longer does what they do.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..capture.errors import MissingData
from .step_time import OTHER, outermost_ops, row_at, step_time
from .trace import Ids, Ints, Mask, Trace


@dataclass(frozen=True, eq=False)
class Calls:
    """One row an operator of a counted step that has no other operator around it, by start.

    `until_ns`: where the next call of the step starts, or a phase begins or ends, or the step ends: the Python after it.
    """

    row: Ids  # of trace.host
    step: Ids  # number of the counted step
    phase: np.ndarray  # as text
    name: Ids  # row of `names`
    start_ns: Ints
    end_ns: Ints
    until_ns: Ints
    names: np.ndarray  # as text

    def __len__(self) -> int:
        return len(self.row)

    def named(self, *names: str) -> Mask:
        """Which calls have one of these names."""
        return np.isin(self.names, names)[self.name] if len(self) else np.zeros(0, bool)

    def follows(self) -> Mask:
        """Which calls come right after another one of the same step and phase."""
        same = (self.step[1:] == self.step[:-1]) & (self.phase[1:] == self.phase[:-1])
        return np.concatenate(([False], same)) if len(self) else np.zeros(0, bool)

    def runs(self, taken: Mask) -> tuple[Ints, Ints]:
        """First and last row of each stretch of taken calls with no other call between, in one step and phase."""
        joined = taken[1:] & taken[:-1] & self.follows()[1:] if len(self) else np.zeros(0, bool)
        first = np.flatnonzero(taken & ~np.concatenate((np.zeros(min(1, len(self)), bool), joined)))
        last = np.flatnonzero(taken & ~np.concatenate((joined, np.zeros(min(1, len(self)), bool))))
        return first, last

    def clusters(self, reads: Mask, apart: int) -> "Clusters":
        """Calls of one step and phase that come at most `apart` calls after one another, with what leads to each of them."""
        at, stretch = np.flatnonzero(reads), np.cumsum(~self.follows())
        near = (np.diff(at) <= apart) & (stretch[at[1:]] == stretch[at[:-1]]) if len(at) else np.zeros(0, bool)
        edge = np.zeros(min(1, len(at)), bool)
        which = np.flatnonzero(~np.concatenate((edge, near)))
        first, last = at[which], at[~np.concatenate((near, edge))]
        count = np.diff(np.append(which, len(at)))
        turn = np.where(count > 1, at[np.minimum(which + 1, len(at) - 1)] - first, 1)
        begun = np.searchsorted(stretch, stretch[first])
        return Clusters(np.maximum(first - turn + 1, begun), last, count)

    def spent(self, taken: Mask) -> Ints:
        """Time of the taken calls before each row, and of all: the difference of two is the time between."""
        return np.concatenate(([0], np.cumsum(np.where(taken, self.end_ns - self.start_ns, 0))))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Turns of a loop: row of the first call of the first turn, row of the last read, and how many reads."""

    first: Ints
    last: Ints
    count: Ints


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def cpu_calls(trace: Trace) -> Calls:
    """The calls of a CPU run; MissingData for GPU runs, where a shorter call saves only what the step waits for."""
    if len(trace.device):
        raise MissingData("On a GPU run the host's calls say little about the step; see the sections on the GPU.")
    found = step_time(trace)
    counted, host, rows = found.steps, trace.host, outermost_ops(trace, found.steps)
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), host.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    if not len(rows):
        raise MissingData("The trace holds no operators inside its steps; capture with CPU activity on.")
    start, end = host.start_ns[rows], host.end_ns[rows]
    marks = found.marks
    phase = np.append(found.marked[marks.owner], OTHER)[row_at(marks.start, marks.end, start)]
    limits = np.sort(np.concatenate((start, found.marks.start, found.marks.end, counted["end_ns"].to_numpy())))
    until = limits[np.minimum(np.searchsorted(limits, end), len(limits) - 1)]
    return Calls(rows, step, phase, host.name[rows], start, end, np.maximum(until, end), np.array(trace.names, object))
