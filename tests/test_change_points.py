import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole.analyze.change_points import LEAST_RUNS, Changes, Stretch, changes, least_chance, shifts

JITTER = [0, 1, -1, 0.5, -0.5, 0.2, -0.2, 0.8, -0.8, 0.4]


def runs(*levels: tuple[int, float], jitter: float = 1) -> np.ndarray:
    """So many runs about each level."""
    return np.concatenate([[level + jitter * JITTER[i % 10] for i in range(count)] for count, level in levels])


def found(values: np.ndarray, *borders: int) -> Changes:
    """Of one metric; `borders`: first runs of the stretches after the first."""
    edges = [0, *borders, len(values)]
    return changes({"step": values}, [Stretch("step", a, b) for a, b in pairwise(edges)])


def places(of: Changes) -> list[int]:
    return [point.at for point in of.points]


def test_a_shift_is_found_where_it_is():
    """100 in ten runs, 108 in ten more: eight standard deviations."""
    one = found(runs((10, 100), (10, 108))).points
    assert len(one) == 1
    point = one[0]
    assert (point.first, point.at, point.after) == (0, 10, 20)
    assert point.before_mean == pytest.approx(100.04)
    assert point.change_share == pytest.approx(8 / 100.04)
    assert point.interval is not None
    assert 0.06 < point.interval.low < 8 / 100.04 < point.interval.high < 0.10
    assert point.chance <= 0.001
    assert (point.earliest, point.latest) == (10, 10)


def test_eight_runs_can_tell_a_change_and_seven_cannot():
    """Two in the 70 ways to choose four of eight runs: the low ones first, or the high ones. Of seven, two in 35."""
    assert LEAST_RUNS == 8
    assert least_chance(8) == 2 / 70
    assert least_chance(7) == 2 / 35
    assert [point.chance for point in found(runs((4, 100), (4, 108))).points] == [pytest.approx(2 / 70)]
    assert found(runs((3, 100), (4, 108))) == Changes((), (), (Stretch("step", 0, 7),), ())


def test_runs_that_vary_show_no_change():
    same = found(runs((20, 100)))
    assert (same.points, same.drifts) == ((), ())
    assert same.told == (Stretch("step", 0, 20),)


def test_runs_that_are_all_alike_show_no_change_and_were_looked_at():
    same = found(np.full(9, 100.0))
    assert (same.points, same.told) == ((), (Stretch("step", 0, 9),))


def test_one_run_that_stands_out_is_no_change():
    assert places(found(np.append(runs((19, 100)), 150))) == []


def test_two_last_runs_are_enough_where_ten_are_known():
    assert places(found(runs((10, 100), (2, 120)))) == [10]


def test_a_change_too_small_to_matter_is_not_named():
    """0.05 %, without any noise."""
    assert places(found(runs((10, 100), (10, 100.05), jitter=0))) == []


def test_several_changes_are_found_in_turn():
    many = found(runs((12, 100), (12, 110), (12, 105)))
    assert places(many) == [12, 24]
    assert [(s.first, s.after) for s in many.segments] == [(0, 12), (12, 24), (24, 36)]
    assert [point.before_mean for point in many.points] == pytest.approx([100.1, 110.1], abs=0.2)
    assert (many.points[0].first, many.points[0].after) == (0, 24)


def test_runs_that_do_not_compare_are_looked_at_apart():
    """The second stretch takes twice as long, on another machine."""
    apart = found(runs((12, 100), (12, 200)), 12)
    assert places(apart) == []
    assert [(s.first, s.after) for s in apart.told] == [(0, 12), (12, 24)]
    assert places(found(runs((12, 100), (6, 200), (6, 220)), 12)) == [18]


