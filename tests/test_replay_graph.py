"""A step replayed by hand, and the edges of small traces that each rule of the replay is for."""

import numpy as np
import pytest
from make_trace import Event, annotation, host, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.replay.edges import CONT, HAND, HOST, KINDS, LAUNCH, QUEUE, STREAM, SYNC, XS
from longpole.analyze.replay.graph import Graph, graph
from longpole.analyze.replay.sweep import step_times, sweep
from longpole.analyze.replay.whatif import parse, predict
from longpole.analyze.trace import Trace


def wait(name: str, start: float, end: float, tid: int = 1) -> Event:
    return host("cuda_runtime", name, start, end, tid)


def edges_of(found: Graph, kind: int) -> list[tuple[float, float]]:
    """From when to when, in microseconds, by their ends."""
    rows = np.flatnonzero(found.edges.kind == kind)
    time = found.nodes.time_ns / 1000
    return sorted(zip(time[found.edges.source[rows]], time[found.edges.target[rows]], strict=True), key=lambda pair: pair[::-1])


def new_step_us(trace: Trace, *changes: str) -> float:
    (prediction,) = predict(trace, [tuple(parse(change) for change in changes)])
    return float(prediction.step_ns.mean() / 1000)


def one_step() -> Trace:
    """Two launches, two kernels one after the other, and a wait for both.

    The host: 10 µs Python, launch 10-15, 5 µs, launch 20-25, 5 µs, wait 30-95, 5 µs. The device: a 20-60, b 61-90.
    """
    return make_trace(
        [step(1, 0, 100), launch(1, 10, 15), launch(2, 20, 25), wait("cudaDeviceSynchronize", 30, 95)],
        [kernel("a", 20, 60, correlation=1), kernel("b", 61, 90, correlation=2)],
    )


def test_a_step_is_a_chain_of_moments_that_wait_for_each_other():
    found = graph(one_step())
    assert edges_of(found, HOST) == [(0, 10), (15, 20), (25, 30), (95, 100)]
    assert edges_of(found, LAUNCH) == [(10, 20), (20, 61)]
    assert edges_of(found, STREAM) == [(60, 61)]
    assert edges_of(found, SYNC) == [(90, 95)]
    assert found.steps["measured_ns"].tolist() == [100_000]


def test_a_step_can_be_replayed_by_hand():
    trace = one_step()
    # Launch at 10, a from 20 to 40, b 41 to 55.5, the wait returns 5 later at 60.5, and 5 of Python: 65.5.
    assert new_step_us(trace, "kernel:a x0.5", "kernel:b x0.5") == 65.5
    # Without the wait the host is done at 35, but the step is complete with b, as before.
    assert new_step_us(trace, "sync x0") == 90
    # Launch at 5, a from 15 to 55, b 56 to 85, the wait until 90, and 2.5 of Python.
    assert new_step_us(trace, "host x0.5") == 92.5


def test_changes_at_once_are_replayed_together():
    trace = one_step()
    assert new_step_us(trace, "sync x0", "kernel:b x0") == 61
    assert new_step_us(trace, "sync x0", "kernel:a x0", "kernel:b x0") == 35  # the host: 30 and 5 of Python


def test_an_unchanged_replay_gives_what_was_measured():
    found = graph(one_step())
    unchanged = step_times(found, sweep(found, (found.weight_ns + found.residual_ns)[:, None]))
    assert unchanged.tolist() == [[100_000]]


