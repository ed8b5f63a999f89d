import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from make_trace import Event, loop, make_bundle, make_trace, op

from longpole.analyze.diffs.step_change import CANNOT_TELL, EXCEEDS, WITHIN, StepDifference, step_change, step_change_of
from longpole.analyze.step_marks import LeftOut
from longpole.analyze.trace import Trace

STEPS = st.lists(st.integers(1, 1000), min_size=6, max_size=20)


def run(*durations: float) -> Trace:
    return make_trace(loop(durations, lambda start, end: [op("aten::mm", start, end)]))


def compared(before: list[int], after: list[int]) -> StepDifference:
    return step_change_of([np.array(before, float)], [np.array(after, float)])


BEFORE = run(100, 104, 96, 100, 98, 102)


def test_a_faster_run_is_faster():
    found = step_change([BEFORE], [run(80, 82, 78, 80, 80, 79, 81)])
    assert (found.change_ns, found.change_share, found.speedup_ratio, found.verdict) == (-20_000, -0.2, 1.25, "faster")
    assert found.interval is not None
    assert -25_000 < found.interval.low < -20_000 < found.interval.high < -15_000
    assert found.speedup_interval is not None
    assert 1.15 < found.speedup_interval.low < 1.25 < found.speedup_interval.high < 1.35
    assert found.share_interval is not None
    assert found.share_interval.low == pytest.approx(1 / found.speedup_interval.high - 1)
    assert found.apart
    assert found.unit == "steps"


def test_a_slower_run_is_slower():
    found = step_change([run(80, 82, 78, 80, 79, 81)], [BEFORE])
    assert (found.change_share, found.verdict) == (0.25, "slower")


def test_a_run_against_itself_is_within_noise():
    found = step_change([BEFORE], [BEFORE])
    assert (found.change_ns, found.speedup_ratio, found.verdict, found.apart) == (0, 1, "within_noise", False)


def test_five_steps_are_too_few():
    found = step_change([BEFORE], [run(50, 50, 50, 50, 50)])
    assert (found.verdict, found.interval, found.speedup_interval) == ("too_few_steps", None, None)


def test_of_several_runs_what_varies_are_the_runs():
    def side(*means: float) -> list[np.ndarray]:
        return [mean + np.array([-1.0, 1.0, -1.0, 1.0]) for mean in means]

    steady = step_change_of(side(100, 101, 99, 100), side(90, 91, 89, 90))
    assert (steady.unit, steady.before_ns, steady.change_ns, steady.verdict) == ("runs", 100, -10, "faster")
    varying = step_change_of(side(100, 110, 90, 100), side(95, 105, 85, 95))
    assert (varying.change_ns, varying.verdict) == (-5, "within_noise")
    pooled = step_change_of([np.concatenate(side(100, 101, 99, 100))], [np.concatenate(side(98, 99, 97, 98))])
    assert pooled.unit == "steps"


def test_a_run_counts_as_one_however_long_it_is():
    found = step_change_of([np.full(10, 100.0), np.full(90, 200.0)], [np.full(6, 150.0), np.full(6, 150.0)])
    assert (found.before_ns, found.after_ns, found.change_ns) == (150, 150, 0)


def test_a_partial_last_step_takes_no_part():
    found = step_change([BEFORE], [run(80, 80, 80, 80, 80, 80, 10)])
    assert found.after.mean_ns == 80_000
    assert found.left_out == ((), (LeftOut("ProfilerStep#6", "cut off"),))


def test_a_first_step_that_still_warms_up_takes_no_part():
    def busy(start: float, end: float) -> list[Event]:
        return [op("aten::mm", start, end)]

    found = step_change([BEFORE], [make_trace(loop([300, 80, 80, 200, 80, 80, 80], busy))])
    assert (found.after_ns, found.after.count) == (100_000, 6)  # a slow step later on is the program's own
    assert found.left_out[1] == (LeftOut("ProfilerStep#0", "still warming up"),)


def test_without_marks_there_is_one_step_a_side():
    found = step_change([make_trace([op("a", 0, 100)])], [make_trace([op("a", 0, 50)])])
    assert (found.speedup_ratio, found.verdict) == (2, "too_few_steps")


def test_unprofiled_steps_are_compared_where_both_bundles_have_them():
    events = loop([100], lambda start, end: [op("a", start, end)])
    old = make_bundle(events, unprofiled_step_ns=(60_000,) * 4)
    new = make_bundle(events, unprofiled_step_ns=(30_000,) * 5)
    found = step_change([old], [new])
    assert (found.unprofiled_before_ns, found.unprofiled_after_ns) == (60_000, 30_000)
    assert found.unprofiled_interval is not None
    assert found.unprofiled_interval.high == pytest.approx(-30_000)
    bare = step_change([old], [BEFORE])
    assert (bare.unprofiled_after_ns, bare.unprofiled_interval) == (None, None)


@given(STEPS, STEPS)
def test_verdict_and_intervals_agree(before: list[int], after: list[int]):
    found = compared(before, after)
    assert found.interval is not None
    assert found.interval.excludes_zero() == (found.verdict in ("faster", "slower"))
    assert found.interval.low <= found.change_ns <= found.interval.high
    if found.speedup_interval and found.share_interval:
        real = not found.speedup_interval.low <= 1 <= found.speedup_interval.high
        assert real == found.interval.excludes_zero() or min(map(abs, vars(found.interval).values())) < 1e-6
        assert found.share_interval.excludes_zero() == real
        assert found.share_interval.low <= found.change_share <= found.share_interval.high


@given(STEPS, st.floats(-0.2, 0.2))
def test_a_limit_is_exceeded_only_by_a_change_that_is_real_and_larger(steps: list[int], limit: float):
    found = compared(steps, [2 * ns for ns in steps])
    assume(found.share_interval is not None)
    assert found.share_interval is not None
    told = found.against(limit)
    assert (told == EXCEEDS) == (found.share_interval.low > limit)
    if told == EXCEEDS and limit >= 0:
        assert found.verdict == "slower"
        assert found.change_share > limit


def test_a_limit_can_be_exceeded_kept_or_neither():
    steady = compared([100, 101, 99, 100, 101, 99], [110, 111, 109, 110, 111, 109])
    assert [steady.against(limit) for limit in (0.03, 0.1, 0.2)] == [EXCEEDS, CANNOT_TELL, WITHIN]
    assert compared([100] * 3, [200] * 3).against(0.03) == CANNOT_TELL
