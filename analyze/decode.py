"""Bytes of a chrome trace -> typed events; the one place that knows JSON and gzip."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from isal import igzip
from isal.igzip_lib import IsalError

from ..capture.errors import BundleError

GZIP_MAGIC = b"\x1f\x8b"


class Args(msgspec.Struct, gc=False):
    """Any where torch writes an integer: other producers write "7" or "stream 7", and one odd value must not lose the file."""

    external_id: Any = msgspec.field(name="External id", default=None)
    old_external_id: Any = msgspec.field(name="external id", default=None)
    correlation: Any = None
    device: Any = None
    stream: Any = None
    size_bytes: Any = msgspec.field(name="bytes", default=None)
    sequence: Any = msgspec.field(name="Sequence number", default=None)
    forward_thread: Any = msgspec.field(name="Fwd thread id", default=None)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default_factory=msgspec.Raw)
    finished: Any = True
    allocated_bytes: Any = msgspec.field(name="Bytes", default=None)
    device_type: Any = msgspec.field(name="Device Type", default=None)
    device_id: Any = msgspec.field(name="Device Id", default=None)


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str | int | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Decimal | None = None  # exact: as a float, an absolute time in microseconds loses nanoseconds
    dur: Decimal | None = None
    args: Args | None = None


class Header(msgspec.Struct, gc=False):
    """What stands beside the events; as in Args, one odd value must not lose the file."""

    base_ns: Any = msgspec.field(name="baseTimeNanoseconds", default=None)
    schema: Any = msgspec.field(name="schemaVersion", default=None)
    devices: Any = msgspec.field(name="deviceProperties", default=None)
    distributed: Any = msgspec.field(name="distributedInfo", default=None)
    cuda: Any = msgspec.field(name="cuda_runtime_version", default=None)
    hip: Any = msgspec.field(name="hip_runtime_version", default=None)
    record_shapes: Any = 0
    with_stack: Any = 0
    profile_memory: Any = 0


class _TypedFile(Header, gc=False, kw_only=True):
    events: list[Event] = msgspec.field(name="traceEvents")


class _RawFile(Header, gc=False, kw_only=True):
    events: list[msgspec.Raw] = msgspec.field(name="traceEvents")


class EventFile(NamedTuple):
    """A decoded file; `malformed`: events that are no events at all, and were left out."""

    header: Header
    events: list[Event]
    malformed: int = 0


def inflated(path: Path, content: bytes) -> bytes:
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return igzip.decompress(content)
    except (EOFError, OSError, IsalError) as damage:  # pyright: ignore[reportGeneralTypeIssues]
        raise BundleError(f"{path} is a damaged gzip file ({damage}); copy it again or capture again.") from damage


def decoded(path: Path, text: bytes) -> EventFile:
    if text.lstrip()[:1] not in (b"{", b"["):
        raise BundleError(f"{path} is not a trace (it holds no JSON); name a chrome trace or a bundle.")
    try:
        return _decoded(text)
    except msgspec.ValidationError as problem:
        raise BundleError(
            f"{path} is not a trace that torch.profiler wrote ({problem}); name a chrome trace or a bundle."
        ) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError) as problem:
        raise BundleError(
            f"{path} is not valid JSON ({problem}); it may be cut off or badly escaped, capture again."
        ) from problem


def _decoded(text: bytes) -> EventFile:
    """All events at once; where one of them is not of an event's shape, each alone."""
    bare_list = text.lstrip()[:1] == b"["
    try:
        if bare_list:
            return EventFile(Header(), msgspec.json.decode(text, type=list[Event]))
        file = msgspec.json.decode(text, type=_TypedFile)
        return EventFile(file, file.events)
    except msgspec.ValidationError:
        raw = None if bare_list else msgspec.json.decode(text, type=_RawFile)
        events = msgspec.json.decode(text, type=list[msgspec.Raw]) if raw is None else raw.events
        good = [event for event in map(_event, events) if event is not None]
        return EventFile(raw or Header(), good, malformed=len(events) - len(good))


def _event(text: msgspec.Raw) -> Event | None:
    try:
        return msgspec.json.decode(text, type=Event)
    except msgspec.ValidationError:
        return None
