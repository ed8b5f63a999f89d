"""Values and the group of each -> one figure a group, exact, however many rows there are."""

import numpy as np

from .trace import Ids, Ints


def group_sums(group: Ids, value: Ints, count: int) -> Ints:
    """For each of `count` groups the sum of its values; rows of group -1 are left out."""
    total = np.zeros(count + 1, np.int64)
    np.add.at(total, group, value)  # not bincount: its floats are exact only up to 2**53
    return total[:-1]


def first_rows(group: Ids) -> Ints:
    """The first row of each group, of groups that are numbered in the order in which they appear; -1 is none."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(group), prepend=-1))
