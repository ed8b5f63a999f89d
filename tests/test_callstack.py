import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.callstack import children_sum, parents, tree_sum, without_duplicates

RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 12), st.integers(0, 1)).map(lambda r: (r[0], r[0] + r[1], r[2])),
    max_size=12,
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


def test_an_only_child_of_the_same_name_is_removed_and_its_children_move_up():
    parent, name = np.array([-1, 0, 1, 2, 2]), np.array([7, 7, 7, 8, 9])
    kept, stands_for = without_duplicates(parent, name)
    assert kept.tolist() == [-1, -2, -2, 0, 0]
    assert stands_for.tolist()[0] == 2


def test_a_child_of_the_same_name_with_a_sibling_stays():
    kept, _ = without_duplicates(np.array([-1, 0, 0]), np.array([7, 7, 8]))
    assert kept.tolist() == [-1, 0, 0]


def test_children_add_up_to_their_direct_parent_only():
    assert children_sum(np.array([-1, 0, 1, 0]), np.array([100, 30, 10, 20])).tolist() == [50, 10, 0, 0]


def test_a_tree_sums_what_lies_inside():
    assert tree_sum(np.array([-1, 0, 1, 0]), np.array([1, 2, 3, 4])).tolist() == [10, 5, 3, 4]


def test_very_deep_nesting_is_no_trouble():
    depth = 20_000  # a second for a pass that is quadratic is minutes
    start, end = np.arange(depth), 2 * depth - np.arange(depth)
    nested = parents(start, end, np.zeros(depth, np.int64))
    assert nested.tolist() == list(range(-1, depth - 1))
    assert tree_sum(nested, np.ones(depth, np.int64))[0] == depth
