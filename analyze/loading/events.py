"""JSON text of events -> events with exact times; their arguments stay text."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import msgspec
import numpy as np

from ..trace import Ids, Ints, Mask
from . import known
from .arguments import NONE

NOTHING = msgspec.Raw(b"")
NAN = float("nan")
MISSING = np.iinfo(np.int64).min  # a time that an event lacks
FLOAT_IS_EXACT_US = 2.0**43  # 101.8 days: below it a float of microseconds with 3 decimals gives the right nanosecond
Text = bytes | bytearray | memoryview
LONGEST_PAUSE = 63
FRAME = known.CATEGORIES.index("python_function")
LATEST_US = 2**52  # in nanoseconds it still fits int64, and as a Unix time it is in the year 2112


NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoding raises for text that is none


class Event(msgspec.Struct, gc=False):
    """An event as nearly all are; one with another type anywhere is read as a LooseEvent."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = NAN
    dur: float = NAN
    args: msgspec.Raw = NONE
    id: int | str | None = None


class Frame(msgspec.Struct, gc=False):
    """A Python frame: most events of a trace with stacks, one after the other, and nothing but these fields is told of them."""

    ph: Literal["X"]
    cat: Literal["python_function"]
    name: str
    pid: int | str
    tid: int | str
    ts: float
    dur: float


class WholeEvent(Event, gc=False):
    """Times as whole microseconds, as torch up to 2.2 writes them; one with decimals is another type to msgspec."""

    ts: int = MISSING  # pyright: ignore[reportIncompatibleVariableOverride]
    dur: int = MISSING  # pyright: ignore[reportIncompatibleVariableOverride]


class ExactEvent(Event, gc=False):
    """Times as text, for files whose floats would lose nanoseconds."""

    ts: msgspec.Raw = NOTHING  # pyright: ignore[reportIncompatibleVariableOverride]
    dur: msgspec.Raw = NOTHING  # pyright: ignore[reportIncompatibleVariableOverride]


class LooseEvent(msgspec.Struct, gc=False):
    """Anything that is a JSON object."""

    ph: Any = ""
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: msgspec.Raw = NONE
    id: Any = None


class Header(msgspec.Struct, gc=False):
    """What stands beside the events; one odd value must not lose the file."""

    base_ns: Any = msgspec.field(name="baseTimeNanoseconds", default=None)
    schema: Any = msgspec.field(name="schemaVersion", default=None)
    devices: Any = msgspec.field(name="deviceProperties", default=None)
    distributed: Any = msgspec.field(name="distributedInfo", default=None)
    cuda: Any = msgspec.field(name="cuda_runtime_version", default=None)
    hip: Any = msgspec.field(name="hip_runtime_version", default=None)
    record_shapes: Any = 0
    with_stack: Any = 0
    profile_memory: Any = 0
    metadata: Any = None  # JAX's
    other_data: Any = msgspec.field(name="otherData", default=None)  # where chrome's own format lets a tool name itself


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some events in the order of the file; `start_ns`, `duration_ns`: int64, MISSING where an event has none that is usable."""

    events: Sequence[Any]  # Event, or what is left of one
    start_ns: Ints
    duration_ns: Ints
    text_times: int = 0  # events whose times stand in quotes
    malformed: int = 0  # elements of the list that are no events at all
    mended: Mask | None = None  # which events did not stand so in the file
    frames: bool = False  # all of them are Python frames
    known: Ids | None = None  # where all are of known.CATEGORIES: the row of each, also of flows, which `events` lacks
    judged: bool = False  # its names have been looked at for what they tell of the writer


class Decoder:
    """Texts of whole events, `[{…},{…}]` -> Chunk. Remembers how this file's events must be read: the fastest exact way."""

    def __init__(self) -> None:
        self.ways = [_as_floats, _as_whole_numbers, _as_text]
        self.in_frames = False  # the last event was a frame, so the next ones are likely to be
        self.pause = self.pauses = 0  # chunks until the known categories are tried again, after they failed

    def chunk(self, text: Text) -> Chunk:
        """msgspec.DecodeError where the text is no JSON."""
        if self.ways[0] is not _as_floats:
            return self.any_chunk(text)
        if self.in_frames and (frames := _as_frames(text)) is not None:
            return frames
        return self._known_chunk(text) or self.any_chunk(text)

    def _known_chunk(self, text: Text) -> Chunk | None:
        """Rarely tried where it never succeeds."""
        if self.pause:
            self.pause -= 1
            return None
        chunk = _as_known(text)
        self.pauses = 0 if chunk else min(2 * self.pauses + 1, LONGEST_PAUSE)
        self.pause = self.pauses
        self.in_frames = chunk is not None and chunk.known is not None and bool((chunk.known[-1:] == FRAME).all())
        return chunk

    def any_chunk(self, text: Text) -> Chunk:
        """Events as they are, their arguments as text."""
        try:
            while (chunk := self.ways[0](text)) is None:
                self.ways.pop(0)
            return chunk
        except (msgspec.ValidationError, OverflowError):
            return loose_chunk(msgspec.json.decode(text, type=list[msgspec.Raw]))


_events = msgspec.json.Decoder(list[Event])
_frames = msgspec.json.Decoder(list[Frame])
_whole_events = msgspec.json.Decoder(list[WholeEvent])
_exact_events = msgspec.json.Decoder(list[ExactEvent])


