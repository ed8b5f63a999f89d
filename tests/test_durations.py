import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import kernel, make_trace, memcpy, step

from longpole.analyze import trace as t
from longpole.analyze.durations import by_stream, possible_end
from longpole.analyze.trace import DeviceRanges

STEP = [step(1, 0, 100)]
WORK = st.lists(st.tuples(*[st.integers(0, 9)] * 2, st.sampled_from((t.KERNEL, t.MEMCPY)), st.integers(0, 1), st.integers(-1, 2)))


def table(rows: list[tuple[int, int, int, int, int]]) -> DeviceRanges:
    """Of (start, duration, category, device, stream)."""
    start, ns, category, device, stream = np.array(rows, np.int64).reshape(-1, 5).T
    none = np.full(len(rows), -1)
    return DeviceRanges(start, start + ns, none, category, device, stream, none, none, none)


def ends(*events: dict) -> list[int]:
    return possible_end(make_trace(STEP, list(events)).device).tolist()


def test_a_kernel_that_lasts_beyond_the_end_of_a_later_one_is_cut_at_the_next_start():
    assert ends(kernel("long", 10, 90), kernel("a", 30, 40), kernel("b", 50, 60)) == [30_000, 40_000, 60_000]


def test_a_kernel_that_overlaps_the_next_one_is_legal():
    assert ends(kernel("a", 10, 40), kernel("b", 30, 50), kernel("c", 45, 50)) == [40_000, 50_000, 50_000]


@pytest.mark.parametrize(
    "other",
    [kernel("b", 30, 40, stream=8), kernel("b", 30, 40, device=1), memcpy("HtoD", 30, 40), kernel("b", 10, 40)],
    ids=["another stream", "another device", "a copy", "the same start"],
)
def test_what_proves_nothing_leaves_a_kernel_as_it_is(other: dict):
    assert ends(kernel("long", 10, 90), other) == [90_000, 40_000]


def test_an_impossible_duration_does_not_stretch_the_recording():
    trace = make_trace(STEP, [kernel("broken", 10, 90_000), kernel("a", 30, 40)])
    assert trace.window_ns == 100_000
    assert trace.device.end_ns.tolist() == [90_000_000, 40_000]  # as in the file


def test_streams_come_in_order_and_their_work_by_start():
    work = table([(5, 1, t.KERNEL, 1, 7), (3, 1, t.KERNEL, 0, 9), (1, 1, t.MEMCPY, 1, 7), (0, 1, t.KERNEL, 0, -1)])
    assert [(device, stream, rows.tolist()) for device, stream, rows in by_stream(work)] == [
        (0, -1, [3]),
        (0, 9, [1]),
        (1, 7, [2, 0]),
    ]
    assert list(by_stream(work[:0])) == []


@given(WORK)
def test_ends_agree_with_a_naive_loop(rows: list[tuple[int, int, int, int, int]]):
    def later(one: tuple, other: tuple) -> bool:
        return other[2:] == one[2:] and one[2] == t.KERNEL and one[4] >= 0 and other[0] > one[0]

    expected = []
    for one in rows:
        after = [other for other in rows if later(one, other)]
        impossible = any(one[0] + one[1] > start + ns for start, ns, *_ in after)
        expected.append(min(start for start, *_ in after) if impossible else one[0] + one[1])
    assert possible_end(table(rows)).tolist() == expected
