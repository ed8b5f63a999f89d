import numpy as np
from make_trace import annotation, kernel, launch, loop, make_trace, op

from longpole.analyze.diffs.launched_work import NO_OP, launched_work


def test_device_work_belongs_to_the_step_that_launched_it():
    launches = loop([100, 100], lambda start, end: [op("a", start, end), launch(int(start) + 1, start, start + 5)])
    work = [kernel("gemm", 150, 180, correlation=1), kernel("gemm", 180, 220, correlation=101), kernel("stray", 220, 230)]
    found = launched_work(make_trace(launches, work))
    assert found.times.to_dict("list") == {"gemm": [30_000, 40_000]}
    assert found.counts.to_dict("list") == {"gemm": [1, 1]}
    assert (found.outside_count, found.outside_ns) == (1, 10_000)


def test_where_no_steps_are_marked_all_work_is_the_recordings():
    found = launched_work(make_trace([op("a", 0, 100)], [kernel("gemm", 20, 50), kernel("gemm", 60, 70)]))
    assert found.times.to_dict("list") == {"gemm": [40_000]}
    assert found.outside_count == 0


def test_work_is_for_the_innermost_operator_that_the_other_recording_knows():
    host = [op("conv2d", 0, 50), op("implicit", 5, 45), launch(1, 10, 12), op("relu", 60, 80), launch(2, 62, 64)]
    work = [kernel("a", 20, 50, correlation=1), kernel("b", 70, 80, correlation=2), kernel("c", 90, 95)]
    found = launched_work(make_trace([annotation("ProfilerStep#1", 0, 100)], host, work))
    assert found.ops({"conv2d", "other"}).tolist() == ["conv2d", "relu"]
    assert found.ops({"conv2d", "implicit"}).tolist() == ["implicit", "relu"]
    assert found.ops(set()).tolist() == ["implicit", "relu"]
    ops = found.ops({"conv2d"})
    assert found.op_times(ops).to_dict("list") == {"conv2d": [30_000], "relu": [10_000]}
    assert found.kernels_of(ops) == {"conv2d": {"a": 30_000}, "relu": {"b": 10_000}}


def test_work_without_an_operator_says_so():
    found = launched_work(
        make_trace([annotation("ProfilerStep#1", 0, 100), launch(1, 10, 12)], [kernel("a", 20, 50, correlation=1)])
    )
    assert found.ops({"conv2d"}).tolist() == [NO_OP]
    assert isinstance(found.ops(set()), np.ndarray)
