"""Which work waits for work of other streams, as cuda_sync rows tell a replay."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from make_trace import Event, host, kernel, launch, make_trace, step
from test_replay_graph import edges_of, new_step_us

from longpole.analyze.event_waits import THE_HOST, event_waits, untold_waits
from longpole.analyze.replay.critical_path import critical_path
from longpole.analyze.replay.edges import EVENT, SYNC, XS
from longpole.analyze.replay.events import told_waits
from longpole.analyze.replay.graph import graph
from longpole.analyze.replay.points import host_side
from longpole.analyze.replay.quality import quality
from longpole.analyze.replay.work import work_of
from longpole.analyze.step_marks import marked_steps
from longpole.analyze.trace import Trace


def record(correlation: int, start: float) -> Event:
    return launch(correlation, start, start + 1, name="cudaEventRecord")


def stream_waits(correlation: int, start: float) -> Event:
    return launch(correlation, start, start + 1, name="cudaStreamWaitEvent")


def row(name: str, start: float, end: float, correlation: int, stream: int, **args: int) -> Event:
    """A cuda_sync row."""
    return kernel(name, start, end, stream, category="cuda_sync", correlation=correlation, **args)


def told(correlation: int, start: float, waiting: int, awaited: int, recorded: int) -> Event:
    args = {"wait_on_stream": awaited, "wait_on_cuda_event_record_corr_id": recorded, "wait_on_cuda_event_id": 1}
    return row("Stream Wait Event", start, start, correlation, waiting, **args)


def pairs(trace: Trace) -> list[tuple[str, str]]:
    """Names of work and of what waits for it."""
    work = work_of(trace, host_side(trace, marked_steps(trace)))
    names = [trace.names[name] for name in trace.device.name]
    return sorted((names[a], names[b]) for a, b in zip(*told_waits(trace, work), strict=True))


def crossing(*more: list[Event]) -> Trace:
    """a on stream 7, then b on stream 9, which waits for a; between them c on stream 8, which ends just before b starts."""
    return make_trace(
        [step(1, 0, 60), launch(1, 10, 15), launch(3, 16, 18), record(4, 20), stream_waits(5, 22), launch(2, 24, 29)],
        [kernel("a", 20, 200, correlation=1), kernel("c", 20, 202, stream=8, correlation=3)],
        [kernel("b", 205, 290, stream=9, correlation=2)],
        *more,
    )


def test_a_stream_waits_for_what_the_row_says_and_not_for_what_ends_just_before():
    guessed, stated = crossing(), crossing([told(5, 23, 9, 7, 4)])
    assert (edges_of(graph(guessed), XS), edges_of(graph(guessed), EVENT)) == ([(202, 205)], [])
    assert (edges_of(graph(stated), XS), edges_of(graph(stated), EVENT)) == ([], [(200, 205)])
    assert (quality(guessed).inferred_count, quality(stated).inferred_count) == (1, 0)
    assert new_step_us(stated, "kernel:a x0") == 202  # c alone is left, and b waits for nothing more: until 33 + 85
    assert new_step_us(stated, "kernel:c x0") == 290


def test_a_wait_that_is_stated_counts_as_launching_on_the_path():
    bounds = critical_path(crossing([told(5, 23, 9, 7, 4)])).bounds.iloc[0]
    assert bounds["launch"] == 10_000 + 5_000  # from the launch of a to its start, from the end of a to the start of b
    assert bounds["compute"] == 180_000 + 85_000


def test_a_wait_holds_even_where_nothing_had_to_wait_when_it_was_recorded():
    trace = make_trace(
        [step(1, 0, 60), launch(1, 10, 15), record(4, 20), stream_waits(5, 22), launch(2, 24, 29)],
        [kernel("a", 20, 22, correlation=1), kernel("b", 33, 133, stream=9, correlation=2), told(5, 23, 9, 7, 4)],
    )
    assert edges_of(graph(trace), EVENT) == [(22, 33)]


def test_an_event_that_was_recorded_before_work_does_not_wait_for_it():
    calls = [step(1, 0, 99), record(4, 5), launch(1, 10, 15), stream_waits(5, 22), launch(2, 24, 29)]
    work = [kernel("a", 20, 40, correlation=1), kernel("b", 45, 90, stream=9, correlation=2)]
    assert pairs(make_trace(calls, work, [told(5, 23, 9, 7, 4)])) == []
    assert pairs(make_trace([step(1, 0, 99), launch(1, 3, 4), *calls[1:]], work, [told(5, 23, 9, 7, 4)])) == [("a", "b")]


def test_a_stream_hands_on_what_it_waits_for_itself():
    """8 waits for 7 and launches nothing, 9 waits for 8: so it waits for 7."""
    trace = make_trace(
        [
            step(1, 0, 99),
            launch(1, 1, 2),
            record(11, 3),
            stream_waits(12, 5),
            record(13, 7),
            stream_waits(14, 9),
            launch(2, 11, 12),
        ],
        [kernel("a", 20, 40, correlation=1), kernel("b", 45, 90, stream=9, correlation=2)],
        [told(12, 5, 8, 7, 11), told(14, 9, 9, 8, 13)],
    )
    assert pairs(trace) == [("a", "b")]


def test_waits_for_two_streams_hold_the_same_work():
    trace = make_trace(
        [
            step(1, 0, 99),
            launch(1, 1, 2),
            launch(2, 2, 3),
            record(11, 4),
            record(12, 5),
            stream_waits(13, 6),
            stream_waits(14, 7),
        ],
        [launch(3, 8, 9), launch(4, 9, 10), kernel("a", 20, 40, correlation=1), kernel("b", 20, 30, stream=8, correlation=2)],
        [kernel("c", 45, 50, stream=9, correlation=3), kernel("d", 50, 60, stream=9, correlation=4)],
        [told(13, 6, 9, 7, 11), told(14, 7, 9, 8, 12)],
    )
    assert pairs(trace) == [("a", "c"), ("b", "c")]


def test_a_record_behind_the_wait_or_not_in_the_file_tells_nothing():
    calls = [step(1, 0, 99), launch(1, 1, 2), stream_waits(5, 22), launch(2, 24, 29), record(6, 40)]
    work = [kernel("a", 5, 40, correlation=1), kernel("b", 45, 90, stream=9, correlation=2)]
    for recorded in (6, 77, -1):
        trace = make_trace(calls, work, [told(5, 23, 9, 7, recorded)])
        assert len(event_waits(trace)) == 0
        assert untold_waits(trace).tolist() == [22_000]


def test_beside_waits_that_are_told_only_work_behind_an_untold_one_is_guessed_about():
    """b and d both start 5 µs after work of another stream ended; before d a wait was called that no row tells of."""
    stated = [told(5, 1, 8, 7, 4), kernel("x", 3, 4, stream=8, correlation=9)]
    calls = [step(1, 0, 60), record(4, 0), stream_waits(5, 1), launch(9, 2, 3), launch(1, 10, 15), launch(2, 20, 25)]
    work = [kernel("a", 20, 200, correlation=1), kernel("b", 205, 290, stream=9, correlation=2)]
    assert edges_of(graph(make_trace(calls, work)), XS) == [(200, 205)]
    assert edges_of(graph(make_trace(calls, work, stated)), XS) == []
    assert edges_of(graph(make_trace([*calls, stream_waits(6, 17)], work, stated)), XS) == [(200, 205)]


def test_the_host_waits_for_what_an_event_row_says():
    """The wait returns with a, which was launched before the record; b runs on."""
    calls = [step(1, 0, 100), launch(1, 10, 15), record(4, 16), launch(2, 20, 25)]
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 20, 95, stream=9, correlation=2)]
    waits = launch(5, 30, 65, name="cudaEventSynchronize")
    args = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 4}
    trace = make_trace([*calls, waits], work, [row("Event Sync", 31, 65, 5, -1, **args)])
    assert event_waits(trace).by_stream.tolist() == [THE_HOST]
    assert edges_of(graph(trace), SYNC) == [(60, 65)]


Put = tuple[str, int, int]  # a launch or an event record or a wait, its stream, and of a wait which of the records before
PUT = st.lists(st.tuples(st.sampled_from(("launch", "record", "wait")), st.integers(7, 10), st.integers(0, 5)), max_size=30)


def drawn_trace(drawn: list[Put]) -> tuple[Trace, dict[str, set[str]]]:
    """Every call 10 µs after the one before; and by a naive rule the work that each piece of work must come after."""
    calls, work, rows, records = list[Event](), list[Event](), list[Event](), list[tuple[int, int, set[str]]]()
    before = {stream: set[str]() for stream in (7, 8, 9, 10)}  # all that work put on the stream now comes after
    held = dict[str, set[str]]()
    for number, (kind, stream, which) in enumerate(drawn, 1):
        start = 10.0 * number
        if kind == "launch":
            held[f"k{number}"] = set(before[stream])
            before[stream].add(f"k{number}")
            calls.append(launch(number, start, start + 1))
            work.append(kernel(f"k{number}", start + 2, start + 4, stream=stream, correlation=number))
        elif kind == "record":
            calls.append(record(number, start))
            records.append((number, stream, set(before[stream])))
        elif records:
            recorded, of, done = records[which % len(records)]
            calls.append(stream_waits(number, start))
            rows.append(told(number, start, stream, of, recorded))
            before[stream] |= done
    end = 10.0 * len(drawn) + 20
    return make_trace(
        [step(1, 0, end), launch(900, 0, 1)], [kernel("first", 2, 3, stream=99, correlation=900)], calls, work, rows
    ), held


@settings(max_examples=60)
@given(PUT)
def test_streams_and_told_waits_together_hold_what_a_naive_rule_holds(drawn: list[Put]):
    trace, held = drawn_trace(drawn)
    work = work_of(trace, host_side(trace, marked_steps(trace)))
    names = [trace.names[name] for name in trace.device.name]
    direct = {name: set[str]() for name in names}
    for a, b in zip(*told_waits(trace, work), strict=True):
        direct[names[b]].add(names[a])
    for track in work.by_track:
        ordered = track[np.argsort(work.launched[track])]
        for a, b in zip(ordered[:-1].tolist(), ordered[1:].tolist(), strict=True):
            direct[names[b]].add(names[a])
    reached = dict[str, set[str]]()
    for row_number in np.argsort(work.launched).tolist():
        name = names[row_number]
        reached[name] = set().union(*(reached[one] | {one} for one in direct[name]))
    assert {name: reached[name] for name in held} == held


def test_a_record_on_the_waiting_stream_itself_changes_nothing():
    trace = make_trace(
        [step(1, 0, 99), launch(1, 1, 2), record(4, 3), stream_waits(5, 6), launch(2, 8, 9)],
        [kernel("a", 20, 40, correlation=1), kernel("b", 45, 90, correlation=2), told(5, 6, 7, 7, 4)],
    )
    assert pairs(trace) == []


def test_calls_of_a_driver_make_streams_wait_too():
    trace = make_trace(
        [step(1, 0, 99), launch(1, 1, 2), host("cuda_driver", "cuStreamWaitEvent", 22, 23, correlation=5)],
        [kernel("a", 5, 40, correlation=1)],
    )
    assert untold_waits(trace).tolist() == [22_000]
