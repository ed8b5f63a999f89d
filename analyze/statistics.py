"""Values of single steps of one run or several -> 95 % intervals of means, of their differences and ratios.

What is compared are units that chance could have dealt out otherwise: the means of runs where a side has several; of one run
its steps, or of many steps GROUPS groups of neighbours. docs/statistics.md says why, and how often that errs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .autocorrelation import passed_on, passed_on_by_many, repetition, underestimate
from .relabelling import can_tell, chance_of_any, chance_of_each
from .student import student_chance, student_quantile

Floats = NDArray[np.float64]
Side = Sequence[ArrayLike]  # the runs of a side, each (steps × columns)

STEPS, RUNS = "steps", "runs"
CHANCE = 0.05  # of an interval that misses what it is of
MIN_STEPS = 4  # of fewer steps 95 % intervals are too wide to tell anything
CORRELATED_STEPS = 6  # of fewer, nobody can say whether neighbours are alike
GROUPS = 8  # of neighbours, of the side with fewer steps: Ibragimov & Müller 2010; more hold fewer steps each, and are more alike


@dataclass(frozen=True)
class Interval:
    """A 95 % interval; its unit is that of the values."""

    low: float
    high: float

    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class MeanChange:
    """Of each column: the means of both sides, the variances of these means, and the |t| that chance seldom exceeds.

    `unit`: what varies, "steps" or "runs". One run a side cannot show how much runs differ.
    """

    before: Floats
    after: Floats
    before_variance: Floats
    after_variance: Floats
    critical: Floats
    unit: str

    @property
    def low(self) -> Floats:
        """The lower end of the interval of after − before, which excludes zero where the change is real."""
        return self.after - self.before - self._reach

    @property
    def high(self) -> Floats:
        """The upper end."""
        return self.after - self.before + self._reach

    @property
    def _reach(self) -> Floats:
        error = np.sqrt(self.before_variance + self.after_variance)
        return np.multiply(self.critical, error, out=np.full(len(error), math.inf), where=np.isfinite(self.critical))

    @property
    def ratio(self) -> Interval | None:
        """Of before ÷ after in the first column (Fieller 1954): excludes 1 where the change is real. None without bounds."""
        before, after, square = float(self.before[0]), float(self.after[0]), float(self.critical[0]) ** 2
        least_after = after * after - square * float(self.after_variance[0])
        least_before = before * before - square * float(self.before_variance[0])
        if least_after <= 0 or least_before <= 0:
            return None
        middle, reach = before * after, math.sqrt(max((before * after) ** 2 - least_after * least_before, 0))
        return Interval((middle - reach) / least_after, (middle + reach) / least_after)


def mean_intervals(values: ArrayLike) -> list[Interval]:
    """For each column of (steps × columns), the interval of its mean: Student's, of groups of steps, each column alone."""
    steps = np.asarray(values, float)
    units = _groups(steps, len(steps) // _group_size(len(steps)))
    variance, freedom = _mean_variance(units, len(steps), _phi([steps]))
    reach = student_quantile(CHANCE, freedom) * np.sqrt(variance)
    return [Interval(float(m - r), float(m + r)) for m, r in zip(steps.mean(axis=0), reach, strict=True)]


def mean_change(before: Side, after: Side) -> MeanChange:
    """Of each column alone."""
    compared = _compared(before, after, _phi)
    critical = student_quantile(CHANCE, compared.freedom)
    if can_tell(len(compared.units[0]), len(compared.units[1]), CHANCE):
        critical = np.maximum(critical, compared.farther(chance_of_each(*compared.units, CHANCE), CHANCE))
    return compared.change(critical)


def mean_changes_at_once(before: Side, after: Side, chance: float = CHANCE) -> MeanChange:
    """Of all columns together: where nothing has changed, any interval excludes zero with that chance at most."""
    compared = _compared(before, after, _phi_of_many)
    counts = len(compared.units[0]), len(compared.units[1])
    critical = student_quantile(CHANCE, compared.freedom)
    if not can_tell(*counts, chance):  # Bonferroni
        critical = np.maximum(critical, student_quantile(chance / max(compared.varying, 1), compared.freedom))
    if min(counts) > 1:
        by_chance = max(chance_of_any(*compared.units, chance), float(student_quantile(CHANCE, compared.independent)))
        critical = np.maximum(critical, compared.farther(by_chance, student_chance(by_chance, compared.independent)))
    return compared.change(critical)


def median_change_interval(before: Sequence[ArrayLike], after: Sequence[ArrayLike]) -> Interval:
    """Of median(after) − median(before), each side the steps of its runs; of several runs the interval of their mean medians."""
    old, new = ([np.asarray(run, float)[:, None] for run in side] for side in (before, after))
    if max(len(old), len(new)) == 1:
        return _median_change(old[0], new[0])
    found = mean_change(*([np.median(run, axis=0, keepdims=True) for run in side] for side in (old, new)))
    return Interval(float(found.low[0]), float(found.high[0]))


def _median_change(before: Floats, after: Floats) -> Interval:
    """Price & Bonett 2002."""
    sides = before, after
    phi = _phi(sides)
    variance = sum(_median_variance(side[:, 0]) * float(underestimate(phi, len(side), len(side))[0]) for side in sides)
    freedom = (sum(map(len, sides)) - 2) / repetition(phi, float(np.mean([len(side) for side in sides])))
    change, reach = np.median(sides[1]) - np.median(sides[0]), float(student_quantile(CHANCE, freedom)[0]) * math.sqrt(variance)
    return Interval(float(change - reach), float(change + reach))


@dataclass(frozen=True, eq=False)
class _Compared:
    """Two sides. Per column the mean and its variance, and on how many independent deviations both variances rest.

    `units`: of each side, (units × columns). `freedom`: of variances that may differ, Welch 1947; `left`: of equal ones.
    """

    units: tuple[Floats, Floats]
    means: tuple[Floats, Floats]
    variances: tuple[Floats, Floats]
    freedom: Floats
    left: Floats
    unit: str

    @property
    def independent(self) -> float:
        """What `left` would be of units that are not alike."""
        return float(sum(map(len, self.units)) - 2)

    @property
    def varying(self) -> int:
        """Columns that are not constant all over: only these can be called changed."""
        return int(np.count_nonzero(np.ptp(np.concatenate(self.units), axis=0)))

    def farther(self, t: Floats | float, chance: float) -> Floats:
        """A t that independent units exceed with that chance -> the one for these, which tell less where they are alike."""
        return t * student_quantile(chance, self.left) / student_quantile(chance, self.independent)

    def change(self, critical: Floats) -> MeanChange:
        return MeanChange(*self.means, *self.variances, critical, self.unit)


def _compared(before: Side, after: Side, phi_of: Callable[[Sequence[Floats]], Floats]) -> _Compared:
    old, new = ([np.asarray(run, float) for run in side] for side in (before, after))
    if max(len(old), len(new)) > 1:
        return _of_runs(*(np.array([run.mean(axis=0) for run in side]) for side in (old, new)))
    return _of_steps(old[0], new[0], phi_of([old[0], new[0]]))


def _of_steps(before: Floats, after: Floats, phi: Floats) -> _Compared:
    size = _group_size(min(len(before), len(after)))
    units = _groups(before, len(before) // size), _groups(after, len(after) // size)
    (a, left_a), (b, left_b) = _mean_variance(units[0], len(before), phi), _mean_variance(units[1], len(after), phi)
    means = before.mean(axis=0), after.mean(axis=0)
    return _Compared(units, means, (a, b), _welch(a, left_a, b, left_b), left_a + left_b, STEPS)


def _of_runs(before: Floats, after: Floats) -> _Compared:
    """(runs × columns): the means of runs. A side of one run is taken to vary as the other does."""
    means, columns = (before.mean(axis=0), after.mean(axis=0)), np.ones(before.shape[1])
    left_a, left_b = (len(before) - 1) * columns, (len(after) - 1) * columns
    if len(before) == 1 or len(after) == 1:
        spread = (before if len(after) == 1 else after).var(axis=0, ddof=1)
        variances = spread / len(before), spread / len(after)
        return _Compared((before, after), means, variances, left_a + left_b, left_a + left_b, RUNS)
    a, b = before.var(axis=0, ddof=1) / len(before), after.var(axis=0, ddof=1) / len(after)
    return _Compared((before, after), means, (a, b), _welch(a, left_a, b, left_b), left_a + left_b, RUNS)


def _welch(a: Floats, left_a: Floats, b: Floats, left_b: Floats) -> Floats:
    parts = a * a / left_a + b * b / left_b
    return np.divide((a + b) ** 2, parts, out=left_a + left_b, where=parts > 0)


def _group_size(steps: int) -> int:
    return max(1, steps // GROUPS)


def _groups(steps: Floats, count: int) -> Floats:
    """Means of so many groups of neighbours, as equal as can be."""
    borders = np.arange(count) * len(steps) // count
    return np.add.reduceat(steps, borders, axis=0) / np.diff(np.append(borders, len(steps)))[:, None]


def _mean_variance(units: Floats, steps: int, phi: Floats) -> tuple[Floats, Floats]:
    """Of the mean of these steps: its variance, and how many independent deviations that rests on."""
    more = underestimate(phi, steps, len(units))
    return units.var(axis=0, ddof=1) / len(units) * more, (len(units) - 1) / more


def _phi(sides: Sequence[Floats]) -> Floats:
    return _told(sides, passed_on)


def _phi_of_many(sides: Sequence[Floats]) -> Floats:
    return _told(sides, passed_on_by_many)


def _told(sides: Sequence[Floats], of: Callable[[Sequence[Floats], int], Floats]) -> Floats:
    """Phi of each column, from as many lags as a group has steps."""
    fewest = min(map(len, sides))
    return of(sides, _group_size(fewest)) if fewest >= CORRELATED_STEPS else np.zeros(sides[0].shape[1])


def _median_variance(values: Floats) -> float:
    """Of the median: from how far apart two order statistics lie that hold it with a known chance."""
    count = len(values)
    outside = max(1, round((count + 1) / 2 - math.sqrt(count)))
    beyond = sum(math.comb(count, below) for below in range(outside)) / 2**count
    ordered = np.sort(values)
    return float(((ordered[-outside] - ordered[outside - 1]) / (2 * NormalDist().inv_cdf(1 - beyond))) ** 2)
