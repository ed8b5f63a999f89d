"""Calls and device work -> which work each call waits for before it returns: synchronisations, copies, a full launch queue."""

from dataclasses import dataclass

import numpy as np

from .. import trace as t
from ..links import calls_of
from ..statistics import Floats
from ..syncs import DEVICE_WAIT, STREAM_WAIT, is_device_wait
from ..trace import Ids, Ints, Mask, Trace
from .edges import QUEUE, SYNC, Edges, edges, joined
from .points import HostSide
from .work import Work

BLOCKED_NS = 100_000  # no launch or wait that finds nothing to wait for takes as long
FEWEST_BLOCKED, FEWEST_WAITING = 5, 900  # a driver's queue holds about 1000 launches; a few slow launches are something else
ROOM_NS = 5_000  # a blocked launch returns that soon after there is room
SOON_NS = 20_000  # a call that returns later after the work did not wait for it
USUAL_RETURN_NS = 8_000.0  # where the trace itself shows none
USUAL_CALL_NS = 5_000.0
WAIT_QUANTILE = 0.1  # of the durations of a synchronisation: those that find nothing to wait for


@dataclass(frozen=True, eq=False)
class Waits:
    """`edges`: SYNC and QUEUE; `own_ns`: for each of HostSide.calls what it takes by itself, without its wait."""

    edges: Edges
    own_ns: Floats
    waiting: Mask  # calls that wait for work


def waits_of(trace: Trace, side: HostSide, work: Work, first: int) -> Waits:
    """`first`: the node of the first start of device work, those of the ends come after all starts."""
    call, awaited = _awaited(trace, side, work)
    start, end = (side.points.time_ns[of] for of in (side.calls.start, side.calls.end))
    delay = end[call] - work.end[awaited]
    real = delay >= 0
    binding = real & (work.end[awaited] > start[call])
    usual = float(np.median(delay[binding & (delay <= SOON_NS)])) if (binding & (delay <= SOON_NS)).any() else USUAL_RETURN_NS
    sync = edges(SYNC, first + len(work) + awaited, side.calls.end[call], usual, delay)
    queue, blocked = _queue(side, work, start, end, first)
    waiting = np.zeros(len(start), bool)
    waiting[call] = True
    waited = blocked.copy()
    waited[call[binding]] = True
    own = _own_ns(trace, side, end - start, waiting | blocked, waited)
    return Waits(joined([sync, queue]), np.where(waiting | blocked, own, end - start), waiting)


def _own_ns(trace: Trace, side: HostSide, took: Ints, waiting: Mask, waited: Mask) -> Floats:
    """What calls of the same name take that found nothing to wait for."""
    name = trace.host.name[side.calls.row]
    own = took.astype(np.float64)
    for one in np.unique(name[waiting]).tolist():
        sample = took[(name == one) & (took < BLOCKED_NS) & ~waited]
        quantile = WAIT_QUANTILE if _is_wait(str(trace.names[one])) else 0.5
        typical = np.quantile(sample, quantile) if len(sample) else USUAL_CALL_NS
        own[name == one] = np.minimum(typical, took[name == one])
    return own


def _awaited(trace: Trace, side: HostSide, work: Work) -> tuple[Ids, Ids]:
    """Pairs of a waiting call and the work it waits for; a wait for a device has one pair for each stream."""
    name = trace.host.name[side.calls.row]
    named = {rule: np.array([rule(str(text)) for text in trace.names], bool) for rule in (is_device_wait, _is_wait)}
    is_device, is_wait = (np.append(named[rule], False)[name] for rule in (is_device_wait, _is_wait))
    start, end = (side.points.time_ns[of] for of in (side.calls.start, side.calls.end))
    pairs = [_copies(trace, side, work, start, end)]
    stream = _streams(trace, side, work, np.flatnonzero(is_wait & ~is_device))
    for track, rows in enumerate(work.by_track):
        ordered = rows[np.argsort(work.launched[rows], kind="stable")]
        latest = _running_latest(work.end[ordered])
        calls = np.flatnonzero(is_device | (stream == track))
        place = np.searchsorted(work.launched[ordered], start[calls]) - 1
        has = place >= 0
        pairs.append((calls[has], ordered[latest[place[has]]]))
    pairs.append(_latest_inside(work, np.flatnonzero(is_wait & ~is_device & (stream < 0)), start, end))
    call, awaited = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return call, awaited


def _is_wait(name: str) -> bool:
    return "Synchronize" in name


