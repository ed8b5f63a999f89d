"""Trace -> the moments of its threads, thread by thread in order: borders of calls, of steps, and of what other threads do."""

import re
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from .. import trace as t
from ..host_tree import thread_offsets
from ..intervals import outermost, union
from ..launches import is_launch
from ..links import calls_named, launching_call
from ..step_marks import step_ranges
from ..syncs import is_sync
from ..trace import Ids, Ints, Mask, Table, Trace
from .edges import BURST_END, BURST_START, CALL, CALL_END, CALL_START, HAND, HOST, STEP_END, STEP_START, Edges, edges, joined

COPIES = re.compile(r"Memcpy|MemoryCopy")
HOLE_NS = 100_000  # a thread that makes no call for longer may wait for another thread; launches are tens of microseconds apart
TURN = np.array([0, 0, 0, 0, 3, 2, 4, 1])  # by kind, of points between the same two calls at the same time
BURST_SHARE = 0.5  # of the hole that the other thread fills: less, and the first one may as well have worked itself


@dataclass(frozen=True, eq=False)
class Points(Table):
    """Moments of threads, by (thread, time); `row` and `kind` as in Nodes."""

    time_ns: Ints
    kind: Ids
    row: Ids
    thread: Ids


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls that launch, copy or wait and lie in no other such call; `start`, `end`: their points.

    `of_row`: for each row of Trace.host the call that it is or lies in, else -1.
    """

    row: Ids
    start: Ids
    end: Ids
    of_row: Ids


@dataclass(frozen=True, eq=False)
class HostSide:
    """Points, calls among them, and the edges between points of threads."""

    points: Points
    calls: Calls
    edges: Edges


def host_side(trace: Trace, steps: pd.DataFrame) -> HostSide:
    """All that the replay knows of the host; `steps`: rows of marked_steps."""
    row, of_row = _relevant(trace)
    main = main_thread(trace, steps)
    own = _in_order(trace, row, _steps(steps, main))
    bursts = _bursts(trace, own, main)
    points = _in_order(trace, row, _joined((_steps(steps, main), _burst_points(bursts))))
    starts, ends = np.flatnonzero(points.kind == CALL_START), np.flatnonzero(points.kind == CALL_END)
    return HostSide(points, Calls(row, starts, ends, of_row), _chain(points, bursts, main))


def _relevant(trace: Trace) -> tuple[Ids, Ids]:
    """The rows of the calls, by thread and start, and for each row of the host the call that it is or in which it lies."""
    host = trace.host
    rows, of_row = np.flatnonzero(relevant_calls(trace)), np.full(len(host), -1)
    offset = thread_offsets(host)[host.thread[rows]]
    start, end = host.start_ns[rows] + offset, host.end_ns[rows] + offset
    outer = outermost(start, end)
    of_row[rows] = np.searchsorted(start[outer], start, side="right") - 1
    return rows[outer], of_row


def relevant_calls(trace: Trace) -> Mask:
    """Calls that launch, copy or wait."""
    taken = calls_named(trace, lambda name: bool(COPIES.search(name)) or is_sync(name) or is_launch(name))
    launching = launching_call(trace)
    taken[launching[launching >= 0]] = True
    return taken


def main_thread(trace: Trace, steps: pd.DataFrame) -> int:
    """That of the steps; of a trace without host ranges any."""
    threads = steps.loc[~steps["aside"], "thread"]
    return max(0, int(threads.mode().iloc[0])) if len(threads) else 0


def _steps(steps: pd.DataFrame, main: int) -> Points:
    own = np.flatnonzero(~steps["aside"])
    time = np.concatenate((steps["start_ns"].to_numpy()[own], steps["end_ns"].to_numpy()[own]))
    return Points(time, np.repeat((STEP_START, STEP_END), len(own)), np.tile(own, 2), np.full(2 * len(own), main))


def _in_order(trace: Trace, calls: Ids, others: Points) -> Points:
    """The borders of the calls and the other points, by thread and time; of equal times so that what ends comes first."""
    host, number = trace.host[calls], np.arange(len(calls))
    thread, low = host.thread.astype(np.int64), int(min(0, host.start_ns.min(initial=0), others.time_ns.min(initial=0)))
    span = int(max(host.end_ns.max(initial=0), others.time_ns.max(initial=0))) - low + 1
    before = np.searchsorted(thread * span + host.start_ns - low, others.thread * span + others.time_ns - low)
    last = np.maximum(before - 1, 0)
    inside = (before > 0) & (thread[last] == others.thread) & (host.end_ns[last] > others.time_ns) if len(calls) else before > 0
    points = _joined((
        Points(host.start_ns, np.full(len(calls), CALL_START), calls, thread),
        Points(host.end_ns, np.full(len(calls), CALL_END), calls, thread), others,
    ))  # fmt: skip
    place = np.concatenate((4 * number, 4 * number + 2, 4 * before - 1 - 2 * inside))  # between the borders of calls
    return points[np.lexsort((TURN[points.kind], points.time_ns, place, points.thread))]


def _joined(parts: tuple[Points, ...]) -> Points:
    return Points(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Points)))


def _bursts(trace: Trace, points: Points, main: int) -> pd.DataFrame:
    """What other threads do between two points of the main one.

    thread, start_ns, end_ns; gap (place of the first of the points, -1: before all), hole (1: the main thread waited for it).
    """
    time, host = points.time_ns[points.thread == main], trace.host
    calls = points[(points.kind == CALL_START) & (points.thread != main)]
    parts = [_active(trace, thread) for thread in np.unique(calls.thread).tolist() if _together(trace, thread, main)]
    if not parts or not len(host):
        return pd.DataFrame(
            {name: np.empty(0, np.int64) for name in ("thread", "start_ns", "end_ns", "gap", "hole")}, dtype=np.int64
        )
    found = pd.concat(parts, ignore_index=True)
    found["gap"] = np.searchsorted(time, found["start_ns"], side="right") - 1
    found = found.groupby(["thread", "gap"], as_index=False).agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    found = found[[_holds_call(calls, *row) for row in zip(found["thread"], found["start_ns"], found["end_ns"], strict=True)]]
    return _with_holes(found.reset_index(drop=True), points[points.thread == main])


def _with_holes(found: pd.DataFrame, own: Points) -> pd.DataFrame:
    """Whether the main thread waited for each burst: it made no call meanwhile, and the bursts fill most of that time."""
    gap = found["gap"].to_numpy()
    first = np.maximum(gap, 0)
    until = np.append(own.time_ns, np.iinfo(np.int64).max)[first + 1]
    hole = until - own.time_ns[first]
    in_call = np.append((own.kind[:-1] == CALL_START) & (own.kind[1:] == CALL_END), True)[first]
    fits = (gap >= 0) & (found["end_ns"].to_numpy() <= until) & (hole > HOLE_NS) & ~in_call
    filled = (found["end_ns"] - found["start_ns"]).where(fits, 0).groupby(gap).transform("sum").to_numpy()
    return found.assign(hole=(fits & (filled >= BURST_SHARE * hole)).astype(np.int64))


def _together(trace: Trace, thread: int, main: int) -> bool:
    return trace.threads[thread][0] == trace.threads[main][0]


def _active(trace: Trace, thread: int) -> pd.DataFrame:
    """When that thread works, short pauses closed."""
    host = trace.host
    rows = (host.thread == thread) & np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME)) & ~step_ranges(trace)
    start, end = union(host.start_ns[rows], host.end_ns[rows] + 1)  # a range without length counts, too
    apart = start[1:] - end[:-1] > HOLE_NS
    start, end = start[np.append(True, apart)], end[np.append(apart, True)] - 1
    return pd.DataFrame({"thread": thread, "start_ns": start, "end_ns": end})


def _holds_call(calls: Points, thread: int, start: int, end: int) -> bool:
    own = calls.time_ns[calls.thread == thread]
    return bool(np.searchsorted(own, start) < np.searchsorted(own, end, side="right"))


def _burst_points(bursts: pd.DataFrame) -> Points:
    time = np.concatenate((bursts["start_ns"], bursts["end_ns"]))
    row, thread = np.tile(np.arange(len(bursts)), 2), np.tile(bursts["thread"].to_numpy(), 2)
    return Points(time, np.repeat((BURST_START, BURST_END), len(bursts)), row, thread)


def _chain(points: Points, bursts: pd.DataFrame, main: int) -> Edges:
    """Each point after the one before it on its thread; what a thread waits for another takes none of its own time."""
    place = np.arange(len(points))
    source = place[:-1][points.thread[1:] == points.thread[:-1]]
    target = source + 1
    measured = points.time_ns[target] - points.time_ns[source]
    is_call = (points.kind[source] == CALL_START) & (points.kind[target] == CALL_END)
    own = np.flatnonzero(points.thread == main)
    starts, ends = (place[points.kind == kind] for kind in (BURST_START, BURST_END))
    starts, ends = starts[np.argsort(points.row[starts])], ends[np.argsort(points.row[ends])]
    gap, hole = bursts["gap"].to_numpy(), bursts["hole"].to_numpy() > 0
    handed = gap >= 0
    resumed = own[gap[hole] + 1]
    idle = np.isin(target, np.concatenate((starts[handed], resumed)))
    hands = (own[gap[handed]], starts[handed]), (ends[hole], resumed)
    return joined([
        edges(HOST, source[~is_call], target[~is_call], np.where(idle, 0, measured)[~is_call], measured[~is_call]),
        edges(CALL, source[is_call], target[is_call], measured[is_call], measured[is_call]),
        *(edges(HAND, a, b, points.time_ns[b] - points.time_ns[a], points.time_ns[b] - points.time_ns[a]) for a, b in hands),
    ])  # fmt: skip
