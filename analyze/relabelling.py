"""Two sets of exchangeable units -> what |t| comes to by chance: the labels "before" and "after" dealt out again, many times.

Without a difference every deal is as likely as the one that was measured, whatever the distribution of the columns, and however
they depend on each other (Fisher 1935); a t that allows for unequal variances keeps that true, and is right for means whose
variances differ (Janssen 1997). Arrays are (units × columns).
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

DEALS = 2000  # where there are more than these, so many at random: the quantile of 5 % is then good to about 2 % of its value
SEED = 11  # fixed: the same runs give the same intervals
BLOCK_VALUES = 2**18  # at a time: what is near the processor
SLACK = 1e-9  # rounding: deals that give the same t differ by less
NOTHING = 1e-12  # of the largest: what is smaller is rounding


def deals_count(before: int, after: int) -> int:
    """How many deals are looked at, the measured one among them."""
    return min(math.comb(before + after, before), DEALS)


def can_tell(before: int, after: int, chance: float) -> bool:
    """Whether there are so many deals that the measured one can be as rare as that."""
    return min(before, after) > 1 and int(chance * deals_count(before, after)) >= _alike(before, after)


def chance_of_each(before: Floats, after: Floats, chance: float) -> Floats:
    """For each column the |t| that at most this part of the deals exceeds. Holds (deals × columns) in memory."""
    return _rare(np.concatenate(list(_dealt(before, after))), chance, _alike(len(before), len(after)))


def chance_of_any(before: Floats, after: Floats, chance: float) -> float:
    """The |t| that at most this part of the deals exceeds in any column: max-T, Westfall & Young 1993.

    Of too few deals to tell, the one that only the measured deal can exceed.
    """
    largest = np.concatenate([t.max(axis=1) for t in _dealt(before, after)])
    return float(_rare(largest, chance, _alike(len(before), len(after))))


def _alike(before: int, after: int) -> int:
    """How many deals have the |t| of the measured one for certain: of equal sides its mirror image has."""
    return 2 if before == after else 1


def _rare(t: Floats, chance: float, least: int) -> Floats:
    row = len(t) - 1 - max(int(chance * len(t)), least)
    return np.partition(t, row, axis=0)[row] * (1 + SLACK)


def _dealt(before: Floats, after: Floats) -> Iterator[Floats]:
    """|t| of some deals after others: (deals × columns)."""
    values = np.concatenate(sorted((before, after), key=_order))
    apart = values - values.mean(axis=0)
    largest = np.abs(apart).max(axis=0)
    values = apart / np.where(largest > NOTHING * np.abs(values).max(axis=0), largest, math.inf)
    deals = _deals(min(len(before), len(after)), len(values))
    size = max(1, BLOCK_VALUES // max(values.shape))
    for first in range(0, len(deals), size):
        yield _abs_t(deals[first : first + size], values)


def _order(side: Floats) -> tuple[int, bytes]:
    """The smaller side first; of equal ones always the same, so that what is drawn does not depend on which came before."""
    return len(side), side.tobytes()


@lru_cache(maxsize=8)  # small, and the same for every table of a comparison
def _deals(count: int, units: int) -> Indices:
    """Rows of the units that the smaller side gets: all ways there are, or DEALS of them, the first as measured."""
    if math.comb(units, count) <= DEALS:
        return np.array(list(combinations(range(units), count)))
    random = np.random.default_rng(SEED)
    drawn = [random.choice(units, count, replace=False, shuffle=False) for _ in range(DEALS - 1)]
    return np.array([np.arange(count), *drawn])


def _abs_t(deals: Indices, values: Floats) -> Floats:
    """Welch's, from the sums over the dealt units alone: those over all units are the same in every deal, and 0 of `values`."""
    n = deals.shape[1]
    m = len(values) - n
    dealt = np.zeros((len(deals), len(values)))
    np.put_along_axis(dealt, deals, 1.0, axis=1)
    squared = values * values
    sums, squares = dealt @ values, dealt @ squared
    sums *= sums
    squares *= 1 / n / (n - 1) - 1 / m / (m - 1)
    variance = squares + (squared.sum(axis=0) / m / (m - 1) - (1 / n / n / (n - 1) + 1 / m / m / (m - 1)) * sums)
    sums *= (1 / n + 1 / m) ** 2
    sums[sums < NOTHING] = 0
    variance[variance < NOTHING] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(np.where(sums > 0, sums / variance, 0.0))
