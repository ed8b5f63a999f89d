"""Student's t: a chance -> the value that |t| exceeds with it, and back; also for degrees of freedom that are no integers."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEAST_FREEDOM = 1.0  # of fewer there is hardly a bound at all: chances of 5 % would need values of hundreds
LEAST_CHANCE = 1e-300  # below, the density of many degrees of freedom is zero in float64
GRID = np.linspace(0, 25, 2501)  # t = sinh(grid), to 3.6e10: so wide is t with one degree of freedom
FREEDOM = 1 / np.linspace(1e-6, 1 / LEAST_FREEDOM, 101)  # quantiles are smooth in the reciprocal


def student_quantile(chance: float, freedom: ArrayLike) -> Floats:
    """The t with P(|T| > t) = chance, for each number of degrees of freedom."""
    wanted = np.maximum(np.asarray(freedom, float), LEAST_FREEDOM)
    return np.exp(np.interp(1 / wanted, 1 / FREEDOM, _logarithms(chance)))


def student_chance(t: float, freedom: float) -> float:
    """P(|T| > t)."""
    return float(np.exp(np.interp(np.arcsinh(t), GRID, np.log(_chances(freedom)))))


@lru_cache(maxsize=16)
def _logarithms(chance: float) -> Floats:
    """Of the quantile at each FREEDOM."""
    grid = [np.interp(-np.log(chance), -np.log(_chances(freedom)), GRID) for freedom in FREEDOM]
    return np.log(np.sinh(grid))


def _chances(freedom: float) -> Floats:
    """P(|T| > t) at each t of the grid: the density, integrated by trapezoids from the far end."""
    t = np.sinh(GRID)
    density = np.exp(-(freedom + 1) / 2 * np.log1p(t * t / freedom)) * np.cosh(GRID)
    beyond = np.cumsum((density[:-1] + density[1:])[::-1])[::-1]
    return np.maximum(np.append(beyond, 0) / beyond[0], LEAST_CHANCE)
