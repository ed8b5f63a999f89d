import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import host, kernel, launch, make_trace, memcpy

from longpole.analyze.host_waits import HostWaits, host_waits

BACK = "Memcpy DtoH (Device -> Pageable)"


def sync(start, end, name="cudaStreamSynchronize", tid=1):
    return host("cuda_runtime", name, start, end, tid)


def test_a_wait_costs_at_most_what_it_waited_and_at_most_the_idle_time_after_it():
    calls = [launch(1, 0, 5), sync(5, 60), launch(2, 80, 85), sync(85, 120), launch(3, 400, 405)]
    found = host_waits(
        make_trace(calls, [kernel("k", 10, 60, correlation=1), kernel("k", 90, 115, correlation=2), kernel("k", 410, 420)])
    )
    assert found.waited_ns.tolist() == [50_000, 25_000]
    assert found.idle_ns.tolist() == [25_000 + 0, 290_000]
    assert found.filled_ns(np.array([True, False])).tolist() == [25_000, 0]
    assert found.filled_ns(np.array([True, True])).tolist() == [25_000, 50_000]  # 25 that were left, and 25


def test_a_blocking_copy_and_the_wait_after_it_are_one_wait():
    calls = [launch(1, 0, 5), launch(2, 6, 66, name="cudaMemcpyAsync"), sync(67, 70), launch(3, 90, 95)]
    found = host_waits(
        make_trace(calls, [kernel("k", 10, 60, correlation=1), memcpy(BACK, 62, 64, correlation=2), kernel("k", 95, 99)])
    )
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([6_000], [70_000])
    assert found.waited_ns.tolist() == [52_000]


def test_a_copy_that_goes_on_after_its_call_is_no_wait():
    found = host_waits(make_trace([launch(1, 0, 5, name="cudaMemcpyAsync")], [memcpy(BACK, 4, 9, correlation=1)]))
    assert len(found) == 0


def test_a_wait_for_nothing_waits_for_nothing():
    found = host_waits(
        make_trace([launch(1, 0, 5), sync(30, 60), launch(2, 90, 95)], [kernel("k", 6, 25, correlation=1), kernel("k", 96, 99)])
    )
    assert (found.waited_ns.tolist(), found.filled_ns(np.array([True])).tolist()) == ([0], [0])


def test_gaps_inside_of_a_graph_are_not_filled_by_a_host_that_is_ahead():
    calls = [launch(1, 0, 5), sync(5, 60), launch(2, 61, 65, name="cudaGraphLaunch")]
    work = [kernel("k", 10, 60, correlation=1), kernel("k", 70, 75, correlation=2), kernel("k", 90, 95, correlation=2)]
    assert host_waits(make_trace(calls, work)).idle_ns.tolist() == [10_000]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=30))
def test_the_lead_is_that_of_a_plain_loop(rows):
    rows = sorted(rows, key=lambda row: row[0])
    thread, waited, idle = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    gone, nothing = np.array([row[3] for row in rows], bool), np.zeros(len(rows), np.int64)
    expected, lead, last = [], 0, -1
    for one, wait, gap, taken in zip(thread, waited, idle, gone, strict=True):
        lead = lead + wait if taken and one == last else wait if taken else 0
        expected.append(min(lead, gap) if taken else 0)
        lead, last = lead - expected[-1], one
    assert HostWaits(nothing, nothing, thread, nothing, nothing, waited, idle).filled_ns(gone).tolist() == expected