def _as_frames(text: Text) -> Chunk | None:
    """None where one of the events is none, or has no usable times."""
    try:
        events = _frames.decode(text)
    except msgspec.ValidationError:
        return None
    times_ns = _times_ns(events)
    return None if times_ns is None or times_ns[1].min(initial=0) < 0 else Chunk(events, *times_ns, frames=True)


def _as_known(text: Text) -> Chunk | None:
    """None where one of the events is of none of the known categories, or a float is too coarse for one of the times."""
    decoded = known.decoded(text)
    times_ns = None if decoded is None else _times_ns(decoded[0])
    if decoded is None or times_ns is None:
        return None
    return Chunk(decoded[0], *times_ns, known=decoded[1])


def _times_ns(events: Sequence[Any]) -> tuple[Ints, Ints] | None:
    """None where a float is too coarse for one of the times."""
    times = _times(events)
    if np.abs(times).max(initial=0) >= FLOAT_IS_EXACT_US:
        return None
    times_ns = np.rint(times * 1000).astype(np.int64)
    return times_ns[0], times_ns[1]


def _as_floats(text: Text) -> Chunk | None:
    """None where a float is too coarse for one of the times."""
    events = _events.decode(text)
    times = _times(events)
    largest = np.abs(times).max(initial=0)
    if largest < FLOAT_IS_EXACT_US:
        return _chunk(events, np.rint(times * 1000).astype(np.int64))
    if not np.isnan(largest):
        return None
    missing = np.isnan(times)
    times = np.where(missing, 0, times)
    if np.abs(times).max() >= FLOAT_IS_EXACT_US:
        return None
    return _chunk(events, np.where(missing, MISSING, np.rint(times * 1000).astype(np.int64)))


def _times(events: Sequence[Any]) -> Any:
    """Starts and durations, microseconds."""
    times = np.empty((2, len(events)))
    times[0] = np.fromiter([e.ts for e in events], np.float64, len(events))
    times[1] = np.fromiter([e.dur for e in events], np.float64, len(events))
    return times


def _as_whole_numbers(text: Text) -> Chunk | None:
    """None where a time is no whole number, or none at all: then each is read by itself."""
    try:
        events = _whole_events.decode(text)
        start = np.fromiter([e.ts for e in events], np.int64, len(events))
        duration = np.fromiter([e.dur for e in events], np.int64, len(events))
    except (msgspec.ValidationError, OverflowError):
        return None
    for times in (start, duration):
        given = times[times != MISSING]
        if len(given) and (given.min() <= -LATEST_US or given.max() >= LATEST_US):
            return None
    times = np.array([start, duration])
    return _chunk(events, np.where(times == MISSING, MISSING, times * 1000))


def _chunk(events: Sequence[Event], times_ns: Any) -> Chunk:
    return Chunk(events, times_ns[0], times_ns[1])


def _as_text(text: Text) -> Chunk:
    return _exactly_timed(_exact_events.decode(text))


def _exactly_timed(events: Sequence[ExactEvent], malformed: int = 0) -> Chunk:
    quoted = sum(bytes(e.ts)[:1] == b'"' or bytes(e.dur)[:1] == b'"' for e in events)
    start = np.fromiter([nanoseconds(e.ts) for e in events], np.int64, len(events))
    duration = np.fromiter([nanoseconds(e.dur) for e in events], np.int64, len(events))
    return Chunk(events, start, duration, quoted, malformed)


def nanoseconds(text: Any) -> int:
    """Microseconds as JSON wrote them, also in quotes -> nanoseconds; MISSING for what is no time."""
    raw = bytes(text)
    try:
        microseconds = int(raw)
        return microseconds * 1000 if abs(microseconds) < LATEST_US else MISSING
    except ValueError:
        pass
    try:
        exact = Decimal(raw.decode("ascii").strip('"'))
    except (InvalidOperation, UnicodeDecodeError):
        return MISSING
    return round(exact * 1000) if exact.is_finite() and abs(exact) < LATEST_US else MISSING


def loose_chunk(texts: Sequence[msgspec.Raw | bytes]) -> Chunk:
    """Events of any types, each alone."""
    events = [event for text in texts if (event := _loose_event(text)) is not None]
    return _exactly_timed(events, malformed=len(texts) - len(events))


def _loose_event(text: msgspec.Raw | bytes) -> ExactEvent | None:
    """None for what is no object."""
    try:
        event = msgspec.json.decode(text, type=LooseEvent)
    except msgspec.ValidationError:
        return None
    return ExactEvent(
        ph=event.ph if isinstance(event.ph, str) else "",
        cat=None if event.cat is None else str(event.cat),
        name=None if event.name is None else str(event.name),
        pid=_identifier(event.pid),
        tid=_identifier(event.tid),
        ts=event.ts,  # type: ignore[arg-type]
        dur=event.dur,  # type: ignore[arg-type]
        args=event.args,
        id=_identifier(event.id),
    )


def _identifier(value: Any) -> int | str | None:
    return value if value is None or isinstance(value, int | str) else str(value)


def is_json(text: bytes) -> bool:
    """Whether all of it is one valid value."""
    try:
        msgspec.json.decode(text)
        return True
    except NOT_JSON:
        return False
