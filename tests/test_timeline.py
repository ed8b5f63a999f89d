import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.timeline import MOST_PIECES, timeline

CHANGES = st.lists(st.tuples(st.integers(-3, 30), st.integers(-9, 9)), max_size=25)


def columns(changes: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    changes = sorted(changes, key=lambda change: change[0])
    return np.array([at for at, _ in changes], np.int64), np.array([value for _, value in changes], np.int64)


@given(CHANGES, st.integers(-9, 9), st.integers(1, 40), st.integers(1, 30))
def test_low_high_and_last_are_those_of_a_loop_over_instants(changes: list[tuple[int, int]], before: int, window: int, most: int):
    time, value = columns(changes)
    found = timeline(time, value, before, window, most)
    taken = {}  # at each instant, all that the value is, if only for no time
    now = before
    first, end = min([0, *time.tolist()]), max([window, *(time + 1).tolist()])
    for instant in range(first, end):
        own = value[time == instant].tolist()
        taken[instant] = own or [now]
        now = taken[instant][-1]
    assert found["start_ns"].tolist() == [first, *found["end_ns"].tolist()[:-1]]
    assert found["end_ns"].iloc[-1] == end
    assert len(found) <= most
    for start, stop, low, high, last in found.itertuples(index=False):
        within = [one for instant in range(start, stop) for one in taken[instant]]
        assert (low, high, last) == (min(within), max(within), within[-1])


def test_few_changes_are_kept_as_they_are():
    found = timeline(np.array([5, 5, 7]), np.array([3, 1, 4]), 2, 10)
    assert found.to_numpy().tolist() == [[0, 5, 2, 2, 2], [5, 7, 1, 3, 1], [7, 10, 4, 4, 4]]


def test_of_many_changes_no_peak_is_lost():
    time = np.arange(100_000)
    found = timeline(time, np.where(time == 12_345, 99, time % 2), 0, 100_000)
    assert len(found) == MOST_PIECES
    assert found.loc[found["high"] == 99, ["start_ns", "end_ns"]].to_numpy().tolist() == [[12_250, 12_500]]
    assert set(found["low"]) == {0}


def test_without_a_change_the_value_is_what_it_was():
    assert timeline(np.array([], np.int64), np.array([], np.int64), 7, 10).to_numpy().tolist() == [[0, 10, 7, 7, 7]]
