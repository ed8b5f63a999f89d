"""Matching and splitting of collectives against a naive loop."""

from hypothesis import given, settings
from hypothesis import strategies as st
from make_trace import kernel, make_trace, step

from longpole.analyze.waiting import calls_of

ARRIVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(ARRIVALS, st.integers(1, 20))
def test_each_rank_waits_from_its_arrival_to_the_last(arrivals: list[tuple[int, int, int]], transfer: int):
    ends = [100 * i + max(times) + transfer for i, times in enumerate(arrivals)]
    traces = [
        make_trace(
            [step(1, 0, 1000)],
            [kernel("nccl", 100 * i + times[r], end) for i, (times, end) in enumerate(zip(arrivals, ends, strict=True))],
        )
        for r in range(3)
    ]
    found = calls_of(traces)
    assert found is not None
    assert not found.unmatched
    waits = found.rows.groupby("rank")["wait_ns"].sum().tolist()
    assert waits == [sum(max(times) - times[r] for times in arrivals) * 1000 for r in range(3)]
    assert found.rows.groupby("call")["transfer_ns"].first().sum() == transfer * len(arrivals) * 1000


def test_ranks_without_collectives_have_nothing_to_match():
    assert calls_of([make_trace([step(1, 0, 100)]), make_trace([step(1, 0, 100)], [kernel("gemm", 0, 10)])]) is None
