"""Ranges of threads -> who is inside whom, by torch's rule, and the self time that follows."""

import numpy as np

from .trace import Ints


def parents(start: Ints, end: Ints, thread: Ints) -> Ints:
    """The row of each range's parent, or -1, by the rule of torch's key_averages().

    A child lies wholly inside its parent on the same thread. Ranges are taken by (start, longest first, row); a range that
    only partly overlaps the one before it closes that one, so neither is the other's parent.
    """
    order = np.lexsort((-end, start, thread))
    s, e, th = start[order], end[order], thread[order]
    candidate = np.arange(-1, len(order) - 1)
    if len(order):
        candidate[np.concatenate(([True], th[1:] != th[:-1]))] = -1
    rows = np.flatnonzero(candidate >= 0)
    while len(rows):
        above = candidate[rows]
        outside = (e[above] < e[rows]) | (e[above] <= s[rows])
        rows = rows[outside]
        candidate[rows] = candidate[candidate[rows]]
        rows = rows[candidate[rows] >= 0]
    result = np.full(len(order), -1)
    inside = candidate >= 0
    result[order[inside]] = order[candidate[inside]]
    return result


def without_duplicates(parent: Ints, name: Ints) -> tuple[Ints, Ints]:
    """Torch's removal of a range that has its parent's name and is its only child.

    Returns the new parents (-2 for a removed range) and, for each range, the last range of the chain it stands for (itself
    when it stands for nobody else): a kept range has that one's children and kernels.
    """
    has_parent = parent >= 0
    children = np.bincount(parent[has_parent], minlength=len(parent))
    removed = np.zeros(len(parent), bool)
    removed[has_parent] = (name[has_parent] == name[parent[has_parent]]) & (children[parent[has_parent]] == 1)
    stands_for = np.arange(len(parent))
    for row in sorted(np.flatnonzero(removed), key=lambda r: _depth(parent, int(r)), reverse=True):
        stands_for[parent[row]] = stands_for[row]
    kept = parent.copy()
    while True:
        inside_removed = (kept >= 0) & removed[np.maximum(kept, 0)]
        if not inside_removed.any():
            break
        kept[inside_removed] = kept[kept[inside_removed]]
    kept[removed] = -2
    return kept, stands_for


def _depth(parent: Ints, row: int) -> int:
    depth = 0
    while (row := int(parent[row])) >= 0:
        depth += 1
    return depth


def children_sum(parent: Ints, value: Ints) -> Ints:
    """For each row, the sum of a value over its direct children."""
    total = np.zeros(len(parent), np.int64)
    inside = parent >= 0
    np.add.at(total, parent[inside], value[inside])
    return total
