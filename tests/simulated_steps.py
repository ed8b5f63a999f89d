"""Steps at random, of which it is known whether anything changed: (steps × pairs), each column the times of one run.

All have a mean near 1; `SHAPES` are ways in which the steps of real programs vary.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int, int], Floats]

SETTLING = 100  # steps before those that count, until a process has forgotten how it began
ROW_GROUPS = 30  # of rows that occur in the same steps


def normal(cv: float) -> Shape:
    return lambda random, steps, pairs: 1 + cv * random.standard_normal((steps, pairs))


def autoregressive(phi: float, cv: float = 0.05) -> Shape:
    """AR(1): a deviation passes on to the next step by this factor."""
    return lambda random, steps, pairs: 1 + cv * deviations(random, steps, pairs, phi)


def deviations(random: np.random.Generator, steps: int, pairs: int, phi: float) -> Floats:
    """Of an AR(1) with variance 1."""
    news = random.standard_normal((steps + SETTLING, pairs)) * np.sqrt(1 - phi * phi)
    for step in range(1, len(news)):
        news[step] += phi * news[step - 1]
    return news[SETTLING:]


def bursts(share: float, length: float, more: float, cv: float) -> Shape:
    """Runs of so many slow steps in the mean, each step longer by `more`, that take this share of all steps."""

    def made(random: np.random.Generator, steps: int, pairs: int) -> Floats:
        ends, begins = 1 / length, share / (1 - share) / length
        slow = np.empty((steps, pairs), bool)
        slow[0] = random.random(pairs) < share
        for step in range(1, steps):
            chance = random.random(pairs)
            slow[step] = np.where(slow[step - 1], chance >= ends, chance < begins)
        return 1 + more * slow + cv * random.standard_normal((steps, pairs))

    return made


def drift(random: np.random.Generator, steps: int, pairs: int) -> Floats:
    """Every run becomes 10 % slower on its way."""
    return 1 + 0.1 * np.linspace(0, 1, steps)[:, None] + 0.03 * random.standard_normal((steps, pairs))


def lognormal(random: np.random.Generator, steps: int, pairs: int) -> Floats:
    return random.lognormal(-0.5, 1, (steps, pairs))


def student(random: np.random.Generator, steps: int, pairs: int) -> Floats:
    return 1 + 0.05 * random.standard_t(3, (steps, pairs))


def outliers(random: np.random.Generator, steps: int, pairs: int) -> Floats:
    """One step in twenty takes three times as long."""
    return np.where(random.random((steps, pairs)) < 0.05, 3, 1) * normal(0.02)(random, steps, pairs)


INDEPENDENT: dict[str, Shape] = {
    "normal": normal(0.05),
    "lognormal": lognormal,
    "Student's t with 3 degrees of freedom": student,
    "one in twenty takes three times as long": outliers,
}
IN_ORDER: dict[str, Shape] = {
    "AR(1), phi 0.3": autoregressive(0.3),
    "AR(1), phi 0.6": autoregressive(0.6),
    "AR(1), phi 0.8": autoregressive(0.8),
    "bursts of 5 steps, +50 %": bursts(1 / 6, 5, 0.5, 0.02),
    "weak bursts of 5 steps, +5 %": bursts(1 / 6, 5, 0.05, 0.03),
    "drift of 10 % on both sides": drift,
}


def runs(random: np.random.Generator, count: int, pairs: int, cv: float, run_cv: float = 0.01) -> list[Floats]:
    """So many runs of 10 to 60 steps, whose means differ."""
    means = 1 + run_cv * random.standard_normal((count, pairs))
    return [mean * normal(cv)(random, int(random.integers(10, 61)), pairs) for mean in means]


def alike_tables(random: np.random.Generator, before: int, after: int, columns: int, phi: float = 0.0) -> tuple[Floats, Floats]:
    """Two (steps × columns) tables of one program: a third of the columns vary normally, a third askew, a third occur in some
    steps only. They share what slows whole steps down; their means differ by up to four powers of ten. The first is constant.
    """
    mean, shared, own = 10 ** random.uniform(-2, 2, columns), random.uniform(0, 0.08, columns), random.uniform(0.01, 0.2, columns)
    occurs, group = random.choice([0.02, 0.1, 0.3, 0.5, 0.7, 0.95], columns), random.integers(0, ROW_GROUPS, columns)
    kind = np.arange(columns) % 3

    def table(steps: int) -> Floats:
        whole = 1 + shared * deviations(random, steps, 1, phi)
        each = own * deviations(random, steps, columns, phi)
        times = mean * whole * np.where(kind == 0, 1 + each, np.exp(4 * each))
        here = random.random((steps, ROW_GROUPS))[:, group] < occurs
        times[:, kind == 2] = np.where(here, times, 0)[:, kind == 2]
        times[:, 0] = mean[0]
        return np.maximum(times, 0)

    return table(before), table(after)
