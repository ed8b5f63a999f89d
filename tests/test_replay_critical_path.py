"""What a step's time consists of, and what of it has slack."""

from make_trace import annotation, host, kernel, launch, make_trace, op, step

from longpole.analyze.replay.critical_path import critical_path
from longpole.analyze.replay.quality import quality
from longpole.analyze.trace import Trace


def one_step() -> Trace:
    """a 20-60 and b 61-90 one after the other; c 40-70 on a stream of its own; the host waits until 95."""
    return make_trace(
        [step(1, 0, 100), launch(1, 10, 15), launch(2, 20, 25), launch(3, 30, 33), op("aten::mm", 5, 35)],
        [host("cuda_runtime", "cudaDeviceSynchronize", 35, 95)],
        [kernel("a", 20, 60, correlation=1), kernel("b", 61, 90, correlation=2), kernel("c", 40, 70, stream=9, correlation=3)],
    )


def told(trace: Trace) -> dict[str, int]:
    """Microseconds by bound, of the only step."""
    (row,) = critical_path(trace).bounds.to_dict("records")
    return {str(bound): ns // 1000 for bound, ns in row.items() if ns}


def test_the_path_goes_through_what_decided_each_moment():
    """10 of the host, 10 until a starts, a 40, a gap of 1, b 29, 5 until the wait returns, 5 of the host."""
    found = critical_path(one_step())
    assert told(one_step()) == {"host": 15, "launch": 11, "synchronization": 5, "compute": 69}
    assert found.on_path[["name", "kind"]].to_numpy().tolist()[:2] == [["a", "device"], ["b", "device"]]
    assert found.on_path["ns"].tolist()[:2] == [40_000, 29_000]


def test_what_runs_beside_the_path_has_slack():
    """c could end 20 later, when b does."""
    found = critical_path(one_step()).slack_by_name(one_step())
    assert dict(zip(found["name"], found["least_slack_ns"], strict=True)) == {"a": 0, "b": 0, "c": 20_000}


def test_host_time_in_data_loaders_is_data():
    trace = make_trace([step(1, 0, 100), annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 40)])
    assert told(trace) == {"host": 70, "data": 30}


def test_a_copy_and_a_collective_have_bounds_of_their_own():
    trace = make_trace(
        [step(1, 0, 20), launch(1, 0, 5), launch(2, 6, 10)],
        [kernel("ncclAllReduce", 10, 50, correlation=1), kernel("Memcpy DtoD", 51, 80, category="gpu_memcpy", correlation=2)],
    )
    assert told(trace) == {"launch": 11, "communication": 40, "copy": 29}


def test_time_that_no_rule_explains_is_told_as_such():
    """b starts 400 after a, for no reason in the file; a usual gap is 1."""
    trace = make_trace(
        [step(1, 0, 50), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a", 20, 60, correlation=1), kernel("b", 460, 560, correlation=2)],
    )
    assert told(trace) == {"host": 10, "launch": 11, "compute": 140, "unexplained": 399}
    assert quality(trace).unexplained_share == 399 / 560
    assert "not" in (quality(trace).reason or "") or "only to" in (quality(trace).reason or "")


def test_steps_that_equal_each_other_predict_each_other():
    trace = make_trace(
        [step(n, 100 * n, 100 * n + 100) for n in range(4)],
        [launch(n + 1, 100 * n + 5, 100 * n + 10) for n in range(4)],
        [kernel("a", 100 * n + 15, 100 * n + 90 + n, correlation=n + 1) for n in range(4)],
    )
    found = quality(trace)
    assert found.cross_step == 0
    assert found.reason is None
