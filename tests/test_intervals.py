from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze import intervals
from longpole.analyze.intervals import Cover, Nest, Peaks, around, borders, covered, innermost, length, outer_first, union

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1])), max_size=40)


def columns(ranges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def stack_innermost(ranges: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(start, end, owner) from a stack: the innermost is on top, and a range that ends below it is closed when it comes up."""
    pieces: list[tuple[int, int, int]] = []
    open_rows: list[int] = []
    cursor = 0

    def until(moment: int) -> None:
        nonlocal cursor
        while open_rows and cursor < moment:
            stop = min(moment, ranges[open_rows[-1]][1])
            if stop > cursor:
                pieces.append((cursor, stop, open_rows[-1]))
                cursor = stop
            if ranges[open_rows[-1]][1] <= moment:
                open_rows.pop()
        cursor = moment

    for row in sorted(
        (r for r in range(len(ranges)) if ranges[r][0] < ranges[r][1]), key=lambda r: (ranges[r][0], -ranges[r][1])
    ):
        until(ranges[row][0])
        open_rows.append(row)
    until(max((end for _, end in ranges), default=0))
    return pieces


def pieces(cover: Cover) -> list[tuple[int, int, int]]:
    return list(zip(cover.start.tolist(), cover.end.tolist(), cover.owner.tolist(), strict=True))


def test_overlapping_intervals_count_once():
    start, end = union(*columns([(0, 40), (20, 60), (70, 80), (75, 76)]))
    assert list(zip(start, end, strict=True)) == [(0, 60), (70, 80)]
    assert length(start, end) == 70


def test_a_window_is_covered_only_where_it_overlaps():
    start, end = columns([(0, 10), (20, 30)])
    low, high = columns([(5, 25), (10, 20), (0, 30), (40, 50)])
    assert covered(start, end, low, high).tolist() == [10, 0, 20, 0]


def test_the_range_that_started_last_owns_the_time_even_when_ranges_cross():
    cover = innermost(*columns([(0, 100), (10, 30), (20, 50)]))
    assert list(zip(cover.start, cover.end, cover.owner, strict=True)) == [
        (0, 10, 0), (10, 20, 1), (20, 50, 2), (50, 100, 0),
    ]  # fmt: skip


@given(RANGES)
def test_union_is_the_set_of_covered_instants(ranges: list[tuple[int, int]]):
    start, end = union(*columns(ranges))
    instants = {i for low, high in ranges for i in range(low, high)}
    assert [i for s, e in zip(start, end, strict=True) for i in range(s, e)] == sorted(instants)
    assert (start[1:] > end[:-1]).all()


@given(RANGES, RANGES)
def test_covered_counts_the_instants_of_each_window(ranges: list[tuple[int, int]], windows: list[tuple[int, int]]):
    instants = {i for low, high in ranges for i in range(low, high)}
    found = covered(*union(*columns(ranges)), *columns(windows))
    assert found.tolist() == [len(instants & set(range(low, high))) for low, high in windows]


@given(RANGES)
def test_innermost_agrees_with_a_loop_over_instants(ranges: list[tuple[int, int]]):
    cover = innermost(*columns(ranges))
    found = {i: o for s, e, o in zip(cover.start, cover.end, cover.owner, strict=True) for i in range(s, e)}
    assert sum(cover.end - cover.start) == len(found)
    for instant in range(45):
        candidates = [r for r in range(len(ranges)) if ranges[r][0] <= instant < ranges[r][1]]
        if not candidates:
            assert instant not in found
            continue
        best = max(candidates, key=lambda r: (ranges[r][0], -ranges[r][1]))
        assert ranges[found[instant]] == ranges[best]


@given(RANGES)
def test_innermost_agrees_with_a_stack(ranges: list[tuple[int, int]]):
    assert pieces(innermost(*columns(ranges))) == stack_innermost(ranges)


def test_an_empty_range_owns_nothing_and_cuts_nothing():
    assert pieces(innermost(*columns([(0, 10), (5, 5), (20, 20)]))) == [(0, 10, 0)]


@given(RANGES, st.lists(st.integers(-1, 45), max_size=20))
def test_the_innermost_range_at_a_moment_is_the_owner_of_the_piece_there(ranges: list[tuple[int, int]], moments: list[int]):
    found = Nest.of(*columns(ranges)).innermost_at(np.array(moments, np.int64))
    owner = {i: o for start, end, o in stack_innermost(ranges) for i in range(start, end)}
    assert found.tolist() == [owner.get(moment, -1) for moment in moments]


@given(st.lists(st.integers(-9, 9), max_size=70), st.lists(st.tuples(st.integers(0, 70), st.integers(-10, 10)), max_size=20))
def test_a_search_for_the_last_value_above_agrees_with_a_loop(values: list[int], queries: list[tuple[int, int]]):
    queries = [(min(before, len(values)), limit) for before, limit in queries]
    before, limit = columns(queries)
    wanted = [max((r for r in range(b) if values[r] > limit), default=-1) for b, limit in queries]
    assert Peaks.of(np.array(values, np.int64)).last_above(before, limit).tolist() == wanted


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=80), st.integers(1, 90), st.integers(1, 3))
def test_a_leap_to_the_range_around_agrees_with_a_loop(ranges: list[tuple[int, int]], block: int, leaps: int):
    end, short = columns(ranges)
    limit = end - short
    wanted = [max((r for r in range(row) if end[r] > limit[row]), default=-1) for row in range(len(ranges))]
    with patch.multiple(intervals, NEAR_COUNT=block, LEAPS=leaps):
        assert around(end, limit).tolist() == wanted


@given(RANGES)
def test_whatever_holds_a_range_comes_before_it(ranges: list[tuple[int, int]]):
    wanted = sorted(range(len(ranges)), key=lambda r: (ranges[r][0], -ranges[r][1], r))
    assert outer_first(*columns(ranges)).tolist() == wanted


def test_borders_come_once_and_in_order():
    assert borders(np.array([5, 3]), np.array([3, 9], np.int64)).tolist() == [3, 5, 9]
    assert borders(np.empty(0, np.int64)).tolist() == []
