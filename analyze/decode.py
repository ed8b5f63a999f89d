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
    external_id: int | str | None = msgspec.field(name="External id", default=None)
    old_external_id: int | str | None = msgspec.field(name="external id", default=None)
    correlation: int | str | None = None
    device: int | None = None
    stream: int | str | None = None
    size_bytes: int | str | None = msgspec.field(name="bytes", default=None)
    sequence: int | None = msgspec.field(name="Sequence number", default=None)
    forward_thread: int | None = msgspec.field(name="Fwd thread id", default=None)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default_factory=msgspec.Raw)
    finished: bool = True
    allocated_bytes: int | None = msgspec.field(name="Bytes", default=None)
    device_type: int | None = msgspec.field(name="Device Type", default=None)
    device_id: int | None = msgspec.field(name="Device Id", default=None)


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
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation) as problem:
        raise BundleError(
            f"{path} is not valid JSON ({problem}); it may be cut off or badly escaped, capture again."
        ) from problem
