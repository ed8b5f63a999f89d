"""Device work -> what each piece of it waits for: its launch, its stream, other streams, the other work of its graph."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import trace as t
from ..durations import repaired_work
from ..kernels import COMMUNICATION, work_class
from ..launches import is_graph_launch
from ..links import launching_call
from ..trace import DeviceRanges, Ids, Ints, Mask, Trace
from .edges import CONT, GRAPH, KERN, LAUNCH, STREAM, XS, Edges, edges
from .points import HostSide

AHEAD_NS = 30_000  # launched so long before its stream was free, work waits for nothing but the stream
LATE_NS = 10_000  # after its launch and its stream would have let it start: work waits for something else
NEAR_NS = 25_000  # an event from one stream to another takes up to 19 us on MI300, 13 us on A100
STALLED_NS = 20_000  # later than an event explains
SLOWEST_NS = 100_000  # for work to begin that waits for nothing
LONG_NS = 100_000  # work that can fill a device while other work waits for room
USUAL_LAUNCH_NS, USUAL_GAP_NS, USUAL_EVENT_NS = 8000.0, 1000.0, 5000.0  # where the trace itself shows none


@dataclass(frozen=True, eq=False)
class Work:
    """Columns of equal length, one row a piece of device work."""

    start: Ints
    end: Ints
    device: Ids
    track: Ids  # number of its stream among those of all devices
    call: Ids  # number among HostSide.calls, -1 where it is not known
    launched: Ints  # start of that call, far in the past where it is not known
    in_graph: Mask
    ahead: Ids  # of the work of its stream that ended by its start, the last to end, or -1

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def by_track(self) -> list[Ids]:
        """Rows of each stream, by end."""
        order = np.lexsort((self.end, self.track))
        return np.split(order, np.flatnonzero(np.diff(self.track[order])) + 1) if len(self) else []


def work_of(trace: Trace, side: HostSide) -> Work:
    """Of all devices."""
    work, row = repaired_work(trace), launching_call(trace)
    call = np.where(row >= 0, np.append(side.calls.of_row, -1)[row], -1)
    track = _tracks(work)
    launched = np.where(call >= 0, np.append(side.points.time_ns[side.calls.start], 0)[call], np.iinfo(np.int64).min // 2)
    graph = np.array([is_graph_launch(name) for name in trace.names], bool)
    in_graph = np.zeros(len(work), bool)
    in_graph[row >= 0] = graph[trace.host.name[row[row >= 0]]]
    return Work(
        work.start_ns, work.end_ns, work.device, track, call, launched, in_graph, last_ended(track, work.start_ns, work.end_ns)
    )


def _tracks(work: DeviceRanges) -> Ids:
    if not len(work):
        return np.empty(0, np.int64)
    return np.unique(np.stack((work.device.astype(np.int64), work.stream)), axis=1, return_inverse=True)[1].ravel()


def last_ended(track: Ids, start: Ints, end: Ints) -> Ids:
    """For each row, of those of its track that end by its start and come before it, the last to end, or -1."""
    count = len(start)
    turn = np.empty(count, np.int64)
    turn[np.lexsort((end, start))] = np.arange(count)
    key = np.lexsort((np.repeat((0, 1), count), np.tile(turn, 2), np.concatenate((start, end)), np.tile(track, 2)))
    is_end = key >= count
    last = np.maximum.accumulate(np.where(is_end, np.arange(2 * count), -1)) if count else key
    found = np.full(count, -1)
    asked = np.flatnonzero(~is_end & (last >= 0))
    row, before = key[asked], key[last[asked]] - count
    same = track[row] == track[before]
    found[row[same]] = before[same]
    return found


def work_edges(trace: Trace, work: Work, side: HostSide, first: int) -> list[Edges]:
    """All edges that end at device work; `first`: the node of the first start, those of the ends come after all starts."""
    rows = np.arange(len(work))
    begin, stop = first + rows, first + len(work) + rows
    duration = work.end - work.start
    launch, stream = _launch_ns(trace, work), _gap_ns(work)
    ready = np.maximum(work.launched + launch, np.where(work.ahead >= 0, work.end[work.ahead] + stream, 0) if len(work) else 0)
    inside, chained = _graph_gaps(work)
    parts = [edges(KERN, begin, stop, duration, duration, rows)]
    starts = side.points.time_ns[np.append(side.calls.start, 0)[work.call]] if len(side.points) else work.start
    known = (work.call >= 0) & ~(inside & (chained >= 0))
    from_call = np.append(side.calls.start, -1)[work.call]
    parts.append(edges(LAUNCH, from_call[known], begin[known], launch[known], (work.start - starts)[known]))
    behind = (work.ahead >= 0) & ~(chained == work.ahead)
    gap = work.start - work.end[work.ahead]
    parts.append(edges(STREAM, stop[work.ahead[behind]], begin[behind], stream, gap[behind]))
    held = chained >= 0
    held_gap = (work.start - work.end[chained])[held]
    parts.append(edges(GRAPH, stop[chained[held]], begin[held], held_gap, held_gap))
    late = np.flatnonzero((work.start - ready > LATE_NS) & (chained < 0) & ((work.call >= 0) | (work.ahead >= 0)))
    event = _events(work, late)
    crossing = event >= 0
    gaps = (work.start[late] - work.end[event])[crossing]
    event_ns = float(np.median(gaps)) if len(gaps) else USUAL_EVENT_NS
    parts.append(edges(XS, stop[event[crossing]], begin[late[crossing]], event_ns, gaps))
    stalled = late[~crossing & (work.start[late] - ready[late] > STALLED_NS)]
    running = _running(trace, work, stalled)
    stalled, running = stalled[running >= 0], running[running >= 0]
    since = work.start[stalled] - work.start[running]
    return [*parts, edges(CONT, begin[running], begin[stalled], since, since, running)]


def _launch_ns(trace: Trace, work: Work) -> Ints:
    """For each piece the median of its kind, over those that found their stream idle."""
    category = trace.device.category
    idle = (work.call >= 0) & ((work.ahead < 0) | (work.end[work.ahead] <= work.launched)) if len(work) else np.zeros(0, bool)
    took = work.start - work.launched
    idle &= (took >= 0) & (took <= SLOWEST_NS)  # of more, something else was waited for
    usual = float(np.median(took[idle])) if idle.any() else USUAL_LAUNCH_NS
    found = np.full(len(work), usual)
    for kind in (t.KERNEL, t.MEMCPY, t.MEMSET):
        if (sample := idle & (category == kind)).any():
            found[category == kind] = np.median(took[sample])
    return found


def _gap_ns(work: Work) -> float:
    """The median gap between works of a stream, of those that were launched well ahead."""
    if not len(work):
        return USUAL_GAP_NS
    gap = work.start - work.end[work.ahead]
    ahead = (work.call >= 0) & (work.ahead >= 0) & ~work.in_graph & (work.launched + AHEAD_NS <= work.end[work.ahead])
    ahead &= gap <= SLOWEST_NS
    return float(np.median(gap[ahead])) if ahead.any() else USUAL_GAP_NS


def _graph_gaps(work: Work) -> tuple[Mask, Ids]:
    """Which work is not the first of its graph launch, and for each work of a graph the work it follows, or -1.

    Inside a launch that is the last to end before it; the first of a launch follows its stream if it was launched before that was
    free.
    """
    chained = np.full(len(work), -1)
    rows = np.flatnonzero(work.in_graph & (work.call >= 0))
    inner = last_ended(work.call[rows], work.start[rows], work.end[rows])
    chained[rows[inner >= 0]] = rows[inner[inner >= 0]]
    inside = chained >= 0
    same_stream = (work.ahead >= 0) & inside & (work.call[work.ahead] == work.call) if len(work) else inside
    chained[same_stream] = work.ahead[same_stream]
    queued = work.in_graph & ~inside & (work.ahead >= 0) & (work.launched < work.end[work.ahead]) if len(work) else inside
    chained[queued] = work.ahead[queued]
    return inside, chained


def _events(work: Work, late: Ids) -> Ids:
    """For each late work the work of another stream that ended last, just before it, and was launched before it, or -1."""
    found, ended = np.full(len(late), -1), np.full(len(late), np.iinfo(np.int64).min)
    for rows in work.by_track:
        place = np.searchsorted(work.end[rows], work.start[late], side="right") - 1
        row = rows[np.maximum(place, 0)]
        fits = (place >= 0) & (work.track[row] != work.track[late]) & (work.device[row] == work.device[late])
        fits &= (work.start[late] - work.end[row] <= NEAR_NS) & (work.launched[row] <= work.launched[late])
        better = fits & (work.end[row] > ended)
        found[better], ended[better] = row[better], work.end[row[better]]
    return found


def _running(trace: Trace, work: Work, late: Ids) -> Ids:
    """For each late work the first to end of the long work that other streams of its device run at its start, or -1."""
    found, ended = np.full(len(late), -1), np.full(len(late), np.iinfo(np.int64).max)
    counts = (work.end - work.start > LONG_NS) & (work_class(trace) != COMMUNICATION)
    for rows in work.by_track:
        rows = rows[counts[rows]]
        if not len(rows):
            continue
        place = np.minimum(np.searchsorted(work.end[rows], work.start[late], side="right"), len(rows) - 1)
        row = rows[place]
        runs = (work.start[row] < work.start[late]) & (work.start[late] < work.end[row])
        runs &= (work.track[row] != work.track[late]) & (work.device[row] == work.device[late])
        better = runs & (work.end[row] < ended)
        found[better], ended[better] = row[better], work.end[row[better]]
    return found
