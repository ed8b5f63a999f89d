import pytest
from make_trace import loop, make_bundle, make_trace, op

from longpole.analyze.diffs.step_change import step_change
from longpole.analyze.trace import Trace


def run(*durations: float) -> Trace:
    return make_trace(loop(durations, lambda start, end: [op("aten::mm", start, end)]))


BEFORE = run(100, 104, 96, 100)


def test_a_faster_run_is_faster():
    found = step_change(BEFORE, run(80, 82, 78, 80, 80))
    assert (found.change_ns, found.change_share, found.speedup_ratio, found.verdict) == (-20_000, -0.2, 1.25, "faster")
    assert found.interval is not None
    assert found.interval.low < -20_000 < found.interval.high < 0
    assert found.speedup_interval is not None
    assert 1 < found.speedup_interval.low < 1.25 < found.speedup_interval.high
    assert found.apart


def test_a_slower_run_is_slower():
    found = step_change(run(80, 82, 78, 80), BEFORE)
    assert (found.change_share, found.verdict) == (0.25, "slower")


def test_a_run_against_itself_is_within_noise():
    found = step_change(BEFORE, BEFORE)
    assert (found.change_ns, found.speedup_ratio, found.verdict, found.apart) == (0, 1, "within_noise", False)


def test_three_steps_are_too_few():
    found = step_change(BEFORE, run(50, 50, 50))
    assert (found.verdict, found.interval, found.speedup_interval) == ("too_few_steps", None, None)


def test_a_partial_last_step_takes_no_part():
    assert step_change(BEFORE, run(80, 80, 80, 80, 10)).after.mean_ns == 80_000


def test_without_marks_there_is_one_step_a_side():
    found = step_change(make_trace([op("a", 0, 100)]), make_trace([op("a", 0, 50)]))
    assert (found.speedup_ratio, found.verdict) == (2, "too_few_steps")


def test_unprofiled_steps_are_compared_where_both_bundles_have_them():
    events = loop([100], lambda start, end: [op("a", start, end)])
    old = make_bundle(events, unprofiled_step_ns=(60_000,) * 4)
    new = make_bundle(events, unprofiled_step_ns=(30_000,) * 5)
    found = step_change(old, new)
    assert (found.unprofiled_before_ns, found.unprofiled_after_ns) == (60_000, 30_000)
    assert found.unprofiled_interval is not None
    assert found.unprofiled_interval.high == pytest.approx(-30_000)
    bare = step_change(old, BEFORE)
    assert (bare.unprofiled_after_ns, bare.unprofiled_interval) == (None, None)
