"""Values of single steps -> 95 % intervals of their mean, or of the difference of two means, by bootstrap over steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 4000  # the interval's borders then vary by about 1 % of its width between seeds
SEED = 11  # fixed: the same runs give the same interval
LEVEL = (2.5, 97.5)  # per cent; percentile bootstrap, Efron 1979
MANY_STEPS = 250  # of more than these, drawing them one by one is up to 8 times faster, and a block at a time keeps memory flat
BLOCK_DRAWS = 2**20
MIN_STEPS = 4  # of fewer steps a resample is too often one step repeated


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; its unit is that of the values."""

    low: float
    high: float

    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def mean_intervals(values: ArrayLike) -> list[Interval]:
    """For each column of (steps × columns), the interval of its mean."""
    return _intervals(_resampled_means(np.asarray(values, float), np.random.default_rng(SEED)))


def change_intervals(before: ArrayLike, after: ArrayLike) -> list[Interval]:
    """For each column, the interval of mean(after) − mean(before); the steps of the two runs are resampled apart."""
    random = np.random.default_rng(SEED)
    old = _resampled_means(np.asarray(before, float), random)
    return _intervals(_resampled_means(np.asarray(after, float), random) - old)


def ratio_interval(before: ArrayLike, after: ArrayLike) -> Interval:
    """The interval of mean(before) ÷ mean(after): the speed-up."""
    random = np.random.default_rng(SEED)
    old = _resampled_means(np.asarray(before, float)[:, None], random)
    return _intervals(old / _resampled_means(np.asarray(after, float)[:, None], random))[0]


def median_change_interval(before: ArrayLike, after: ArrayLike) -> Interval:
    """The interval of median(after) − median(before), where single values may be far off, as a first step is."""
    random = np.random.default_rng(SEED)
    old, new = (
        np.median(values[random.integers(len(values), size=(RESAMPLES, len(values)))], axis=1)
        for values in (np.asarray(before, float), np.asarray(after, float))
    )
    return _intervals((new - old)[:, None])[0]


def _resampled_means(values: Floats, random: np.random.Generator) -> Floats:
    steps = len(values)
    if steps <= MANY_STEPS:
        return random.multinomial(steps, np.full(steps, 1 / steps), size=RESAMPLES) / steps @ values
    size = max(1, BLOCK_DRAWS // steps)
    blocks = [min(size, RESAMPLES - first) for first in range(0, RESAMPLES, size)]
    return np.concatenate([_drawn_weights(random, steps, resamples) @ values for resamples in blocks])


def _drawn_weights(random: np.random.Generator, steps: int, resamples: int) -> Floats:
    """The same distribution as a multinomial's, drawn step by step."""
    drawn = random.integers(steps, size=(resamples, steps), dtype=np.int32) + steps * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * steps).reshape(resamples, steps) / steps


def _intervals(samples: Floats) -> list[Interval]:
    low, high = np.percentile(samples, LEVEL, axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]
