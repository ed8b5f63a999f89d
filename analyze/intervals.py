"""Union, intersection and innermost cover of integer intervals [start, end): the arithmetic of busy, idle and self time.

Of n intervals all of it takes O(n log n) time and a few arrays of n, however they nest or cross.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from .trace import Ids, Ints

BLOCK_COUNT = 2**18  # queries looked at together: enough to outweigh the calls, few enough to take little memory
NEAR_COUNT = 2**16  # the same of rows whose answers are near: their columns fit a core's cache
LEAPS = 64  # nearly all answers are found in fewer


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The disjoint, sorted intervals that cover the same time; empty intervals and touching borders vanish."""
    if not (start[1:] >= start[:-1]).all():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    begins = np.ones(len(start) + 1, bool)  # and one more, where the last one ends
    np.greater(start[1:], reach[:-1], out=begins[1:-1])
    start, end = start[begins[:-1]], reach[begins[1:]]
    lasts = end > start
    return (start, end) if lasts.all() else (start[lasts], end[lasts])


def length(start: Ints, end: Ints) -> int:
    """Total length of disjoint intervals, in the unit of their borders."""
    return int((end - start).sum())


def covered(start: Ints, end: Ints, low: Ints, high: Ints) -> Ints:
    """For each window [low, high): how much of it the disjoint, sorted intervals cover."""
    before = np.concatenate(([0], np.cumsum(end - start)))

    def until(moment: Ints) -> Ints:
        row = np.searchsorted(start, moment, side="right")
        over = np.where(row > 0, end[row - 1] - moment, 0) if len(end) else np.zeros_like(moment)
        return before[row] - np.maximum(over, 0)

    return until(high) - until(low)


@dataclass(frozen=True, eq=False)
class Cover:
    """Disjoint pieces of time in order; `owner` is the row of the range that is innermost there."""

    start: Ints
    end: Ints
    owner: Ids


def innermost(start: Ints, end: Ints) -> Cover:
    """At each covered instant, the range that started last of those open; of equal starts the one that ends first.

    Ranges may nest or cross. Where no range is open there is no piece; neighbouring pieces have different owners.
    """
    moment = borders(start, end)
    owner = Nest.of(start, end).innermost_at(moment)
    changes = owner != np.concatenate(([-1], owner[:-1]))
    begin, owner = moment[changes], owner[changes]
    owned = owner >= 0  # the last change is always to nobody: where the last range ends
    return Cover(begin[owned], begin[1:][owned[:-1]], owner[owned])


@dataclass(frozen=True, eq=False)
class Nest:
    """Ranges, made ready for being asked which is innermost at a moment."""

    start: Ints  # in the order of outer_first, as the ends
    ends: "Peaks"
    row: Ids  # and one more: that of no range, -1

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Self:
        order = outer_first(start, end)
        return cls(start[order], Peaks.of(end[order]), np.append(order.astype(np.int32), np.int32(-1)))

    def innermost_at(self, moment: Ints) -> Ids:
        """For each moment, the row of the range that is innermost there, as in `innermost`, or -1."""
        begun = np.searchsorted(self.start, moment, side="right")
        return self.row[self.ends.last_above(begun, moment)]


def borders(*times: Ints) -> Ints:
    """All times in order, each once."""
    moment = np.concatenate(times)
    moment.sort()
    return moment[np.concatenate(([True], moment[1:] > moment[:-1]))[: len(moment)]]


def outer_first(start: Ints, end: Ints, track: Ids | None = None) -> Ints:
    """The order by (track, start, longest first, row): of one track, whatever holds a range comes before it."""
    key = start if track is None else packed(track, start)
    order = np.argsort(key, kind="stable")  # far faster than lexsort where rows are nearly in order, as in a file
    key = key[order]
    tied = np.concatenate(([False], key[1:] == key[:-1], [False]))
    place = np.flatnonzero(tied[1:] | tied[:-1])
    rows = order[place]
    order[place] = rows[np.lexsort((-end[rows], key[place]))]
    return order


def outermost(start: Ints, end: Ints) -> Ints:
    """Rows of the ranges that begin when no other is open, in the order of outer_first."""
    order = outer_first(start, end)
    reach = np.maximum.accumulate(end[order])
    return order[np.concatenate(([True], start[order][1:] >= reach[:-1]))[: len(order)]]


