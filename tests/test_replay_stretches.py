"""All moments at once, stretch by stretch, give the same times as one after the other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.replay.stretches import NEVER, Stretches

CANDIDATES = 3
Drawn = tuple[int, int, int, bool]  # of an edge: two moments, its weight, whether it lies along a chain


def one_by_one(count: int, drawn: list[Drawn], earliest: list[float]) -> list[list[float]]:
    """The plain rule; weights of candidate n are n times the drawn ones."""
    found = [[earliest[moment]] * CANDIDATES for moment in range(count)]
    for source, target, weight, _ in sorted(drawn, key=lambda edge: edge[1]):
        for n in range(CANDIDATES):
            found[target][n] = max(found[target][n], found[source][n] + weight * n)
    return found


def at_once(count: int, drawn: list[Drawn], earliest: list[float]) -> np.ndarray:
    edges = np.array(sorted((target, source, weight, chain) for source, target, weight, chain in drawn), np.int64).reshape(-1, 4)
    target, source, weight, chain = edges.T
    found = Stretches.of(count, source, target, chain.astype(bool))
    return found.times(weight[:, None] * np.arange(CANDIDATES, dtype=np.float64), np.array(earliest))[found.place]


def forward(drawn: list[Drawn]) -> list[Drawn]:
    return [(min(a, b), max(a, b), weight, chain) for a, b, weight, chain in drawn if a != b]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19), st.integers(0, 50), st.booleans()), max_size=60), st.data())
def test_stretches_give_the_times_of_single_moments(drawn: list[Drawn], data: st.DataObject):
    kept = forward(drawn)
    free = set(range(20)) - {target for _, target, *_ in kept}
    starts = data.draw(st.lists(st.integers(0, 100), min_size=20, max_size=20))
    earliest = [float(start) if moment in free or start % 7 == 0 else NEVER for moment, start in enumerate(starts)]
    assert at_once(20, kept, earliest).tolist() == one_by_one(20, kept, earliest)


def test_a_thread_that_waits_for_a_stream_is_timed_before_and_after():
    """0, 1, 4 on a thread, 2, 3 on a stream that 0 launches; 4 waits for 3: 3 + 20 + 5 of candidate 1."""
    drawn = [(0, 1, 2, True), (1, 4, 1, True), (0, 2, 3, False), (2, 3, 20, True), (3, 4, 5, False)]
    assert at_once(5, drawn, [0.0, NEVER, NEVER, NEVER, NEVER])[:, 1].tolist() == [0, 2, 3, 23, 28]
    found = Stretches.of(5, *(np.array(ends) for ends in ([0, 0, 2, 1, 3], [1, 2, 3, 4, 4])), np.array([1, 0, 1, 1, 0], bool))
    assert found.order.tolist() == [0, 1, 2, 3, 4]
    assert found.first.tolist() == [0, 2, 4, 5]


def test_a_moment_may_wait_twice_for_the_one_before_it():
    drawn = [(0, 1, 1, True), (1, 2, 0, True), (1, 2, 3, False)]
    assert at_once(3, drawn, [0.0, NEVER, NEVER])[:, 1].tolist() == [0, 1, 4]


def test_without_edges_everything_happens_when_it_may():
    assert at_once(3, [], [5.0, 1.0, 9.0])[:, 0].tolist() == [5, 1, 9]
    assert at_once(0, [], []).shape == (0, CANDIDATES)
