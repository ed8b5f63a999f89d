import math
from statistics import fmean, stdev, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.relabelling import chance_of_each
from longpole.analyze.statistics import (
    GROUPS,
    Interval,
    MeanChange,
    mean_change,
    mean_changes_at_once,
    mean_intervals,
    median_change_interval,
)
from longpole.analyze.student import student_quantile

STEPS = st.lists(st.integers(1, 1000), min_size=4, max_size=30)
FEW = st.lists(st.integers(0, 9), min_size=4, max_size=5)  # so few that nothing is said of neighbours
UNEVEN = [100.0, 104, 96, 102, 98, 100]  # neighbours are rather unlike


def column(values: list[float]) -> np.ndarray:
    return np.array(values, float)[:, None]


def change(before: list[float], after: list[float]) -> MeanChange:
    return mean_change([column(before)], [column(after)])


def claimed(found: MeanChange) -> list[bool]:
    return ((found.low > 0) | (found.high < 0)).tolist()


@given(FEW)
def test_the_interval_of_a_mean_is_students(values: list[int]):
    (interval,) = mean_intervals(column(values))
    reach = {4: 3.1824, 5: 2.7764}[len(values)] * stdev(values) / math.sqrt(len(values))
    assert (interval.low, interval.high) == pytest.approx(
        (fmean(values) - reach, fmean(values) + reach), rel=1e-3, abs=1e-4 * reach + 1e-9
    )


@given(FEW, FEW)
def test_a_change_is_welchs_and_no_less_than_chance_deals(before: list[int], after: list[int]):
    found = change(before, after)
    a, b = variance(before) / len(before), variance(after) / len(after)
    parts = a * a / (len(before) - 1) + b * b / (len(after) - 1)
    freedom = (a + b) ** 2 / parts if parts else len(before) + len(after) - 2
    t = max(float(student_quantile(0.05, freedom)), float(chance_of_each(column(before), column(after), 0.05)[0]))
    moved, reach = fmean(after) - fmean(before), t * math.sqrt(a + b) if a + b else 0
    assert (found.low[0], found.high[0]) == pytest.approx((moved - reach, moved + reach), rel=1e-3, abs=1e-9)


@given(STEPS, STEPS)
def test_the_speed_up_excludes_one_where_the_change_excludes_zero(before: list[int], after: list[int]):
    found = change(before, after)
    if (ratio := found.ratio) is None:
        return
    assert ratio.low <= fmean(before) / fmean(after) <= ratio.high
    if min(abs(found.low[0]), abs(found.high[0])) > 1e-6:
        assert (not ratio.low <= 1 <= ratio.high) == claimed(found)[0]


@given(STEPS)
def test_a_run_against_itself_has_not_changed(values: list[int]):
    assert claimed(change(values, values)) == [False]
    ratio = change(values, values).ratio
    assert ratio is None or ratio.low <= 1 <= ratio.high


@given(STEPS, STEPS)
def test_before_and_after_swapped_give_the_same_interval_the_other_way_round(before: list[int], after: list[int]):
    one, other = change(before, after), change(after, before)
    assert (one.low[0], one.high[0]) == pytest.approx((-other.high[0], -other.low[0]))


def test_the_same_steps_give_the_same_interval():
    random = np.random.default_rng(1)
    before, after = random.normal(100, 10, size=(60, 3)), random.normal(100, 10, size=(50, 3))
    for of in (mean_change, mean_changes_at_once):
        assert of([before], [after]).low.tolist() == of([before], [after]).low.tolist()


def test_columns_alone_do_not_depend_on_each_other():
    random = np.random.default_rng(1)
    before, after = random.normal(100, 10, size=(20, 3)), random.normal(100, 10, size=(30, 3))
    whole = mean_change([before], [after])
    for place in range(3):
        one = mean_change([before[:, [place]]], [after[:, [place]]])
        assert (one.low[0], one.high[0]) == pytest.approx((whole.low[place], whole.high[place]))


def test_steps_that_do_not_vary_have_an_interval_of_one_point():
    assert mean_intervals([[100.0, 7.0]] * 5) == [Interval(100, 100), Interval(7, 7)]
    found = change([100.0] * 5, [80.0] * 4)
    assert (found.low[0], found.high[0]) == (-20, -20)
    ratio = change([5.0] * 6, [4.0] * 6).ratio
    assert ratio == Interval(pytest.approx(1.25), pytest.approx(1.25))  # type: ignore[arg-type]


def test_a_change_far_outside_the_noise_excludes_zero():
    found = change(UNEVEN, [value - 20 for value in UNEVEN])
    assert -26 < found.low[0] < -20 < found.high[0] < -14


def test_a_change_inside_the_noise_does_not():
    assert claimed(change([60, 140, 60, 140], [70, 140, 70, 140])) == [False]


@pytest.mark.parametrize(("low", "high", "real"), [(1, 2, True), (-2, -1, True), (-1, 1, False), (0, 1, False), (-1, 0, False)])
def test_zero_on_the_border_is_not_excluded(low: float, high: float, real: bool):
    assert Interval(low, high).excludes_zero() is real


