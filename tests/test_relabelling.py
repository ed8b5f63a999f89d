"""Deals of labels, against a loop over all of them."""

import math
from itertools import combinations
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze import relabelling
from longpole.analyze.relabelling import can_tell, chance_of_any, chance_of_each, deals_count

COLUMN = st.lists(st.integers(0, 6), min_size=10, max_size=10)


def naive_t(before: list[float], after: list[float]) -> float:
    change = abs(fmean(after) - fmean(before))
    error = math.sqrt(variance(before) / len(before) + variance(after) / len(after))
    return 0.0 if change < 1e-12 else change / error if error else math.inf


def naive_deals(values: list[float], count: int) -> list[float]:
    """|t| of every way to deal the first side so many of these."""
    units = range(len(values))
    return [
        naive_t([values[i] for i in units if i in picked], [values[i] for i in units if i not in picked])
        for picked in combinations(units, count)
    ]


def naive_rare(values: list[float], chance: float, alike: int) -> float:
    """The largest value that is left without the part of them that may be larger."""
    ordered = sorted(values, reverse=True)
    return ordered[max(int(chance * len(ordered)), alike)]


@given(COLUMN, st.sampled_from([(2, 3), (3, 3), (5, 4), (5, 5), (3, 7)]), st.sampled_from([0.05, 0.01, 0.2]))
def test_of_a_column_it_is_the_rare_value_of_all_deals(values: list[int], sizes: tuple[int, int], chance: float):
    n, m = sizes
    told = np.array(values[: n + m], float)[:, None]
    want = naive_rare(naive_deals([float(v) for v in values[: n + m]], n), chance, 2 if n == m else 1)
    assert chance_of_each(told[:n], told[n:], chance)[0] == pytest.approx(want, rel=1e-6)


@given(st.lists(COLUMN, min_size=1, max_size=3), st.sampled_from([(5, 4), (4, 4), (3, 6)]))
def test_of_many_columns_it_is_that_of_the_largest_in_each_deal(columns: list[list[int]], sizes: tuple[int, int]):
    n, m = sizes
    told = np.array([column[: n + m] for column in columns], float).T
    largest = [max(row) for row in zip(*(naive_deals(column, n) for column in told.T.tolist()), strict=True)]
    want = naive_rare(largest, 0.05, 2 if n == m else 1)
    assert chance_of_any(told[:n], told[n:], 0.05) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(
    ("before", "after", "chance", "told"),
    [(4, 4, 0.05, True), (4, 4, 0.02, False), (3, 3, 0.05, False), (3, 4, 0.05, True), (1, 40, 0.05, False), (6, 6, 0.01, True)],
)
def test_a_few_units_can_be_dealt_in_too_few_ways(before: int, after: int, chance: float, told: bool):
    assert can_tell(before, after, chance) is told  # 4 v 4: 2 of 70 deals are the measured one and its mirror image


def test_of_many_units_so_many_deals_are_drawn_and_always_the_same():
    random = np.random.default_rng(3)
    before, after = random.normal(size=(20, 2)), random.normal(size=(30, 2))
    assert deals_count(20, 30) == relabelling.DEALS
    assert chance_of_each(before, after, 0.05).tolist() == chance_of_each(before, after, 0.05).tolist()
    assert chance_of_each(before, after, 0.05) == pytest.approx([2.01, 2.01], rel=0.06)  # Student's, of 48 degrees of freedom


def test_the_measured_deal_is_among_them_whichever_side_is_smaller():
    old, new = np.arange(15.0)[:, None], 100 + np.arange(40.0)[:, None]
    drawn = relabelling.DEALS  # of more than 10^13, so that no other of them parts the two sides
    for before, after in ((old, new), (new, old)):
        both = chance_of_each(before, after, 0.5 / drawn)  # only the measured one may be larger
        assert both[0] < naive_t(before[:, 0].tolist(), after[:, 0].tolist())


def test_a_column_that_is_constant_but_for_rounding_does_not_part_the_sides():
    before = np.array([[1.3, 0.1 + 0.2], [1.1, 0.3], [1.4, 0.3], [1.2, 0.3]])
    after = np.array([[1.2, 0.3], [1.6, 0.3], [1.5, 0.3], [1.4, 0.3]])
    assert chance_of_any(before, after, 0.05) == pytest.approx(chance_of_any(before[:, :1], after[:, :1], 0.05))


def test_deals_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(3)
    before, after = random.normal(size=(5, 3)), random.normal(size=(5, 3))
    whole = chance_of_any(before, after, 0.05)
    monkeypatch.setattr(relabelling, "BLOCK_VALUES", 70)
    assert chance_of_any(before, after, 0.05) == pytest.approx(whole)
