import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze import statistics
from longpole.analyze.statistics import Interval, change_intervals, mean_intervals, ratio_interval

STEPS = st.lists(st.integers(1, 1000), min_size=4, max_size=30)


def column(values: list[int]) -> np.ndarray:
    return np.array(values, float)[:, None]


@given(STEPS)
def test_an_interval_of_the_mean_contains_it_and_lies_within_the_values(values: list[int]):
    (interval,) = mean_intervals(column(values))
    assert interval.low <= np.mean(values) + 1e-9
    assert interval.high >= np.mean(values) - 1e-9
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


@given(STEPS)
def test_a_run_against_itself_has_not_changed(values: list[int]):
    (interval,) = change_intervals(column(values), column(values))
    assert not interval.excludes_zero()
    ratio = ratio_interval(values, values)
    assert ratio.low <= 1 + 1e-9
    assert ratio.high >= 1 - 1e-9


def test_the_same_steps_give_the_same_interval():
    values = column([90, 100, 110, 95, 105])
    assert mean_intervals(values) == mean_intervals(values)
    assert change_intervals(values, 2 * values) == change_intervals(values, 2 * values)
    assert ratio_interval(values[:, 0], values[:, 0]) == ratio_interval(values[:, 0], values[:, 0])


def test_steps_that_do_not_vary_have_an_interval_of_one_point():
    pairs = [
        *mean_intervals([[100.0, 7.0]] * 5),
        *change_intervals([[100.0]] * 5, [[80.0]] * 4),
        ratio_interval([5.0] * 5, [4.0] * 4),
    ]
    borders = [border for interval in pairs for border in (interval.low, interval.high)]
    assert borders == pytest.approx([100, 100, 7, 7, -20, -20, 1.25, 1.25])


def test_a_change_far_outside_the_noise_excludes_zero():
    before, after = column([100, 104, 96, 102, 98]), column([80, 84, 76, 82, 78])
    (interval,) = change_intervals(before, after)
    assert interval.excludes_zero()
    assert -26 < interval.low < -20 < interval.high < -14


def test_a_change_inside_the_noise_does_not():
    (interval,) = change_intervals(column([60, 140, 60, 140]), column([70, 140, 70, 140]))
    assert not interval.excludes_zero()


@pytest.mark.parametrize(("low", "high", "real"), [(1, 2, True), (-2, -1, True), (-1, 1, False), (0, 1, False), (-1, 0, False)])
def test_zero_on_the_border_is_not_excluded(low: float, high: float, real: bool):
    assert Interval(low, high).excludes_zero() is real


def test_about_nineteen_in_twenty_intervals_hold_the_true_mean():
    random = np.random.default_rng(7)
    runs = random.normal(100, 10, size=(30, 400))  # 30 steps of 400 runs
    held = np.mean([interval.low <= 100 <= interval.high for interval in mean_intervals(runs)])
    assert 0.90 <= held <= 0.98


def test_of_many_steps_the_interval_is_the_same_as_of_few_but_for_noise(monkeypatch: pytest.MonkeyPatch):
    values = np.random.default_rng(1).exponential(100, size=(400, 2))
    drawn = mean_intervals(values)
    monkeypatch.setattr(statistics, "MANY_STEPS", 400)
    counted = mean_intervals(values)
    for one, other in zip(drawn, counted, strict=True):
        assert one != other
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.05 * (other.high - other.low))
