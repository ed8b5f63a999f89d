"""Means of runs in their order -> where they change: binary segmentation of the largest standardised shift, by permutation.

Without a change every order of the runs is as likely as the one that was measured, whatever their distribution; so a shift
counts where few orders show one as large anywhere (Fisher 1935; segmentation: Scott & Knott 1974, Vostrikova 1981). What is
tested at once shares the chance of error (Holm 1979). docs/history.md says how often this errs, and what it finds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from .statistics import Interval

Floats = NDArray[np.float64]

CHANCE = 0.05  # that a history without a change shows one anywhere
LEAST_SIDE = 2  # runs: a single one is an outlier, and among fewer than 40 runs no order of them could tell more
LEAST_SHARE = 0.001  # of the mean before: a smaller change prints as 0.0 %
EXACT_RUNS = 8  # of no more runs all orders are tried, 40,320
ORDERS = 10_000  # of more runs, so many: a chance of 0.05 is then good to 0.002
SEED = 11  # fixed: the same runs give the same answer
BLOCK_VALUES = 2**16  # at a time: 512 KB stay in the cache of a core
SLACK = 1e-9  # rounding: orders that give the same shift differ by less
CLEAR = 6  # of evidence, in units of 2 ln: above, one description is strongly preferred to the other (Kass & Raftery 1995)
PLACES = -2 * math.log(1 - math.sqrt(0.95))  # of a likelihood ratio: 95 % of places are in it (Eo & Morley 2015)


@dataclass(frozen=True)
class Stretch:
    """Runs of one metric that compare: from row `first` up to, and without, `after`."""

    metric: str
    first: int
    after: int

    @property
    def count(self) -> int:
        return self.after - self.first

    def holds(self, other: "Stretch") -> bool:
        return self.metric == other.metric and self.first <= other.first and other.after <= self.after


@dataclass(frozen=True)
class ChangePoint:
    """The mean is another from run `at` on: that of the runs `first` to `at`, and of `at` to `after`, the neighbouring changes.

    `interval`: of `change_share`, of the mean before; None of fewer than LEAST_RUNS. `chance`: that a history without a change
    shows one as clear anywhere. `earliest`, `latest`: what else `at` may be, in 95 % of cases. `or_drift`: a straight line
    through its stretch tells the runs almost as well.
    """

    metric: str
    first: int
    at: int
    after: int
    before_mean: float
    after_mean: float
    interval: Interval | None
    chance: float
    earliest: int
    latest: int
    or_drift: bool

    @property
    def change_share(self) -> float:
        return self.after_mean / self.before_mean - 1


@dataclass(frozen=True)
class Drift:
    """The means change, and a straight line tells them better than jumps do: its first and last value."""

    metric: str
    first: int
    after: int
    begin_mean: float
    end_mean: float
    chance: float

    @property
    def change_share(self) -> float:
        return self.end_mean / self.begin_mean - 1


@dataclass(frozen=True)
class Changes:
    """By metric, in the order of the runs. `segments`: between breaks and change points. `told`: stretches that were tested."""

    points: tuple[ChangePoint, ...]
    drifts: tuple[Drift, ...]
    segments: tuple[Stretch, ...]
    told: tuple[Stretch, ...]


def changes(means: Mapping[str, Floats], stretches: Sequence[Stretch]) -> Changes:
    """Of each metric the means of its runs, in order; `stretches` are looked at apart, and share the chance of error."""
    segments, chances, tested = _segments(means, stretches)
    jumps = {s: _for_jumps(_of(means, s), [_of(means, part) for part in segments if s.holds(part)]) for s in stretches}
    drifting = [s for s in stretches if jumps[s] < 0]
    segments = _ordered([*drifting, *(s for s in segments if not any(d.holds(s) for d in drifting))])
    points = [
        _point(means[stretch.metric], before, after, chances[stretch.metric, after.first], jumps[stretch] < CLEAR)
        for stretch in stretches
        for before, after in pairwise(part for part in segments if stretch.holds(part))
    ]
    drifts = [_drift(means[s.metric], s, _clearest(s, chances)) for s in drifting]
    told = [s for s in stretches if s in tested or (s.count >= LEAST_RUNS and _steady(_of(means, s)))]
    return Changes(tuple(points), tuple(drifts), tuple(segments), tuple(_ordered(told)))


def least_chance(runs: int) -> float:
    """What the clearest change among so many runs comes to: as many runs before as after, each of these beyond each of those."""
    return 2 / math.comb(runs, runs // 2) if runs >= 2 * LEAST_SIDE else 1.0


LEAST_RUNS = next(runs for runs in range(2 * LEAST_SIDE, 100) if least_chance(runs) <= CHANCE)


Place = tuple[str, int]  # of a change: metric and first run after


def _segments(
    means: Mapping[str, Floats], stretches: Sequence[Stretch]
) -> tuple[list[Stretch], dict[Place, float], set[Stretch]]:
    """The stretches cut where they change, the clearest first; the chance of each cut; and all that was tested."""
    segments, chances = list(stretches), dict[Place, float]()
    known: dict[Stretch, float] = {}
    while tested := _tested(means, segments):
        known |= {s: _chance(_of(means, s)) for s in tested if s not in known}
        clearest = min(tested, key=lambda s: known[s])
        chance = known[clearest] * len(tested)
        if chance > CHANCE:
            break
        at = clearest.first + LEAST_SIDE + int(shifts(_of(means, clearest)).argmax())
        segments.remove(clearest)
        segments += [Stretch(clearest.metric, clearest.first, at), Stretch(clearest.metric, at, clearest.after)]
        chances[clearest.metric, at] = max(chance, *chances.values()) if chances else chance  # no clearer than what came first
    return _ordered(segments), chances, set(known)


def _tested(means: Mapping[str, Floats], segments: Sequence[Stretch]) -> list[Stretch]:
    """As many of the longest as can tell when they share the chance of error; of equal ones the first metric, the last runs."""
    order = {metric: place for place, metric in enumerate(means)}
    able = [s for s in segments if s.count >= LEAST_RUNS and _tellable(_of(means, s)) and not _steady(_of(means, s))]
    able.sort(key=lambda s: (-s.count, order[s.metric], -s.first))
    return able[: max((n for n, s in enumerate(able, 1) if least_chance(s.count) * n <= CHANCE), default=0)]


def _of(means: Mapping[str, Floats], stretch: Stretch) -> Floats:
    return means[stretch.metric][stretch.first : stretch.after]


def _tellable(values: Floats) -> bool:
    """Whether all of them were recorded, and a change is a share of something."""
    return bool(np.isfinite(values).all() and values.min() > 0)


def _steady(values: Floats) -> bool:
    """Whether no order of them can show a change that matters."""
    return _tellable(values) and bool(np.ptp(values) < LEAST_SHARE * values.min())


def shifts(values: Floats) -> Floats:
    """For each place along the last axis that leaves LEAST_SIDE values on both sides: how far apart the means there are.

    In units of the values, times √(before · after ÷ all): all places then vary alike where nothing changes.
    """
    count = values.shape[-1]
    before = np.arange(LEAST_SIDE, count - LEAST_SIDE + 1)
    sums = np.cumsum(values - values.mean(axis=-1, keepdims=True), axis=-1)[..., LEAST_SIDE - 1 : count - LEAST_SIDE]
    return np.abs(sums) / np.sqrt(before * (count - before) / count)


def _chance(values: Floats) -> float:
    """How many orders of the values show a shift as large as this one, anywhere; 1 of a change too small to matter."""
    found = shifts(values)
    at = LEAST_SIDE + int(found.argmax())
    if abs(values[at:].mean() / values[:at].mean() - 1) < LEAST_SHARE:
        return 1.0
    largest = _largest_shifts(values)
    return float(np.count_nonzero(largest >= found.max() * (1 - SLACK)) / len(largest))


def _largest_shifts(values: Floats) -> Floats:
    """Of each order, the measured one among them."""
    return np.concatenate([shifts(block).max(axis=1) for block in _orders(values)])


def _orders(values: Floats) -> Iterator[Floats]:
    """(orders × values), some at a time."""
    if len(values) <= EXACT_RUNS:
        yield values[_all_orders(len(values))]
        return
    yield values[None, :]
    random, most = np.random.default_rng(SEED), max(1, BLOCK_VALUES // len(values))
    for first in range(1, ORDERS, most):
        yield random.permuted(np.tile(values, (min(most, ORDERS - first), 1)), axis=1)


@cache
def _all_orders(count: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(count))))


def _point(means: Floats, before: Stretch, after: Stretch, chance: float, or_drift: bool) -> ChangePoint:
    first, at, end = before.first, after.first, after.after
    places = _places(means[first:end], at - first)
    return ChangePoint(
        metric=before.metric, first=first, at=at, after=end,
        before_mean=float(means[first:at].mean()), after_mean=float(means[at:end].mean()),
        interval=_interval(means[first:at], means[at:end]), chance=chance,
        earliest=first + min(places), latest=first + max(places), or_drift=or_drift,
    )  # fmt: skip


def _interval(before: Floats, after: Floats) -> Interval | None:
    """Of after ÷ before − 1. The place was chosen for its shift, so what counts is the largest shift anywhere by chance: of the
    deviations from both means, in shares of these, as runs that take longer vary more.
    """
    count = len(before) + len(after)
    if count < LEAST_RUNS:
        return None
    deviations = np.concatenate((before / before.mean(), after / after.mean())) - 1
    largest = float(np.quantile(_largest_shifts(deviations), 1 - CHANCE)) * math.sqrt(count / (count - 2))  # two means are fitted
    reach = largest / math.sqrt(len(before) * len(after) / count)
    ratio = float(after.mean() / before.mean())
    return Interval(ratio * math.exp(-reach) - 1, ratio * math.exp(reach) - 1)


def _places(values: Floats, at: int) -> list[int]:
    """Where else the change may lie: `at`, and where two means leave not much more unexplained."""
    total = float(np.square(values - values.mean()).sum())
    left = total - shifts(values) ** 2
    here = left[at - LEAST_SIDE]
    if here <= SLACK * total:
        return [at]
    return [at, *(LEAST_SIDE + np.flatnonzero(len(values) * np.log(left / here) <= PLACES)).tolist()]


def _for_jumps(values: Floats, parts: Sequence[Floats]) -> float:
    """The evidence for the means of the parts against a straight line: the difference of Bayesian information criteria."""
    if len(parts) < 2:
        return math.inf
    rounding = SLACK * _unexplained(values, values.mean())
    line = max(_unexplained(values, _line(values)), rounding)
    jumps = max(sum(_unexplained(part, part.mean()) for part in parts), rounding)
    more = 2 * len(parts) - 1 - 2  # fitted: means and places, of a line two
    return len(values) * math.log(line / jumps) - more * math.log(len(values))


def _drift(means: Floats, stretch: Stretch, chance: float) -> Drift:
    line = _line(means[stretch.first : stretch.after])
    return Drift(stretch.metric, stretch.first, stretch.after, float(line[0]), float(line[-1]), chance)


def _line(values: Floats) -> Floats:
    """Least squares."""
    place = np.arange(len(values)) - (len(values) - 1) / 2
    return values.mean() + place * (place @ values) / (place @ place)


def _unexplained(values: Floats, told: Floats | float) -> float:
    return float(np.square(values - told).sum())


def _clearest(stretch: Stretch, chances: Mapping[Place, float]) -> float:
    return min(chance for (metric, at), chance in chances.items() if stretch.holds(Stretch(metric, at, at)))


def _ordered(stretches: Sequence[Stretch]) -> list[Stretch]:
    return sorted(stretches, key=lambda s: (s.metric, s.first))