def test_work_that_another_stream_must_finish_first_waits_for_it():
    """b could start at 30, on a stream of its own; it starts 5 µs after a of the other stream."""
    trace = make_trace(
        [step(1, 0, 300), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a", 20, 200, correlation=1), kernel("b", 205, 290, stream=9, correlation=2)],
    )
    assert edges_of(graph(trace), XS) == [(200, 205)]
    assert new_step_us(trace, "kernel:a x0.5") == 300
    assert new_step_us(make_trace(
        [step(1, 0, 50), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a", 20, 200, correlation=1), kernel("b", 205, 290, stream=9, correlation=2)],
    ), "kernel:a x0.5") == 200  # fmt: skip


def test_work_that_finds_no_room_beside_long_work_starts_in_its_tail():
    trace = make_trace(
        [step(1, 0, 50), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a", 20, 400, correlation=1), kernel("b", 390, 450, stream=9, correlation=2)],
    )
    assert edges_of(graph(trace), CONT) == [(20, 390)]
    assert new_step_us(trace, "kernel:a x0.5") == 260  # a until 210, b from 10 before


def test_a_thread_that_another_one_works_for_waits_for_it():
    """Backward on thread 2, while the main one makes no call from 15 to 400."""
    trace = make_trace(
        [step(1, 0, 500), launch(1, 10, 15), launch(3, 400, 410)],
        [op("MmBackward0", 100, 350, tid=2), launch(2, 200, 210, tid=2)],
        [kernel("a", 20, 30, correlation=1), kernel("b", 210, 220, correlation=2), kernel("c", 410, 420, correlation=3)],
    )
    found = graph(trace)
    assert edges_of(found, HAND) == [(15, 100), (350, 400)]
    # 0-10, call 5, 85 until the other thread starts, there 50 + 5 + 70, back after 50, call 5, then 45 instead of 90.
    assert new_step_us(trace, "host x0.5") == pytest.approx(5 + 2.5 + 85 + 50 + 5 + 70 + 50 + 5 + 45)
    assert new_step_us(trace, "host:MmBackward0 x0") == pytest.approx(500 - 250)


def test_a_full_queue_lets_a_launch_return_when_there_is_room():
    """The driver holds 1000 launches: from then on each returns when a kernel starts, though it takes 5 µs by itself."""
    count, length = 1100, 200
    starts = [10 + length * n for n in range(count)]
    free = [launch(n + 1, 5 * n, 5 * n + 5) for n in range(1000)]
    blocked, begin = [], 5000
    for n in range(1000, count):
        until = max(begin + 5, starts[n - 1000] + 1)
        blocked.append(launch(n + 1, begin, until))
        begin = until
    kernels = [kernel("k", starts[n], starts[n] + length, correlation=n + 1) for n in range(count)]
    trace = make_trace([step(1, 0, begin + 1)], free, blocked, kernels)
    assert len(edges_of(graph(trace), QUEUE)) >= 90
    assert new_step_us(trace, "kernel:k x0.5") == pytest.approx(starts[0] + count * length / 2, rel=0.01)


def test_copies_that_end_in_their_call_are_waited_for():
    trace = make_trace(
        [step(1, 0, 200), host("cuda_runtime", "cudaMemcpyAsync", 10, 150, correlation=1)],
        [memcpy("Memcpy DtoH (Device -> Pageable)", 20, 140, correlation=1, bytes=1000)],
    )
    assert edges_of(graph(trace), SYNC) == [(140, 150)]
    assert new_step_us(trace, "copy:d2h x0.5") == 140


def test_all_kinds_have_a_name():
    assert len(KINDS) == len(set(KINDS)) == 13


def test_a_step_is_measured_from_the_completion_of_the_one_before():
    """The host runs ahead: its steps take 20 µs, those of the device 100."""
    trace = make_trace(
        [step(n, 20 * n, 20 * n + 20) for n in range(3)],
        [launch(n + 1, 20 * n + 5, 20 * n + 10) for n in range(3)],
        [kernel("a", 10 + 100 * n, 110 + 100 * n, correlation=n + 1) for n in range(3)],
        [annotation("x", 1, 2)],
    )
    assert graph(trace).steps[["name", "measured_ns"]].values.tolist() == [
        ["ProfilerStep#1", 100_000],
        ["ProfilerStep#2", 100_000],
    ]
    assert new_step_us(trace, "kernel:a x0.5") == pytest.approx((10 + 3 * 50) / 3)  # the first from its start
    assert new_step_us(trace, "host x0.5") == pytest.approx((7.5 + 3 * 100) / 3)
