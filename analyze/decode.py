"""Bytes of a chrome trace -> typed events; the one place that knows JSON and gzip."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

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


class EventFile(msgspec.Struct, gc=False):
    events: list[Event] = msgspec.field(name="traceEvents")
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    schema: int | None = msgspec.field(name="schemaVersion", default=None)
    devices: list[dict[str, Any]] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: dict[str, Any] = msgspec.field(name="distributedInfo", default_factory=dict)
    cuda: int | None = msgspec.field(name="cuda_runtime_version", default=None)
    hip: int | None = msgspec.field(name="hip_runtime_version", default=None)
    record_shapes: int = 0
    with_stack: int = 0
    profile_memory: int = 0


def inflated(path: Path, content: bytes) -> bytes:
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return igzip.decompress(content)
    except (EOFError, OSError, IsalError) as damage:  # pyright: ignore[reportGeneralTypeIssues]
        raise BundleError(f"{path} is a damaged gzip file ({damage}); copy it again or capture again.") from damage


def decoded(path: Path, text: bytes) -> EventFile:
    try:
        if text.lstrip()[:1] == b"[":
            return EventFile(msgspec.json.decode(text, type=list[Event]))
        return msgspec.json.decode(text, type=EventFile)
    except msgspec.ValidationError as problem:
        raise BundleError(
            f"{path} is not a trace that torch.profiler wrote ({problem}); name a chrome trace or a bundle."
        ) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError) as problem:
        raise BundleError(
            f"{path} is not valid JSON ({problem}); it may be cut off or badly escaped, capture again."
        ) from problem
