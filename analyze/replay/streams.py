"""Device work -> what each piece of it waits for: its launch, its stream, other streams, the other work of its graph."""

import numpy as np

from .. import trace as t
from ..kernels import COMMUNICATION, work_class
from ..statistics import Floats
from ..trace import Ids, Ints, Mask, Trace
from .edges import CONT, EVENT, GRAPH, KERN, LAUNCH, STREAM, XS, Edges, edges
from .events import may_be_guessed, told_waits
from .points import HostSide
from .work import Work, last_ended

AHEAD_NS = 30_000  # launched so long before its stream was free, work waits for nothing but the stream
LATE_NS = 10_000  # after its launch and its stream would have let it start: work waits for something else
NEAR_NS = 25_000  # an event from one stream to another takes up to 19 us on MI300, 13 us on A100
STALLED_NS = 20_000  # later than an event explains
SLOWEST_NS = 100_000  # for work to begin that waits for nothing
LONG_NS = 100_000  # work that can fill a device while other work waits for room
USUAL_LAUNCH_NS, USUAL_GAP_NS, USUAL_EVENT_NS = 8000.0, 1000.0, 5000.0  # where the trace itself shows none


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
    told, ready = _told(trace, work, ready, first)
    parts.append(told)
    late = np.flatnonzero((work.start - ready > LATE_NS) & (chained < 0) & ((work.call >= 0) | (work.ahead >= 0)))
    event = _events(work, late)
    event[~may_be_guessed(trace, work)[late]] = -1
    crossing = event >= 0
    gaps = (work.start[late] - work.end[event])[crossing]
    parts.append(edges(XS, stop[event[crossing]], begin[late[crossing]], _event_ns(gaps), gaps))
    stalled = late[~crossing & (work.start[late] - ready[late] > STALLED_NS)]
    running = _running(trace, work, stalled)
    stalled, running = stalled[running >= 0], running[running >= 0]
    since = work.start[stalled] - work.start[running]
    return [*parts, edges(CONT, begin[running], begin[stalled], since, since, running)]


def _told(trace: Trace, work: Work, ready: Floats, first: int) -> tuple[Edges, Floats]:
    """The waits for other streams that the recording states, and when work is ready that waits for that, too."""
    awaited, waiting = told_waits(trace, work)
    gap = work.start[waiting] - work.end[awaited]
    held = (gap >= 0) & (gap <= NEAR_NS) & (work.end[awaited] > ready[waiting])  # by the event, and by nothing else
    event_ns = _event_ns(gap[held])
    ready = ready.astype(np.float64)
    np.maximum.at(ready, waiting, work.end[awaited] + event_ns)
    return edges(EVENT, first + len(work) + awaited, first + waiting, event_ns, gap), ready


def _event_ns(gaps: Ints) -> float:
    """From the end of work to the start of what waits for it by an event."""
    return float(np.median(gaps)) if len(gaps) else USUAL_EVENT_NS


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
