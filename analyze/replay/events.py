"""Device work and the waits that cuda_sync rows tell of -> which work of a stream waits for which work of others."""

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from ..event_waits import THE_HOST, are_told, event_waits, untold_waits
from ..trace import Ids, Mask, Trace
from .work import Work, running_latest

Awaited = dict[int, int]  # number of a stream -> of its work that must be done the last to end


@dataclass
class _Stream:
    """Work of one stream in the order of its launches, and the waits that were put between, in order."""

    launched: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)  # for each launch the row of the last to end so far
    waits: list[tuple[int, Awaited]] = field(
        default_factory=list
    )  # when, and what that and all waits since the last launch await

    def launches_before(self, moment: int) -> int:
        return bisect_left(self.launched, moment)

    def awaited(self, moment: int) -> Awaited:
        """Of other streams, by what was put behind the last launch before that moment."""
        place = bisect_left(self.waits, moment, key=lambda wait: wait[0]) - 1
        if place < 0 or self.launches_before(self.waits[place][0]) < self.launches_before(moment):
            return {}
        return self.waits[place][1]


def told_waits(trace: Trace, work: Work) -> tuple[Ids, Ids]:
    """Pairs of rows: work, and the first of another stream that waits for it.

    A stream that waits holds what is launched on it afterwards; an event holds until all is done that was launched on its stream
    before the record, what that stream itself waits for included.
    """
    streams = _streams(trace, work)
    waits = event_waits(trace)
    waits = waits[waits.by_stream != THE_HOST]
    waits = waits[np.argsort(waits.time_ns, kind="stable")]
    for time, device, by, stream, recorded in zip(
        *(getattr(waits, name).tolist() for name in ("time_ns", "device", "by_stream", "stream", "recorded_ns")), strict=True
    ):
        if by != stream:
            waiting = streams.setdefault((device, by), _Stream())
            awaited = _done_before(streams, work, (device, stream), recorded)
            waiting.waits.append((time, _later(work, waiting.awaited(time), awaited)))
    pairs = [pair for stream in streams.values() for pair in _pairs(stream)]
    return tuple(np.array(pairs, np.int64).reshape(-1, 2).T)  # type: ignore[return-value]


def may_be_guessed(trace: Trace, work: Work) -> Mask:
    """Which work may wait for other streams though nothing tells: all where no waits are told, else what is launched after a call
    that makes a stream wait and of which nothing is told, where nothing else was launched on the work's stream meanwhile.
    """
    if not are_told(trace):
        return np.ones(len(work), bool)
    untold, before = untold_waits(trace), np.full(len(work), np.iinfo(np.int64).min)
    for rows in work.by_track:
        ordered = rows[np.argsort(work.launched[rows], kind="stable")]
        before[ordered[1:]] = work.launched[ordered[:-1]]
    return np.searchsorted(untold, work.launched) > np.searchsorted(untold, before)


def _streams(trace: Trace, work: Work) -> dict[tuple[int, int], _Stream]:
    """By device and stream."""
    found = {}
    for rows in work.by_track:
        ordered = rows[np.lexsort((work.start[rows], work.launched[rows]))]
        latest = ordered[running_latest(work.end[ordered])]
        name = int(trace.device.device[rows[0]]), int(trace.device.stream[rows[0]])
        found[name] = _Stream(work.launched[ordered].tolist(), ordered.tolist(), latest.tolist())
    return found


def _done_before(streams: dict[tuple[int, int], _Stream], work: Work, name: tuple[int, int], recorded: int) -> Awaited:
    """What must be done when an event is that was recorded on that stream at that moment."""
    stream = streams.get(name, _Stream())
    place = stream.launches_before(recorded) - 1
    own = {int(work.track[stream.latest[place]]): stream.latest[place]} if place >= 0 else {}
    return _later(work, stream.awaited(recorded), own)


def _later(work: Work, first: Awaited, second: Awaited) -> Awaited:
    """Of each stream the work that ends last."""
    found = dict(first)
    for track, row in second.items():
        if track not in found or work.end[found[track]] < work.end[row]:
            found[track] = row
    return found


def _pairs(stream: _Stream) -> list[tuple[int, int]]:
    last = {stream.launches_before(time): awaited for time, awaited in stream.waits}  # by place of the launch that follows
    return [(row, stream.row[place]) for place, awaited in last.items() if place < len(stream.row) for row in awaited.values()]
