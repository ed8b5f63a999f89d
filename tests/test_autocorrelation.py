"""How alike neighbouring steps are, against sums over all pairs of steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_steps import deviations

from longpole.analyze.autocorrelation import MOST, correlation, most_phi, passed_on, passed_on_by_many, repetition, underestimate

PHI = st.floats(0, 0.9)


def naive_variance(phi: float, steps: range, others: range) -> float:
    """Covariance of the means of steps whose deviations have variance 1 and correlation phi to the power of their distance."""
    return sum(phi ** abs(a - b) for a in steps for b in others) / len(steps) / len(others)


@given(PHI, st.integers(1, 30))
def test_repetition_is_the_sum_over_all_pairs_of_steps(phi: float, steps: int):
    want = naive_variance(phi, range(steps), range(steps)) * steps
    assert repetition(np.array([phi]), steps)[0] == pytest.approx(want, rel=1e-6)


@given(PHI, st.integers(2, 8), st.integers(1, 5))
def test_underestimate_is_the_variance_of_the_mean_by_the_expected_variance_between_groups(phi: float, groups: int, size: int):
    parts = [range(first * size, (first + 1) * size) for first in range(groups)]
    whole = range(groups * size)
    mean_variance = naive_variance(phi, whole, whole)
    squares = sum(naive_variance(phi, part, part) - 2 * naive_variance(phi, part, whole) + mean_variance for part in parts)
    expected = squares / (groups - 1) / groups
    assert underestimate(np.array([phi]), groups * size, groups)[0] == pytest.approx(mean_variance / expected, rel=1e-6)


def test_independent_steps_count_each_for_one():
    assert repetition(np.zeros(2), 40).tolist() == [1, 1]
    assert underestimate(np.zeros(1), 40, 8) == pytest.approx([1])


@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=9),
    st.lists(st.integers(0, 9), min_size=6, max_size=9),
    st.sampled_from([1, 2, 3]),
)
def test_correlation_is_that_of_both_sides_by_their_steps_without_its_bias(before: list[int], after: list[int], lag: int):
    def naive(side: list[int]) -> float | None:
        apart = [value - sum(side) / len(side) for value in side]
        squares = sum(a * a for a in apart)
        return sum(a * b for a, b in zip(apart, apart[lag:], strict=False)) / squares if max(side) > min(side) else None

    known = [(len(side), one) for side in (before, after) if (one := naive(side)) is not None]
    steps = (len(before) + len(after)) / 2
    want = (sum(n * one for n, one in known) / sum(n for n, _ in known) * steps + 1) / (steps - 3) if known else 0
    found = correlation([np.array(before, float)[:, None], np.array(after, float)[:, None]], lag)
    assert found[0] == pytest.approx(want, abs=1e-9)


def test_of_many_steps_phi_is_found():
    random = np.random.default_rng(1)
    sides = [deviations(random, 2000, 3, phi=0.6) for _ in range(2)]
    assert passed_on(sides, 1) == pytest.approx([0.6] * 3, abs=0.06)
    assert passed_on_by_many(sides, 1) == pytest.approx([0.6] * 3, abs=0.06)


def test_what_chance_alone_says_of_independent_steps_is_taken_for_chance():
    random = np.random.default_rng(1)
    sides = [random.normal(size=(40, 500)) for _ in range(2)]
    assert (passed_on(sides, 1) == 0).mean() > 0.8


def test_steps_that_take_turns_are_not_less_than_independent():
    sides = [np.tile([1.0, 2.0], 20)[:, None]] * 2
    assert passed_on(sides, 1).tolist() == [0]


def test_every_other_step_alike_shows_at_the_second_lag():
    random = np.random.default_rng(2)
    sides = [np.repeat(deviations(random, 100, 1, phi=0.9), 2, axis=0) * np.tile([[1.0], [-1.0]], (100, 1)) for _ in range(2)]
    assert passed_on(sides, 1)[0] == 0
    assert passed_on(sides, 2)[0] > 0.8


def test_however_alike_steps_are_a_side_counts_for_three():
    straight = [np.arange(10.0)[:, None]] * 2
    assert passed_on(straight, 1)[0] == most_phi(10)
    assert 10 / repetition(np.array([most_phi(10)]), 10)[0] == pytest.approx(3, abs=0.02)
    assert most_phi(10_000) == MOST


def test_columns_that_do_not_vary_say_nothing():
    sides = [np.ones((10, 2)), np.ones((10, 2))]
    assert passed_on(sides, 1).tolist() == [0, 0]
    assert passed_on_by_many(sides, 1).tolist() == [0, 0]


def test_of_many_columns_what_one_of_them_says_by_chance_is_taken_for_what_most_say():
    random = np.random.default_rng(1)
    alike = [deviations(random, 10, 500, phi=0.5) for _ in range(2)]
    alone, together = passed_on(alike, 1), passed_on_by_many(alike, 1)
    assert together.std() < alone.std() / 2
    assert together.mean() == pytest.approx(0.5, abs=0.1)


def test_columns_that_do_differ_keep_their_own():
    random = np.random.default_rng(1)
    sides = [np.hstack([random.normal(size=(200, 80)), deviations(random, 200, 20, phi=0.8)]) for _ in range(2)]
    found = passed_on_by_many(sides, 1)
    assert found[80:] == pytest.approx([0.8] * 20, abs=0.15)
    assert found[:80].mean() < 0.1
