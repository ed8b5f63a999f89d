"""Steps in their order -> how alike neighbours are, and how much less a mean of such steps tells than one of independent steps.

The model is that of an AR(1): a deviation passes on to the next step by a factor, phi. Arrays are (steps × columns).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DETECTED = 1.0  # standard errors of an autocorrelation: what is below is taken for chance, as of few steps most of it is
CAUTION = 0.5  # standard errors added to a detected one: one that is too small claims too much
MOST = 0.97  # of phi: beyond, fifty steps say no more than one
LEAST_TOLD = 3  # independent steps that a side counts for, however alike its steps: of 2 the interval of any mean is absurd
BIAS = 3.0  # autocorrelations are estimated too small by (1 + 3 phi) ÷ steps, as the mean is estimated too: Marriott & Pope 1954
MOST_LAGS = 3  # weak bursts, and steps that repeat every other time, show beyond the next step


def passed_on(sides: Sequence[Floats], lags: int) -> Floats:
    """For each column the largest phi that the autocorrelation of both sides at any of these lags says; 0 where it is chance."""
    error = 1 / np.sqrt(sum(map(len, sides)))
    told = [(lag, correlation(sides, lag)) for lag in range(1, min(lags, MOST_LAGS) + 1)]
    phi = np.max([np.where(one > DETECTED * error, _cautious(one, error) ** (1 / lag), 0.0) for lag, one in told], axis=0)
    return np.minimum(phi, most_phi(min(map(len, sides))))


def _cautious(correlation: Floats, error: float) -> Floats:
    more = CAUTION * error * np.sqrt(np.clip(1 - correlation**2, 0.05, 1))
    return np.clip(correlation + more, 0, MOST)


def passed_on_by_many(sides: Sequence[Floats], lags: int) -> Floats:
    """The same of many columns, which tell it together: each column's own autocorrelation is drawn towards the median one.

    What slows the machine down slows many columns. A column's own counts as far as columns differ by more than chance (empirical
    Bayes: Efron & Morris 1973), and then with the error that is left added.
    """
    told = [_drawn_together(sides, lag) ** (1 / lag) for lag in range(1, min(lags, MOST_LAGS) + 1)]
    return np.minimum(np.max(told, axis=0), most_phi(min(map(len, sides))))


def _drawn_together(sides: Sequence[Floats], lag: int) -> Floats:
    own = correlation(sides, lag)
    varying = np.any([np.ptp(side, axis=0) > 0 for side in sides], axis=0)
    if not varying.any():
        return own
    steps = np.mean([len(side) for side in sides])
    error = steps / (steps - BIAS) / np.sqrt(sum(map(len, sides)))
    median, spread = np.median(own[varying]), np.var(own[varying])
    counts = max(0.0, 1 - error**2 / spread) if spread else 0.0
    likely, left = median + counts * (own - median), error * np.sqrt(counts)
    return np.where(varying & (likely > left), np.clip(likely + left, 0, MOST), 0.0)


@lru_cache(maxsize=64)
def most_phi(steps: int) -> float:
    """At which so many steps count for LEAST_TOLD."""
    phi = np.linspace(0, MOST, 1000)
    return float(phi[repetition(phi, steps) <= steps / LEAST_TOLD].max())


def correlation(sides: Sequence[Floats], lag: int) -> Floats:
    """Of steps so far apart, each side about its own mean, by its number of steps; 0 where nothing varies."""
    found = [_correlation(side, lag) for side in sides]
    weight = np.array([len(side) * ~np.isnan(one) for side, one in zip(sides, found, strict=True)])
    known = weight.sum(axis=0) > 0
    mean = np.nan_to_num(found) * weight
    steps = np.mean([len(side) for side in sides])
    alike = np.divide(mean.sum(axis=0), weight.sum(axis=0), out=np.zeros(len(known)), where=known)
    return np.where(known, (alike * steps + 1) / (steps - BIAS), 0.0)


def _correlation(side: Floats, lag: int) -> Floats:
    """NaN where nothing varies."""
    apart = side - side.mean(axis=0)
    products, squares = (apart[:-lag] * apart[lag:]).sum(axis=0), (apart * apart).sum(axis=0)
    return np.divide(products, squares, out=np.full(len(squares), np.nan), where=np.ptp(side, axis=0) > 0)


def repetition(phi: Floats, steps: float) -> Floats:
    """Variance of the mean of so many steps ÷ that of independent ones: of so many steps one counts."""
    return (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**steps) / steps / (1 - phi) ** 2


def underestimate(phi: Floats, steps: int, groups: int) -> Floats:
    """Variance of the mean of `steps` ÷ what the variance between the means of `groups` equal groups of them says it is."""
    whole, one = repetition(phi, steps) / steps, repetition(phi, steps / groups) / (steps / groups)
    return whole * (groups - 1) / (one - whole)
