"""How often a comparison claims a change where there is none; `python run.py bench diff` tells it of more pairs and cases.

Seeds are fixed. The bounds are 5 % and three standard errors of so many pairs, which a percentile bootstrap does not keep.
"""

from collections.abc import Callable

import numpy as np
import pytest
from simulated_steps import (
    IN_ORDER,
    INDEPENDENT,
    Floats,
    Shape,
    alike_tables,
    autoregressive,
    deviations,
    drift,
    normal,
    runs,
)

from longpole.analyze.statistics import MeanChange, mean_change, mean_changes_at_once

PAIRS, TABLES = 500, 40
MOST_SHARE = 0.05 + 3 * (0.05 * 0.95 / PAIRS) ** 0.5
RESAMPLES = 400
STEADY_BURSTS = IN_ORDER["bursts of 5 steps, +50 %"]


def pairs_of(shape: Shape, before: int, after: int) -> tuple[Floats, Floats]:
    random = np.random.default_rng(3)
    return shape(random, before, PAIRS), shape(random, after, PAIRS)


def claimed(found: MeanChange) -> Floats:
    return (found.low > 0) | (found.high < 0)


def bootstrap_claims(before: Floats, after: Floats) -> float:
    random = np.random.default_rng(3)

    def means(steps: Floats) -> Floats:
        return random.multinomial(len(steps), np.full(len(steps), 1 / len(steps)), RESAMPLES) / len(steps) @ steps

    low, high = np.percentile(means(after) - means(before), [2.5, 97.5], axis=0)
    return float(((low > 0) | (high < 0)).mean())


@pytest.mark.parametrize("name", INDEPENDENT)
@pytest.mark.parametrize(("before", "after"), [(6, 6), (6, 20), (10, 10), (40, 40)])
def test_independent_steps_of_any_shape_seldom_claim_a_change(name: str, before: int, after: int):
    old, new = pairs_of(INDEPENDENT[name], before, after)
    assert claimed(mean_change([old], [new])).mean() <= MOST_SHARE


@pytest.mark.parametrize("phi", [0.3, 0.6, 0.8])
def test_neighbours_that_are_alike_seldom_claim_a_change_from_forty_steps_on(phi: float):
    for before, after in ((40, 40), (40, 100)):
        old, new = pairs_of(autoregressive(phi), before, after)
        assert claimed(mean_change([old], [new])).mean() <= MOST_SHARE


@pytest.mark.parametrize("shape", [STEADY_BURSTS, drift], ids=["bursts", "drift"])
def test_bursts_and_drift_seldom_claim_a_change(shape: Shape):
    old, new = pairs_of(shape, 40, 40)
    assert claimed(mean_change([old], [new])).mean() <= MOST_SHARE


@pytest.mark.parametrize(("before", "after"), [(4, 4), (4, 6)])
def test_runs_that_differ_seldom_claim_a_change_where_there_are_several(before: int, after: int):
    random = np.random.default_rng(3)
    found = mean_change(runs(random, before, PAIRS, 0.02), runs(random, after, PAIRS, 0.02))
    assert claimed(found).mean() <= MOST_SHARE


def test_one_run_a_side_cannot_show_that_runs_differ():
    random = np.random.default_rng(3)
    found = mean_change(runs(random, 1, PAIRS, 0.02), runs(random, 1, PAIRS, 0.02))
    assert claimed(found).mean() > 3 * MOST_SHARE
    assert found.unit == "steps"


@pytest.mark.parametrize("shape", [normal(0.05), autoregressive(0.6)], ids=["independent", "alike"])
def test_a_percentile_bootstrap_does_not_keep_these_bounds(shape: Shape):
    assert bootstrap_claims(*pairs_of(shape, 6, 6)) > MOST_SHARE


@pytest.mark.parametrize(
    ("before", "after", "phi"), [(6, 6, 0), (6, 20, 0), (10, 10, 0), (20, 20, 0), (40, 40, 0.6), (40, 40, 0.8)]
)
def test_tables_of_many_rows_seldom_claim_any(before: int, after: int, phi: float):
    random = np.random.default_rng(3)
    tables = [alike_tables(random, before, after, 200, phi) for _ in range(TABLES)]
    any_claimed = [claimed(mean_changes_at_once([old], [new])).any() for old, new in tables]
    assert np.mean(any_claimed) <= 0.05 + 3 * (0.05 * 0.95 / TABLES) ** 0.5


@pytest.mark.parametrize("of", [mean_change, mean_changes_at_once])
def test_intervals_hold_the_change_and_large_changes_are_found(of: Callable[..., MeanChange]):
    old, new = pairs_of(normal(0.05), 10, 10)
    found = of([old], [new * 1.2])
    assert ((found.low <= 0.2) & (found.high >= 0.2)).mean() >= 0.93
    assert claimed(mean_change([old], [new * 1.2])).mean() > 0.95


def test_rows_that_change_by_half_are_found_among_many_that_do_not():
    random = np.random.default_rng(3)
    before, after = (1 + 0.05 * deviations(random, 10, 200, 0) for _ in range(2))
    after[:, :20] *= 1.5
    found = claimed(mean_changes_at_once([before], [after]))
    assert found[:20].all()
    assert not found[20:].any()
