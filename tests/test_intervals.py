import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.intervals import covered, innermost, length, union

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


def columns(ranges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


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
