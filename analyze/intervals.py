"""Union, intersection and innermost cover of integer intervals [start, end): the arithmetic of busy, idle and self time."""

from dataclasses import dataclass

import numpy as np

from .trace import Ints


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The disjoint, sorted intervals that cover the same time; empty intervals and touching borders vanish."""
    keep = end > start
    order = np.argsort(start[keep], kind="stable")
    start, end = start[keep][order], end[keep][order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return start[first], reach[last]


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
    owner: Ints


def innermost(start: Ints, end: Ints) -> Cover:
    """At each covered instant, the range that started last of those open; of equal starts the one that ends first.

    Ranges may nest or cross. Where no range is open there is no piece.
    """
    order = np.lexsort((-end, start))
    pieces: list[tuple[int, int, int]] = []
    open_ranges: list[tuple[int, int]] = []  # (end, row), the innermost last
    cursor = 0
    for row, begin, stop in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        cursor = _close_until(begin, cursor, open_ranges, pieces)
        if open_ranges and begin > cursor:
            pieces.append((cursor, begin, open_ranges[-1][1]))
        cursor = begin
        open_ranges.append((stop, row))
    _close_until(None, cursor, open_ranges, pieces)
    columns = np.array(pieces, dtype=np.int64).reshape(-1, 3)
    return Cover(columns[:, 0], columns[:, 1], columns[:, 2])


def _close_until(moment: int | None, cursor: int, open_ranges: list[tuple[int, int]], pieces: list[tuple[int, int, int]]) -> int:
    """Close the ranges that are innermost and end by `moment`, writing the pieces they own; returns the new cursor."""
    while open_ranges and (moment is None or open_ranges[-1][0] <= moment):
        stop, row = open_ranges.pop()
        if stop > cursor:
            pieces.append((cursor, stop, row))
            cursor = stop
    return cursor
