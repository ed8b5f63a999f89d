import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import allocation, make_trace, op

from longpole.analyze.allocations import alive, levels, net_changes, open_ops
from longpole.analyze.trace import Allocations

# (address, whether the allocator asks for it or gives it back, size): any order, also releases of what nobody asked for
CHANGES = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(1, 9)), max_size=12)


def events_of(changes: list[tuple[int, bool, int]], before: int | None = None) -> Allocations:
    size = np.array([size if asked else -size for _, asked, size in changes], np.int64)
    count = len(size)
    total = np.full(count, -1) if before is None else before + np.cumsum(size)
    zeros, address = np.zeros(count, np.int64), np.array([address for address, _, _ in changes], np.int64)
    return Allocations(np.arange(count), size, zeros, zeros, zeros, address, total)


@given(CHANGES)
def test_what_is_alive_is_what_a_ledger_holds(changes: list[tuple[int, bool, int]]):
    ledger: dict[int, int] = {}
    for row, (address, asked, _) in enumerate(changes):
        ledger.pop(address, None)
        if asked:
            ledger[address] = row
        found = alive(events_of(changes), row)
        assert found is not None and found.tolist() == sorted(ledger.values())


@given(CHANGES.filter(bool), st.integers(108, 200))  # never below nothing
def test_the_level_is_the_sum_so_far(changes: list[tuple[int, bool, int]], before: int):
    level, expected = 0, []
    for _, asked, size in changes:
        level += size if asked else -size
        expected.append(level)
    assert levels(events_of(changes, before))[0] == before
    assert levels(events_of(changes, before))[1].tolist() == [before + one for one in expected]
    assert levels(events_of(changes))[0] is None
    assert levels(events_of(changes))[1].tolist() == expected


@given(CHANGES, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), min_size=1))
def test_a_net_change_is_a_sum_over_the_window(changes: list[tuple[int, bool, int]], windows: list[tuple[int, int]]):
    events = events_of(changes)
    start = np.array([first for first, _ in windows])
    end = start + np.array([width for _, width in windows])
    sizes = [size if asked else -size for _, asked, size in changes]
    assert net_changes(events, start, end).tolist() == [sum(sizes[a:b]) for a, b in zip(start, end, strict=True)]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 2)), max_size=8),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 2)), min_size=1, max_size=6),
)
def test_the_innermost_operator_is_the_open_one_that_began_last(ops: list[tuple[int, int, int]], asked: list[tuple[int, int]]):
    made = [op(f"op{i}", start, start + width, tid=tid) for i, (start, width, tid) in enumerate(ops)]
    trace = make_trace([op("first", -1, 40, tid=9)], made, [allocation(time, 1, tid=tid) for time, tid in asked])
    around = open_ops(trace, trace.allocations)
    for row, (time, tid) in enumerate(asked):
        still_open = [
            (start, -width, i) for i, (start, width, on) in enumerate(ops) if on == tid and start <= time < start + width
        ]
        begun_last = {i for start, width, i in still_open if (start, width) == max((s, w) for s, w, _ in still_open)}
        inner = around.inner[row]
        assert (inner < 0) if not still_open else trace.names[inner] in {f"op{i}" for i in begun_last}
        assert (around.outer[row] < 0) is not bool(still_open)


def test_the_outermost_operator_is_found_through_two_levels():
    trace = make_trace([op("linear", 0, 50), op("addmm", 5, 40), op("empty", 10, 20)], [allocation(15, 1), allocation(45, 1)])
    around = open_ops(trace, trace.allocations)
    assert [trace.names[row] for row in around.inner] == ["empty", "linear"]
    assert [trace.names[row] for row in around.outer] == ["linear", "linear"]


def test_what_an_instant_tells_is_kept():
    found = make_trace([op("a", 0, 50, tid=2)], [allocation(10, 3, 1, 5, tid=2, address=2**47, total=99)]).allocations
    assert {name: values.tolist() for name, values in vars(found).items()} == {
        "time_ns": [10_000], "size_bytes": [3], "device_type": [1], "device": [5], "thread": [0], "address": [2**47],
        "total_bytes": [99],
    }  # fmt: skip
    bare = make_trace([op("a", 0, 50)], [allocation(10, 3)]).allocations
    assert (bare.address.tolist(), bare.total_bytes.tolist()) == ([-1], [-1])