def test_two_stretches_share_the_chance_of_error():
    """Each of eight runs alone has at best 2 in 70; both together would err too often, so the later one is tested first."""
    apart = found(runs((4, 100), (4, 108), (8, 200)), 8)
    assert ([(s.first, s.after) for s in apart.told], places(apart)) == ([(8, 16)], [])
    assert places(found(runs((4, 100), (4, 108), (4, 200), (4, 216)), 8)) == [4, 12]
    nine = found(runs((5, 100), (4, 108), (5, 200), (4, 216)), 9)
    assert len(nine.told) == 2
    assert min(point.chance for point in nine.points) == pytest.approx(2 * 2 / 126, rel=0.15)


def test_two_metrics_share_it_too():
    values, steady = runs((10, 100), (10, 108)), np.full(20, 5e9)
    stretches = [Stretch(metric, 0, 20) for metric in ("step", "peak")]
    alone = changes({"step": values, "peak": steady}, stretches)
    assert [(point.metric, point.at) for point in alone.points] == [("step", 10)]
    both = changes({"step": values, "peak": steady + 1e8 * values}, stretches)
    assert {(point.metric, point.at) for point in both.points} == {("step", 10), ("peak", 10)}
    assert min(point.chance for point in both.points) == 2 * alone.points[0].chance


def test_what_was_not_recorded_of_some_runs_is_not_looked_at():
    values = runs((10, 100), (10, 108))
    values[3] = math.nan
    assert found(values).told == ()


def test_a_trend_is_a_drift_and_no_change_point():
    """From 100 to 119 by 1 a run."""
    drift = found(np.arange(100.0, 120)).drifts
    assert [(d.first, d.after, d.begin_mean, d.end_mean) for d in drift] == [(0, 20, pytest.approx(100), pytest.approx(119))]
    assert drift[0].change_share == pytest.approx(0.19)
    assert places(found(np.arange(100.0, 120))) == []


def test_stairs_are_changes_and_no_drift():
    assert places(found(runs((12, 100), (12, 105), (12, 110)))) == [12, 24]


def test_a_jump_that_a_slow_drift_may_have_been_is_named_with_that_doubt():
    """Every other run 1 more, with a jump of 6 in their middle; one of 3 is a drift."""
    rise = np.array([100.0, 100, 101, 101, 102, 102])
    assert [(point.at, point.or_drift) for point in found(np.append(rise, rise + 7)).points] == [(6, True)]
    assert found(np.append(rise, rise + 4)).drifts
    assert [point.or_drift for point in found(runs((10, 100), (10, 108))).points] == [False]


def test_where_a_weak_change_lies_is_told_with_its_doubt():
    """A shift of one and a half standard deviations."""
    noise = np.random.default_rng(3).standard_normal(40)
    (point,) = found(100 + noise + np.repeat([0, 1.5], 20)).points
    assert point.earliest <= 20 <= point.latest
    assert point.earliest < point.latest


def test_the_same_runs_give_the_same_answer():
    values = 100 + np.random.default_rng(1).standard_normal(30) + np.repeat([0, 2], 15)
    assert found(values) == found(values)


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=12))
def test_the_shift_at_each_place_is_the_scaled_difference_of_means(values: list[float]):
    count = len(values)
    naive = [
        abs(sum(values[:k]) / k - sum(values[k:]) / (count - k)) * math.sqrt(k * (count - k) / count) for k in range(2, count - 1)
    ]
    assert shifts(np.array(values)).tolist() == pytest.approx(naive, abs=1e-9 * max(values))


@settings(max_examples=5)
@given(st.lists(st.integers(100, 120), min_size=8, max_size=8))
def test_the_chance_counts_orders_with_a_shift_as_large(values: list[int]):
    """Naive: all 40,320 orders, one by one."""

    def largest(order: tuple[int, ...]) -> float:
        return max(abs(sum(order[:k]) / k - sum(order[k:]) / (8 - k)) * math.sqrt(k * (8 - k) / 8) for k in range(2, 7))

    here = largest(tuple(values))
    as_large = sum(largest(order) >= here - 1e-9 for order in permutations(values)) / math.factorial(8)
    told = found(np.array(values, float)).points
    assert [point.chance for point in told] == ([pytest.approx(as_large)] if told else [])
    if as_large > 0.05:
        assert not told