def packed(track: Ids, start: Ints) -> Ints:
    """One number that orders by (track, start)."""
    if not len(start):
        return start
    first, low = int(start.min()), int(track.min())
    span = int(start.max()) - first + 1
    if (int(track.max()) - low + 1) * span > np.iinfo(np.int64).max:  # years on many threads: only ranks fit
        return np.unique(np.stack((track.astype(np.int64), start)), axis=1, return_inverse=True)[1].ravel()
    return (track.astype(np.int64) - low) * span + (start - first)


def around(end: Ints, limit: Ints) -> Ids:
    """For each row, the last row ahead of it whose end is above the row's limit, or -1. No row's limit is above its own end.

    A row leaps over the one ahead of it as far as that one has come, all rows of a block at once: whatever that one passed over
    ends too early for this one, too. The first rows after a deep stack, which would take its depth, are searched for.
    """
    found, peaks = np.arange(-1, len(end) - 1, dtype=np.int32), None
    for first in range(0, len(end), NEAR_COUNT):
        block = slice(first, first + NEAR_COUNT)
        passed = np.flatnonzero((end[found[block]] <= limit[block]) & (found[block] >= 0)) + first
        missed = _leapt(found, end, limit, passed)
        if len(missed):
            peaks = peaks or Peaks.of(end)
            found[missed] = peaks.last_above(found[missed] + 1, limit[missed])
    return found


def _leapt(found: Ids, end: Ints, limit: Ints, rows: Ints) -> Ints:
    """Move what is found for these rows, LEAPS times at most; those of them that need more."""
    for _ in range(LEAPS):
        if not len(rows):
            break
        found[rows] = ahead = found[found[rows]]
        rows = rows[(end[ahead] <= limit[rows]) & (ahead >= 0)]
    return rows


@dataclass(frozen=True, eq=False)
class Peaks:
    """Values, the larger of each pair of them, and so on up to the largest: a search for a larger value takes O(log n).

    A walk from one range to the one around it would be shorter code, but after a deep stack it takes its depth for every row.
    """

    levels: Sequence[Ints]

    @classmethod
    def of(cls, value: Ints) -> Self:
        levels = [value]
        while len(levels[-1]) > 1:
            pairs = levels[-1][: len(levels[-1]) // 2 * 2]
            levels.append(np.concatenate((np.maximum(pairs[::2], pairs[1::2]), levels[-1][len(pairs) :])))
        return cls(levels)

    def last_above(self, before: Ids, limit: Ints) -> Ids:
        """For each query, the last row ahead of row `before` whose value is above `limit`, or -1."""
        blocks = [slice(first, first + BLOCK_COUNT) for first in range(0, len(before), BLOCK_COUNT)]
        return np.concatenate([np.empty(0, np.int32), *(self._in_block(before[block], limit[block]) for block in blocks)])

    def _in_block(self, before: Ids, limit: Ints) -> Ids:
        found = before.astype(np.int32) - 1
        if len(self.levels[0]):
            missed = np.flatnonzero((found >= 0) & (self.levels[0][found] <= limit))  # most answers are the neighbour
            found[missed] = self._last_above(found[missed], limit[missed])
        return found

    def _last_above(self, before: Ids, limit: Ints) -> Ids:
        """Up: ever longer stretches to the left, until one holds a value above. Down: the later half of it that does."""
        query, node, stretches = np.arange(len(before), dtype=np.int32), before, []
        for maxima in self.levels:
            holds = (node % 2 == 1) & (maxima[node - 1] > limit[query])
            stretches.append((query[holds], node[holds] - 1))
            goes_on = ~holds & (node > 1)
            query, node = query[goes_on], node[goes_on] // 2
        found = np.full(len(before), -1, np.int32)
        query, node = stretches.pop()
        for maxima, (more, stretch) in zip(self.levels[-2::-1], reversed(stretches), strict=True):
            node = 2 * node + 1
            node -= maxima[node] <= limit[query]
            query, node = np.concatenate((query, more)), np.concatenate((node, stretch))
        found[query] = node
        return found