def test_neighbours_that_are_alike_tell_less():
    turns, halves = [90.0, 110.0] * 6, [90.0] * 3 + [110.0] * 6 + [90.0] * 3
    one, other = change(turns, turns), change(halves, halves)
    assert other.high[0] > 2 * one.high[0]


def test_of_many_steps_groups_of_neighbours_are_the_units():
    groups = [[float(value)] * 10 for value in (100, 104, 96, 102, 98, 100, 97, 103)]
    steps = [value for group in groups for value in group]
    assert len(steps) == 10 * GROUPS
    found = change(steps, steps)
    of_groups = math.sqrt(variance([group[0] for group in groups]) / GROUPS)
    assert math.sqrt(found.before_variance[0]) >= of_groups > 3 * stdev(steps) / len(steps)


def test_the_change_is_that_of_the_mean_of_all_steps_also_where_groups_are_uneven():
    steps = [float(value) for value in range(47)]
    found = change(steps, [value + 3 for value in steps])
    assert (found.before[0], found.after[0]) == (23, 26)


def test_of_several_runs_only_their_means_count():
    def side(*means: float) -> list[np.ndarray]:
        return [column([mean - 5, mean + 5] * 3) for mean in means]

    found = mean_change(side(100, 102, 98, 100), side(90, 92, 88, 90))
    means = change([100, 102, 98, 100], [90, 92, 88, 90])
    assert found.unit == "runs"
    assert (found.low[0], found.high[0]) == pytest.approx((means.low[0], means.high[0]))


def test_a_side_of_one_run_varies_as_the_other_does():
    one, several = [column([100.0] * 6)], [column([mean] * 6) for mean in (90.0, 91.0, 89.0, 90.0)]
    found = mean_change(one, several)
    reach = 3.1824 * math.sqrt(2 / 3 * (1 + 1 / 4))  # t of three degrees of freedom; the variance of 90, 91, 89, 90
    assert (found.low[0], found.high[0]) == pytest.approx((-10 - reach, -10 + reach), rel=1e-3)
    back = mean_change(several, one)
    assert (back.low[0], back.high[0]) == pytest.approx((10 - reach, 10 + reach), rel=1e-3)


def test_two_runs_a_side_rest_on_students_t_alone():
    found = mean_change([column([100.0]), column([102.0])], [column([90.0]), column([92.0])])
    reach = 4.3027 * math.sqrt(2)  # of two degrees of freedom; each mean has the variance 2 ÷ 2
    assert (found.low[0], found.high[0]) == pytest.approx((-10 - reach, -10 + reach), rel=1e-3)


def test_at_once_the_intervals_are_wider_the_more_columns_there_are():
    random = np.random.default_rng(1)
    before, after = random.normal(100, 10, size=(10, 100)), random.normal(100, 10, size=(10, 100))
    reaches = [
        (found.high - found.low)[0]
        for found in (mean_changes_at_once([before[:, :count]], [after[:, :count]]) for count in (1, 10, 100))
    ]
    assert reaches == sorted(reaches)
    assert reaches[2] > 1.5 * reaches[0]


def test_columns_that_say_the_same_count_once():
    random = np.random.default_rng(2)
    before, after = random.normal(100, 10, size=(10, 1)), random.normal(100, 10, size=(10, 1))
    one = mean_changes_at_once([before], [after])
    many = mean_changes_at_once([np.repeat(before, 50, axis=1)], [np.repeat(after, 50, axis=1)])
    assert many.high[0] == pytest.approx(one.high[0])


def test_constant_columns_that_differ_are_claimed_among_many_that_vary():
    random = np.random.default_rng(3)
    before, after = random.lognormal(size=(6, 50)), random.lognormal(size=(6, 50))
    before[:, 0], after[:, 0] = 40, 30
    assert claimed(mean_changes_at_once([before], [after])) == [True] + [False] * 49


def test_nothing_is_claimed_where_other_columns_part_as_well_in_other_deals():
    steps = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    other = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = mean_changes_at_once([steps], [other])  # by chance, each of 70 deals is as likely, and two part a column each
    assert claimed(found) == [False, False]


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=12), st.integers(-50, 50))
def test_the_interval_of_a_median_moves_with_it(values: list[int], moved: int):
    interval = median_change_interval([values], [[value + moved for value in values]])
    assert (interval.low + interval.high) / 2 == pytest.approx(moved, abs=1e-6)
    assert interval.low <= moved + 1e-9


def test_the_median_does_not_mind_one_step_that_is_far_off():
    steady = median_change_interval([UNEVEN * 2], [[value - 20 for value in UNEVEN * 2]])
    assert steady.high < 0
    off = median_change_interval([[*UNEVEN * 2, 10_000]], [[value - 20 for value in UNEVEN * 2]])
    assert off.high < 0


def test_the_median_of_runs_is_compared_between_runs():
    before, after = [[99, 100, 500], [101, 102, 900], [98, 99, 100]], [[80, 81, 82], [82, 83, 84], [80, 81, 700]]
    interval = median_change_interval(before, after)
    found = change([100, 102, 99], [81, 83, 81])
    assert (interval.low, interval.high) == pytest.approx((found.low[0], found.high[0]))
