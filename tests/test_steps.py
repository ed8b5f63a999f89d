import pytest
from make_trace import annotation, backward, kernel, loop, make_bundle, make_trace, op, step

from longpole.analyze.analyses.steps import Steps, steps


def busy(start: float, end: float) -> list[dict[str, object]]:
    return [op("aten::mm", start, end)]


def test_the_statistics_are_over_whole_steps():
    found = steps(make_trace(loop([100, 120, 110, 130, 40], busy)))
    assert (found.window, found.count) == ("steps", 4)
    assert (found.mean_ns, found.median_ns, found.max_ns) == (115_000, 115_000, 130_000)
    assert found.p95_ns == pytest.approx(128_500)  # between 120 and 130, 0.85 of the way
    assert found.interval is not None
    assert found.interval.low == pytest.approx(115_000 - 20_543, abs=10)  # t of 3 degrees of freedom, 3.182, times 6,455
    assert found.interval.high == pytest.approx(115_000 + 20_543, abs=10)
    assert found.statistics["value_ns"].tolist() == pytest.approx([115_000, 115_000, 128_500, 130_000])


def test_fewer_than_four_steps_have_no_interval():
    assert steps(make_trace(loop([100, 100, 100], busy))).interval is None
    assert steps(make_trace(loop([100, 100, 100, 100], busy))).interval is not None


def test_without_marks_the_whole_trace_is_one_step():
    found = steps(make_trace([op("aten::mm", 0, 40), op("aten::mm", 60, 100)]))
    assert (found.window, found.count, found.mean_ns, found.interval) == ("trace", 1, 100_000, None)


def test_what_runs_backward_or_steps_an_optimizer_is_training():
    forward = [step(1, 0, 100), op("aten::mm", 0, 10)]
    assert steps(make_trace(forward)).mode == "inference"
    assert steps(make_trace(forward, [backward("MmBackward0", 20, 30)])).mode == "training"
    assert steps(make_trace(forward, [{**step(1, 20, 30), "name": "Optimizer.step#SGD.step"}])).mode == "training"
    assert steps(make_trace([kernel("gemm", 0, 10)])).mode == "unknown"
    assert steps(make_bundle(forward, mode="training")).mode == "training"


def test_the_overhead_is_the_profiled_over_the_unprofiled_median():
    found = steps(make_bundle(loop([100, 150, 400], busy), unprofiled_step_ns=(90_000, 100_000, 500_000)))
    assert (found.unprofiled_ns, found.overhead_ratio) == (100_000, 1.5)
    bare = steps(make_trace(loop([100, 100], busy)))
    assert (bare.unprofiled_ns, bare.overhead_ratio) == (None, None)


def test_whole_steps_of_all_kinds_count_and_only_those_of_one_kind_are_averaged():
    found = steps(
        make_trace([annotation("step[EXTEND]", 0, 1000), *(annotation("step[DECODE]", a, a + 100) for a in (1000, 1100))])
    )
    assert (found.whole_count, found.count, found.mean_ns) == (3, 1, 1_000_000)


def test_the_steady_mean_leaves_out_a_leading_outlier_and_no_other():
    assert steps(make_trace(loop([200, 100, 100, 160], busy))).measures["step_mean_steady_ns"] == 120_000
    assert steps(make_trace(loop([100, 200, 100], busy))).measures["step_mean_steady_ns"] == pytest.approx(400_000 / 3)


def around(before_ns: tuple[int, ...], after_ns: tuple[int, ...]) -> Steps:
    """Of two steps of 100 us, in a bundle with these steps around them."""
    return steps(make_bundle(loop([100, 100], busy), unprofiled_step_ns=before_ns, unprofiled_after_step_ns=after_ns))


def test_steps_that_take_twice_as_long_behind_the_recording_as_before_it_are_a_caution():
    [caution] = around((50_000,) * 3, (100_000,) * 3).warnings
    assert caution.code == "steps_changed"
    assert around((50_000,) * 3, (99_000,) * 3).warnings == ()
    assert around((50_000,) * 2, (100_000,) * 2).warnings == ()  # too few to tell


def test_steps_that_are_faster_under_the_profiler_are_a_caution():
    [caution] = around((130_000,) * 3, ()).warnings
    assert caution.code == "faster_when_profiled"
    assert around((120_000,) * 3, ()).warnings == ()  # 0.83 of it
