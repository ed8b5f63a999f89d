"""Ranges of threads -> who is inside whom, by torch's rule, and the self time that follows."""

import numpy as np

from .trace import Ints


def parents(start: Ints, end: Ints, thread: Ints) -> Ints:
    """The row of each range's parent, or -1, by the rule of torch's key_averages().

    A child lies wholly inside its parent on the same thread. Ranges are taken by (start, longest first, row); a range that
    only partly overlaps the one before it closes that one, so neither is the other's parent.
    """
    order = np.lexsort((-end, start, thread)).tolist()
    starts, ends, threads = start.tolist(), end.tolist(), thread.tolist()
    result = [-1] * len(order)
    open_rows: list[int] = []
    for row in order:
        while open_rows and (
            threads[open_rows[-1]] != threads[row] or ends[open_rows[-1]] <= starts[row] or ends[open_rows[-1]] < ends[row]
        ):
            open_rows.pop()
        if open_rows:
            result[row] = open_rows[-1]
        open_rows.append(row)
    return np.array(result, np.int64)


def without_duplicates(parent: Ints, name: Ints) -> tuple[Ints, Ints]:
    """Torch's removal of a range that has its parent's name and is its only child. Parents come before their children.

    Returns the new parents (-2 for a removed range) and, for each range, the last range of the chain it stands for (itself
    when it stands for nobody else): a kept range has that one's children and kernels.
    """
    has_parent = parent >= 0
    children = np.bincount(parent[has_parent], minlength=len(parent))
    removed = np.zeros(len(parent), bool)
    removed[has_parent] = (name[has_parent] == name[parent[has_parent]]) & (children[parent[has_parent]] == 1)
    stands_for = np.arange(len(parent))
    kept = parent.copy()
    for row in np.flatnonzero(removed)[::-1].tolist():
        stands_for[parent[row]] = stands_for[row]
    for row in np.flatnonzero(has_parent).tolist():  # a removed parent's own parent is final by now
        if removed[kept[row]]:
            kept[row] = kept[kept[row]]
    kept[removed] = -2
    return kept, stands_for


def children_sum(parent: Ints, value: Ints) -> Ints:
    """For each row, the sum of a value over its direct children."""
    total = np.zeros(len(parent), np.int64)
    inside = parent >= 0
    np.add.at(total, parent[inside], value[inside])
    return total


def tree_sum(parent: Ints, value: Ints) -> Ints:
    """For each row, its value and that of all rows inside it. Parents come before their children."""
    total, above = value.tolist(), parent.tolist()
    for row in range(len(total) - 1, -1, -1):
        if above[row] >= 0:
            total[above[row]] += total[row]
    return np.array(total, np.int64)