def _running_latest(end: Ints) -> Ids:
    """For each place the place of the largest so far."""
    top = np.maximum.accumulate(end)
    return np.maximum.accumulate(np.where(end == top, np.arange(len(end)), 0))


def _copies(trace: Trace, side: HostSide, work: Work, start: Ints, end: Ints) -> tuple[Ids, Ids]:
    """Copies that end inside their own call."""
    rows = np.flatnonzero((trace.device.category == t.MEMCPY) & (work.call >= 0))
    call = work.call[rows]
    inside = (work.end[rows] > start[call]) & (work.end[rows] <= end[call])
    return call[inside], rows[inside]


def _streams(trace: Trace, side: HostSide, work: Work, waits: Ids) -> Ids:
    """For each call the stream it waits for: as a cuda_sync row says, else that of the last copy of its thread; -1 not known."""
    found = np.full(len(side.calls.row), -1)
    copies = np.flatnonzero((trace.device.category == t.MEMCPY) & (work.call >= 0))
    copies = copies[np.argsort(work.call[copies], kind="stable")]
    place = np.searchsorted(work.call[copies], waits) - 1
    of_stream = np.array(["StreamSynchronize" in name for name in trace.names], bool)[trace.host.name[side.calls.row[waits]]]
    if len(copies):
        row = copies[np.maximum(place, 0)]
        thread = trace.host.thread[side.calls.row]
        same = (place >= 0) & (thread[work.call[row]] == thread[waits]) & of_stream
        found[waits[same]] = work.track[row[same]]
    marks = trace.device_marks[trace.device_marks.category == t.SYNC]
    marks = marks[np.array([str(trace.names[name]).startswith((STREAM_WAIT, DEVICE_WAIT)) for name in marks.name], bool)]
    call = np.append(side.calls.of_row, -1)[calls_of(trace, marks.correlation)]
    tracks = {(int(d), int(s)): k for k, (d, s) in _stream_names(trace, work).items()}
    for one, device, stream in zip(call.tolist(), marks.device.tolist(), marks.stream.tolist(), strict=True):
        if one >= 0 and (device, stream) in tracks and one in waits:
            found[one] = tracks[device, stream]
    return found


def _stream_names(trace: Trace, work: Work) -> dict[int, tuple[int, int]]:
    """Track -> device and stream."""
    return {
        int(work.track[rows[0]]): (int(trace.device.device[rows[0]]), int(trace.device.stream[rows[0]])) for rows in work.by_track
    }


def _latest_inside(work: Work, calls: Ids, start: Ints, end: Ints) -> tuple[Ids, Ids]:
    """Of a wait for something unknown: the last work to end while it runs, if it was launched before."""
    order = np.argsort(work.end, kind="stable")
    place = np.searchsorted(work.end[order], end[calls], side="right") - 1
    has = place >= 0
    calls, row = calls[has], order[place[has]]
    fits = (work.end[row] > start[calls]) & (work.launched[row] < start[calls])
    return calls[fits], row[fits]


def _queue(side: HostSide, work: Work, start: Ints, end: Ints, first: int) -> tuple[Edges, Mask]:
    """Where the queue was ever full a launch returns once all but so many have started; and which launches it blocked."""
    rows = np.flatnonzero(work.call >= 0)
    rows = rows[np.lexsort((work.start[rows], work.call[rows]))]
    rows = rows[np.append(True, work.call[rows][1:] != work.call[rows][:-1])] if len(rows) else rows
    rows = rows[np.argsort(work.launched[rows], kind="stable")]
    call, blocked = work.call[rows], np.zeros(len(start), bool)
    begun = np.argsort(work.start[rows], kind="stable")
    waiting = np.arange(len(rows)) - np.searchsorted(work.start[rows][begun], end[call], side="right")
    slow = (end[call] - start[call] > BLOCKED_NS) & (waiting >= FEWEST_WAITING)
    none = edges(QUEUE, rows[:0], rows[:0], 0, rows[:0].astype(np.int64))
    if slow.sum() < FEWEST_BLOCKED:
        return none, blocked
    room = int(np.median(waiting[slow]))
    later = np.arange(room + 1, len(rows))
    before = later - np.maximum(room, waiting[later]) - 1  # a queue of long records has room for more launches
    later, before = later[before >= 0], before[before >= 0]
    before, call = rows[begun[before]], call[later]
    delay = end[call] - work.start[before]
    blocked[call[(delay >= 0) & (delay <= SOON_NS) & (work.start[before] > start[call])]] = True
    return edges(QUEUE, first + before, side.calls.end[call], ROOM_NS, delay), blocked
