"""Ranges of threads -> who is inside whom, by torch's rule, and the self time that follows."""

import numpy as np

from .intervals import around, outer_first
from .trace import Ids, Ints

REMOVED = -2  # instead of a parent's row


def parents(start: Ints, end: Ints, thread: Ids) -> Ids:
    """The row of each range's parent, or -1, by the rule of torch's key_averages().

    A child lies wholly inside its parent on the same thread. Ranges are taken by (start, longest first, row); a range that
    only partly overlaps the one before it closes that one, so neither is the other's parent.
    """
    order = outer_first(start, end, thread)
    latest = np.maximum(end[order] - 1, start[order])
    end, thread = end[order], thread[order]
    # The last range before that ends late enough is still open: whatever closed it would end late enough too, or begin after
    # this one. An empty range is not inside one that ends where it stands.
    above = around(end, latest)
    above[thread[above] != thread] = -1
    result = np.empty(len(order), np.int32)
    result[order] = np.append(order, -1)[above]
    return result


def without_duplicates(parent: Ids, name: Ids) -> tuple[Ids, Ids]:
    """Torch's removal of a range that has its parent's name and is its only child. Parents come before their children.

    Returns the new parents (REMOVED for a removed range) and, for each range, the last range of the chain it stands for (itself
    when it stands for nobody else): a kept range has that one's children and kernels.
    """
    inner = np.flatnonzero(parent >= 0)
    outer = parent[inner]
    children = np.bincount(outer, minlength=len(parent))
    single = (children[outer] == 1) & (name[inner] == name[outer])
    removed, above = inner[single], outer[single]
    kept = parent.copy()
    kept[inner] = _chain_ends(removed, above, len(parent))[outer]
    kept[removed] = REMOVED
    return kept, _chain_ends(above, removed, len(parent))


def _chain_ends(rows: Ids, following: Ids, count: int) -> Ids:
    """For each of `count` rows, the end of the chain that begins there; only `rows` have another one following."""
    end = np.arange(count, dtype=np.int32)
    end[rows] = following
    while not np.array_equal(further := end[end[rows]], end[rows]):
        end[rows] = further
    return end


def tree_sum(parent: Ids, value: Ints) -> Ints:
    """For each row, its value and that of all rows inside it. Parents come before their children."""
    total = value.astype(np.int64)
    if not value.any():
        return total
    depth = depths(parent)
    ends = np.cumsum(np.bincount(depth))
    by_depth = np.argsort(depth.astype(np.min_scalar_type(len(ends))), kind="stable")  # narrow integers are sorted by radix
    for rows in np.split(by_depth, ends[:-1])[:0:-1]:
        np.add.at(total, parent[rows], total[rows])
    return total


def depths(parent: Ids) -> Ids:
    """How many ranges are around each."""
    nothing = len(parent)
    above = np.append(np.where(parent >= 0, parent, nothing).astype(np.int32), np.int32(nothing))
    depth = (above < nothing).astype(np.int32)
    while (above < nothing).any():  # `above` is 1, 2, 4, … ranges further out, and `depth` counts those between
        depth += depth[above]
        above = above[above]
    return depth[:-1]
