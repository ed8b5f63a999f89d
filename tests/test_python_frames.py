import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, frame, make_trace, op

from longpole.analyze.python_frames import _strictly_inside, clamped_frames

STOP = 1000
CALL = "<built-in method custom_op of PyCapsule object at 0x7f>"
STACK = [frame("main.py(1): <module>", 0, STOP), frame("main.py(9): train", 10, STOP)]


def clamped(*events: list[Event]) -> list[str]:
    trace = make_trace(*events)
    return [trace.names[trace.host.name[row]] for row in clamped_frames(trace)]


def test_the_stack_on_which_the_profiler_stopped_is_no_fault():
    stop = [frame("profiler.py(5): stop", 900, STOP), frame("<built-in method _disable_profiler>", 950, STOP)]
    assert clamped(STACK, [frame("f", 20, 40)], stop) == []
    assert clamped([op("aten::mm", 0, 10)]) == []


def test_a_frame_outlives_neither_its_caller_nor_an_operator_around_it():
    assert clamped(STACK, [frame("caller", 20, 40), frame("lost", 30, STOP)]) == ["lost"]
    assert clamped(STACK, [op("demo::op", 20, 40), frame("lost", 30, STOP)]) == ["lost"]


def test_a_frame_may_outlive_a_range_and_what_runs_on_another_thread():
    assert clamped(STACK, [annotation("ProfilerStep#1", 5, 500), frame("profiler.py(5): step", 490, STOP)]) == []
    assert clamped(STACK, [frame("caller", 20, 40, tid=2)], [frame("f", 30, STOP)]) == []


def test_a_c_call_makes_no_other_c_call():
    assert clamped(STACK, [frame(CALL, start, STOP) for start in (100, 300, 500)]) == [CALL] * 3


def test_a_frame_of_the_same_name_shares_the_fate():
    calls = [frame("caller", 20, 40), frame(CALL, 30, STOP), frame("f", 600, STOP), frame(CALL, 700, STOP)]
    assert clamped(STACK, calls) == [CALL, CALL]


RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=8)


@given(st.lists(st.integers(0, 24), min_size=1, max_size=5), RANGES)
def test_what_holds_a_moment_is_what_a_loop_finds(moments: list[int], ranges: list[tuple[int, int]]):
    moments.sort()
    start = np.array([first for first, _ in ranges], np.int64)
    end = start + np.array([width for _, width in ranges], np.int64)
    found = _strictly_inside(np.array(moments), start, end)
    assert found.tolist() == [any(a < m < b for a, b in zip(start, end, strict=True)) for m in moments]
