from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import kernel, launch, make_trace, op

from longpole.analyze import trace as t
from longpole.analyze.host_tree import LATE_NS, HostTree, Launches, thread_offsets

Range = tuple[int, int, int, int]  # start, end, thread, name
# In halves of LATE_NS. Borders lie ten of them apart, and an end may be one more late.
HALF = LATE_NS // 2
RANGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)).map(
        lambda r: (10 * r[0], 10 * (r[0] + r[1]) + r[2], r[3], r[4])
    ),
    max_size=30,
)
DENSE = st.lists(  # here lateness adds up to crossings
    st.tuples(st.integers(0, 20), st.integers(0, 12), st.integers(0, 1), st.just(0)).map(lambda r: (r[0], r[0] + r[1], *r[2:])),
    max_size=30,
)
STEPS = st.lists(st.integers(1, 9), max_size=4)


def in_order(ranges: list[Range]) -> list[Range]:
    return [ranges[r] for r in sorted(range(len(ranges)), key=lambda r: (ranges[r][2], ranges[r][0], -ranges[r][1], r))]


def host_of(ranges: list[Range]) -> Any:
    start, end, thread, name = np.array(ranges, np.int64).reshape(-1, 4).T
    category = np.full(len(ranges), t.OP)
    return replace(t.no_rows(t.HostRanges), start_ns=HALF * start, end_ns=HALF * end, thread=thread, name=name, category=category)


def tree_of(ranges: list[Range]) -> HostTree:
    trace: Any = SimpleNamespace(host=host_of(ranges))
    return HostTree.of(trace, np.ones(len(ranges), bool))


def loop_self(ordered: list[Range]) -> list[int]:
    """Every instant belongs to the last in order of the open ranges of its thread."""
    total = [0] * len(ordered)
    for thread in (0, 1):
        for moment in range(210):
            held = [p for p, (low, high, on, _) in enumerate(ordered) if on == thread and low <= moment < high]
            if held:
                total[held[-1]] += HALF
    return total


def loop_outermost(ordered: list[Range]) -> list[bool]:
    return [
        not any(low <= start < high and (on, called) == (thread, name) for low, high, on, called in ordered[:place])
        for place, (start, _, thread, name) in enumerate(ordered)
    ]


def loop_crossing(ordered: list[Range], steps: list[tuple[int, int]]) -> list[bool]:
    """The definition: starts inside another range or a step, ends late after it; an enclosing one that is counted excuses it."""
    counted: list[bool] = []
    for place, (start, end, thread, _) in enumerate(ordered):
        others = [(low, high, p) for p, (low, high, on, _) in enumerate(ordered[:place]) if on == thread]
        held_by = [(low, high) for low, high, _ in others] + [s for s in steps if thread == 0]
        crossed = [(low, high) for low, high in held_by if low < start < high and end > high + 2]
        around = [(low, high) for low, high, p in others if counted[p] and low <= start and end <= high + 2]
        counted.append(any(not any(low < a < high and b > high + 2 for a, b in around) for low, high in crossed))
    return counted


@given(RANGES)
def test_self_time_agrees_with_a_loop_over_instants(ranges: list[Range]):
    assert tree_of(ranges).self_ns().tolist() == loop_self(in_order(ranges))


@given(RANGES)
def test_the_outermost_of_a_name_agree_with_a_loop(ranges: list[Range]):
    tree = tree_of(ranges)
    assert tree.outermost(host_of(ranges).name[tree.row]).tolist() == loop_outermost(in_order(ranges))


@given(RANGES | DENSE, STEPS, st.integers(0, 9), st.sampled_from([1, 20]))
def test_crossing_ranges_agree_with_their_definition(ranges: list[Range], widths: list[int], first: int, scale: int):
    borders = np.cumsum([first, *(scale * width for width in widths)])
    steps = list(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True))
    trace: Any = SimpleNamespace(host=host_of([*ranges, *((low, high, 0, 0) for low, high in steps)]))
    tree = HostTree.of(trace, np.arange(len(trace.host.name)) < len(ranges))
    offset = thread_offsets(trace.host)[0]
    line = HALF * borders[:-1] + offset, HALF * borders[1:] + offset
    late = tree.late() | (tree.late_after(*line) if steps else False)
    late[tree.late_together(late, *line)] = True
    assert late.tolist() == loop_crossing(in_order(ranges), steps)


def test_little_lateness_adds_up_to_a_crossing():
    late = np.zeros(3, bool)
    tree = tree_of([(0, 100, 0, 0), (10, 102, 0, 0), (20, 104, 0, 0)])  # each a microsecond late
    assert (tree.late().tolist(), tree.late_together(late, *np.empty((2, 0), np.int64)).tolist()) == ([False] * 3, [2])


def test_device_work_is_found_by_the_moment_and_thread_of_its_launch():
    host = [op("a", 0, 10), op("b", 2, 8), op("c", 4, 6, tid=2), launch(1, 4, 5), launch(2, 9, 10), launch(3, 4, 5, tid=2)]
    work = [kernel("k", 20, 21, correlation=1), kernel("k", 30, 32, correlation=2), kernel("k", 40, 44, correlation=3)]
    trace = make_trace(host, [*work, kernel("k", 50, 58, correlation=4)])
    tree = HostTree.of(trace, trace.host.category == t.OP)
    names = [trace.names[name] for name in trace.host.name[tree.row]]
    inside = Launches.of(trace).inside(tree.start, tree.end).tolist()
    assert dict(zip(names, inside, strict=True)) == {"a": 3_000, "b": 1_000, "c": 4_000}


def test_the_innermost_range_at_a_moment_is_the_open_one_that_started_last():
    tree = tree_of([(0, 100, 0, 0), (10, 30, 0, 1), (20, 50, 0, 2)])
    assert tree.innermost_at(HALF * np.array([5, 15, 25, 40, 60, 200])).tolist() == [0, 1, 2, 2, 0, -1]


def test_threads_follow_one_another_on_the_line_a_nanosecond_apart():
    host = host_of([(5, 9, 0, 0), (100, 130, 2, 0), (7, 20, 0, 0)])
    assert (thread_offsets(host)[host.thread] + host.start_ns).tolist() == [0, 15 * HALF + 2, 2 * HALF]  # thread 1 has no range
