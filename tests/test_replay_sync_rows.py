"""Waits of the host that only cuda_sync rows tell of, replayed like calls."""

import numpy as np
import pytest
from make_trace import Event, kernel, launch, make_trace, op, step
from test_replay_events import row
from test_replay_graph import edges_of, new_step_us, wait

from longpole.analyze.replay.edges import SYNC
from longpole.analyze.replay.graph import graph
from longpole.analyze.trace import Trace


def rows_alone(*marks: Event, **more: list[Event]) -> Trace:
    """Two launches and kernels on two streams; the file holds no call that waits until 95."""
    return make_trace(
        [step(1, 0, 100), op("aten::item", 28, 97, **{"External id": 3}), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a", 20, 60, correlation=1), kernel("b", 61, 90, stream=9, correlation=2)],
        list(marks),
        *more.values(),
    )


def test_a_wait_that_only_a_row_tells_of_is_replayed_like_a_call():
    stream, device = row("Stream Sync", 30, 95, 70, 9), row("Context Sync", 30, 95, 70, -1)
    assert edges_of(graph(rows_alone(stream)), SYNC) == [(90, 95)]
    assert edges_of(graph(rows_alone(device)), SYNC) == [(60, 95), (90, 95)]
    assert new_step_us(rows_alone(stream), "sync x0") == 90  # the step is complete with b
    assert new_step_us(rows_alone(stream), "sync:Stream Sync x0") == 90
    assert new_step_us(rows_alone(stream), "sync:aten::item x0") == 90
    assert new_step_us(rows_alone(stream), "sync x0", "kernel:b x0") == 61


def test_without_a_wait_the_same_host_time_stays():
    assert new_step_us(rows_alone(), "kernel:b x0") == 100


def test_a_row_during_which_its_thread_launches_is_no_wait_of_that_thread():
    trace = rows_alone(row("Stream Sync", 22, 95, 70, 9))
    assert edges_of(graph(trace), SYNC) == []
    by_another = row("Stream Sync", 22, 95, 70, 9, **{"External id": 8})
    assert edges_of(graph(rows_alone(by_another, more=[op("aten::item", 11, 96, tid=2, **{"External id": 8})])), SYNC) == [
        (90, 95)
    ]


def test_where_calls_wait_rows_without_a_call_are_none():
    trace = rows_alone(row("Stream Sync", 30, 95, 70, 9), more=[wait("cudaDeviceSynchronize", 98, 99)])
    assert edges_of(graph(trace), SYNC) == [(60, 99), (90, 99)]


@pytest.mark.parametrize("name", ["Stream Sync", "Stream Synchronize", "Event Sync", "Context Sync"])
def test_rows_are_waits_however_kineto_spells_them(name: str):
    trace = rows_alone(row(name, 30, 95, 70, 9))
    ends = np.flatnonzero(graph(trace).waiting)
    assert graph(trace).nodes.time_ns[ends].tolist() == [95_000]
