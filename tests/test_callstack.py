from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.callstack import parents, tree_sum, without_duplicates

RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 12), st.integers(0, 1)).map(lambda r: (r[0], r[0] + r[1], r[2])),
    max_size=40,
)


def columns(ranges: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.array(ranges, dtype=np.int64).reshape(-1, 3)
    return rows[:, 0], rows[:, 1], rows[:, 2]


def stack_parents(ranges: list[tuple[int, int, int]]) -> list[int]:
    """The rule as torch states it: a stack per thread; whatever does not hold the new range is closed."""
    result = [-1] * len(ranges)
    stacks: dict[int, list[int]] = {}
    for row in sorted(range(len(ranges)), key=lambda r: (ranges[r][0], -ranges[r][1], r)):
        start, end, thread = ranges[row]
        stack = stacks.setdefault(thread, [])
        while stack and (start >= ranges[stack[-1]][1] or end > ranges[stack[-1]][1]):
            stack.pop()
        if stack:
            result[row] = stack[-1]
        stack.append(row)
    return result


def loop_without_duplicates(parent: list[int], name: list[int]) -> tuple[list[int], list[int]]:
    """One row after the other: chains from their inner end, parents from the outer one."""
    children = Counter(parent)
    removed = [up >= 0 and name[row] == name[up] and children[up] == 1 for row, up in enumerate(parent)]
    stands_for, kept = list(range(len(parent))), list(parent)
    for row in reversed(range(len(parent))):
        if removed[row]:
            stands_for[parent[row]] = stands_for[row]
    for row, up in enumerate(parent):
        if up >= 0 and removed[up]:
            kept[row] = kept[up]
    return [-2 if gone else up for gone, up in zip(removed, kept, strict=True)], stands_for


def loop_tree_sum(parent: list[int], value: list[int]) -> list[int]:
    total = list(value)
    for row in reversed(range(len(total))):
        if parent[row] >= 0:
            total[parent[row]] += total[row]
    return total


FORESTS = st.lists(st.integers(-1, 30), max_size=30).map(lambda rows: [min(up, row - 1) for row, up in enumerate(rows)])


def test_a_child_lies_wholly_inside_its_parent():
    assert parents(*columns([(0, 100, 1), (10, 40, 1), (20, 30, 1), (50, 60, 1), (10, 40, 2)])).tolist() == [
        -1,
        0,
        1,
        0,
        -1,
    ]


def test_a_partial_overlap_has_no_parent():
    assert parents(*columns([(0, 50, 1), (40, 60, 1), (45, 48, 1)])).tolist() == [-1, -1, 1]


@given(RANGES)
def test_parents_agree_with_a_stack(ranges: list[tuple[int, int, int]]):
    assert parents(*columns(ranges)).tolist() == stack_parents(ranges)


@given(RANGES)
def test_parents_agree_with_a_stack_where_times_and_threads_do_not_fit_one_key(ranges: list[tuple[int, int, int]]):
    far = [(start * 2**57 - 2**61, end * 2**57 - 2**61, 2**31 - 1 if thread else -(2**31)) for start, end, thread in ranges]
    start, end, thread = columns(far)
    assert parents(start, end, thread.astype(np.int32)).tolist() == stack_parents(far)


@given(FORESTS, st.lists(st.integers(0, 1), min_size=30, max_size=30))
def test_removal_agrees_with_a_loop(parent: list[int], name: list[int]):
    kept, stands_for = without_duplicates(np.array(parent, np.int32), np.array(name[: len(parent)], np.int32))
    assert (kept.tolist(), stands_for.tolist()) == loop_without_duplicates(parent, name[: len(parent)])


@given(FORESTS, st.lists(st.integers(-(2**40), 2**60), min_size=30, max_size=30))
def test_tree_sums_agree_with_a_loop(parent: list[int], value: list[int]):
    values = [v // 32 for v in value[: len(parent)]]
    assert tree_sum(np.array(parent, np.int32), np.array(values, np.int64)).tolist() == loop_tree_sum(parent, values)


def test_an_only_child_of_the_same_name_is_removed_and_its_children_move_up():
    parent, name = np.array([-1, 0, 1, 2, 2]), np.array([7, 7, 7, 8, 9])
    kept, stands_for = without_duplicates(parent, name)
    assert kept.tolist() == [-1, -2, -2, 0, 0]
    assert stands_for.tolist()[0] == 2


def test_a_child_of_the_same_name_with_a_sibling_stays():
    kept, _ = without_duplicates(np.array([-1, 0, 0]), np.array([7, 7, 8]))
    assert kept.tolist() == [-1, 0, 0]


def test_a_tree_sums_what_lies_inside():
    assert tree_sum(np.array([-1, 0, 1, 0]), np.array([1, 2, 3, 4])).tolist() == [10, 5, 3, 4]


def test_very_deep_nesting_is_no_trouble():
    depth = 20_000  # a second for a pass that is quadratic is minutes
    start, end = np.arange(depth), 2 * depth - np.arange(depth)
    nested = parents(start, end, np.zeros(depth, np.int64))
    assert nested.tolist() == list(range(-1, depth - 1))
    assert tree_sum(nested, np.ones(depth, np.int64))[0] == depth


def test_rows_after_a_very_deep_stack_are_no_trouble():
    depth, calls = 1_000, 300_000  # more rows than one block; a walk up from each would take minutes
    start = np.concatenate((np.arange(depth), 2 * depth + 10 * np.arange(calls)))
    end = np.concatenate((2 * depth - np.arange(depth), 2 * depth + 10 * np.arange(calls) + 5))
    nested = parents(start, end, np.zeros(depth + calls, np.int32))
    assert nested[:depth].tolist() == list(range(-1, depth - 1))
    assert (nested[depth:] == -1).all()
