"""Calls and device work -> which work each call waits for before it returns: synchronisations, copies, a full launch queue."""

from dataclasses import dataclass

import numpy as np

from .. import trace as t
from ..event_waits import THE_HOST, event_waits
from ..statistics import Floats
from ..syncs import ALL_STREAMS, NOT_TOLD, is_sync, syncs
from ..trace import Ids, Ints, Mask, Trace
from .edges import QUEUE, SYNC, Edges, edges, joined
from .points import HostSide
from .work import Work, running_latest

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
        quantile = WAIT_QUANTILE if is_sync(str(trace.names[one])) else 0.5
        typical = np.quantile(sample, quantile) if len(sample) else USUAL_CALL_NS
        own[name == one] = np.minimum(typical, took[name == one])
    return own


def _awaited(trace: Trace, side: HostSide, work: Work) -> tuple[Ids, Ids]:
    """Pairs of a waiting call and the work it waits for; a wait for a device has one pair for each stream."""
    start, end = (side.points.time_ns[of] for of in (side.calls.start, side.calls.end))
    for_what = _for_what(trace, side, work)
    pairs = [_copies(trace, side, work, start, end)]
    for track, rows in enumerate(work.by_track):
        ordered = rows[np.argsort(work.launched[rows], kind="stable")]
        latest = running_latest(work.end[ordered])
        calls = np.flatnonzero(for_what.of_device[int(work.device[rows[0]])] | (for_what.track == track))
        place = np.searchsorted(work.launched[ordered], for_what.until_ns[calls]) - 1
        has = place >= 0
        pairs.append((calls[has], ordered[latest[place[has]]]))
    pairs.append(_latest_inside(work, np.flatnonzero(for_what.unknown), start, end))
    call, awaited = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return call, awaited


@dataclass(frozen=True, eq=False)
class _ForWhat:
    """What each of HostSide.calls waits for: all that is launched before `until_ns` on a device, or on one stream.

    `of_device`: by device, calls that wait for all of it. `track`: number of the stream, -1 none. `unknown`: waits of which
    nothing tells.
    """

    of_device: dict[int, Mask]
    track: Ids
    until_ns: Ints
    unknown: Mask


def _for_what(trace: Trace, side: HostSide, work: Work) -> _ForWhat:
    """As the call's name or a cuda_sync row says, else the stream of the last copy of the call's thread."""
    found, number = syncs(trace), side.calls.of_row
    own_call = np.zeros(len(number) + 1, bool)
    own_call[side.calls.row] = True  # not inside another call; the last one is that of no call
    found = found[own_call[found.call]]
    call = number[found.call]
    count = len(side.calls.row)
    is_wait, device, stream, until = np.zeros(count, bool), *(np.full(count, NOT_TOLD) for _ in range(2)), _starts(side)
    is_wait[call], device[call], stream[call] = True, found.device, found.stream
    told = event_waits(trace)
    told = told[(told.by_stream == THE_HOST) & own_call[told.call]]
    event = number[told.call]
    device[event], stream[event], until[event] = told.device, told.stream, told.recorded_ns
    track = np.full(count, -1)
    for name, own in _tracks(trace, work).items():
        track[is_wait & (device == name[0]) & (stream == name[1])] = own
    guessed = np.flatnonzero(is_wait & (stream == NOT_TOLD))
    track[guessed] = _of_last_copies(trace, side, work, guessed)
    whole = is_wait & (stream == ALL_STREAMS)
    of_device = {int(one): whole & np.isin(device, (one, NOT_TOLD)) for one in np.unique(work.device)}
    return _ForWhat(of_device, track, until, is_wait & (stream == NOT_TOLD) & (track < 0))


def _starts(side: HostSide) -> Ints:
    return side.points.time_ns[side.calls.start]


def _tracks(trace: Trace, work: Work) -> dict[tuple[int, int], int]:
    """Number of each device and stream."""
    return {
        (int(trace.device.device[rows[0]]), int(trace.device.stream[rows[0]])): int(work.track[rows[0]]) for rows in work.by_track
    }


def _of_last_copies(trace: Trace, side: HostSide, work: Work, waits: Ids) -> Ids:
    """For each wait for a stream that of the last copy of its thread, -1 where there is none or it waits for something else."""
    copies = np.flatnonzero((trace.device.category == t.MEMCPY) & (work.call >= 0))
    copies = copies[np.argsort(work.call[copies], kind="stable")]
    found = np.full(len(waits), -1)
    if not len(copies):
        return found
    place = np.searchsorted(work.call[copies], waits) - 1
    row, thread = copies[np.maximum(place, 0)], trace.host.thread[side.calls.row]
    of_stream = np.array(["StreamSynchronize" in name for name in trace.names], bool)[trace.host.name[side.calls.row[waits]]]
    same = (place >= 0) & (thread[work.call[row]] == thread[waits]) & of_stream
    found[same] = work.track[row[same]]
    return found


def _copies(trace: Trace, side: HostSide, work: Work, start: Ints, end: Ints) -> tuple[Ids, Ids]:
    """Copies that end inside their own call."""
    rows = np.flatnonzero((trace.device.category == t.MEMCPY) & (work.call >= 0))
    call = work.call[rows]
    inside = (work.end[rows] > start[call]) & (work.end[rows] <= end[call])
    return call[inside], rows[inside]


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
