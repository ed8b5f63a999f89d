"""Decoded events of one file -> the tables of a Trace: each event used, ignored or dropped, and counted."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..capture.bundle import Manifest
from ..capture.errors import BundleError
from . import trace as t
from .decode import Args, Event, EventFile

HOST_CATEGORIES = {
    "cpu_op": t.OP,
    "Operator": t.OP,
    "user_annotation": t.ANNOTATION,
    "python_function": t.PYTHON,
    "Runtime": t.RUNTIME,
    "overhead": t.OVERHEAD,
}  # and every category that ends in _runtime or _driver
DEVICE_CATEGORIES = {
    "kernel": t.KERNEL,
    "Kernel": t.KERNEL,
    "gpu_memcpy": t.MEMCPY,
    "Memcpy": t.MEMCPY,
    "gpu_memset": t.MEMSET,
    "Memset": t.MEMSET,
    "gpu_user_annotation": t.MARK,
    "cuda_sync": t.SYNC,
}
LATEST_US = 2**52  # in nanoseconds it still fits int64, and as a Unix time it is in the year 2112
ZERO_TIME_MARGIN_NS = 10**9  # device work at time 0 in a recording that starts a second later has no time of its own


class _Intern:
    """Values -> row numbers, in order of first use."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.rows.setdefault(value, len(self.rows))


class Reader:
    """The decoded events of one file -> the tables of a Trace."""

    def __init__(self, file: EventFile) -> None:
        self.file = file
        self.names, self.threads, self.shapes = _Intern(), _Intern(), _Intern()
        self.kept: dict[str, list[tuple[int, Event]]] = {"host": [], "device": [], "marks": [], "memory": []}
        self.by_category: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.untimed_kernels: Counter[int] = Counter()
        self.total = 0
        self.profiler_start: int | None = None

    def trace(self, path: Path, source: t.Source, manifest: Manifest | None) -> t.Trace:
        self.total = self.dropped["malformed_events"] = self.file.malformed
        for event in self.file.events:
            self._sort_in(event)
        self._set_zero_times_aside()
        host, device, marks = self._host(), self._device("device"), self._device("marks")
        memory = self._allocations()
        timed = host[host.category != t.OVERHEAD]
        if not (timed.end_ns > timed.start_ns).any() and not (device.end_ns > device.start_ns).any():
            raise BundleError(
                f"{path} holds no timed events of torch.profiler (of {self.total} events); were the active steps reached?"
            )
        first = min(int(table.start_ns.min()) for table in (timed, device) if len(table))
        last = max(int(table.end_ns.max()) for table in (timed, device) if len(table))
        dropped = sum(self.dropped.values())
        used = sum(len(kept) for kept in self.kept.values())
        return t.Trace(
            source=source,
            manifest=manifest,
            origin_ns=self._base_ns() + first,
            window_ns=last - first,
            profiler_start_ns=None if self.profiler_start is None else self.profiler_start - first,
            host=_shifted(host, first),
            device=_shifted(device, first),
            device_marks=_shifted(marks, first),
            allocations=t.Allocations(memory.time_ns - first, memory.size_bytes, memory.device_type, memory.device),
            names=tuple(self.names.rows),
            threads=tuple(self.threads.rows),
            shapes=tuple(printed_shapes(raw) for raw in self.shapes.rows),
            coverage=t.Coverage(self.total, used, self.total - used - dropped, dropped, self.by_category),
            untimed_kernels=self.untimed_kernels,
            untimed_work=self.dropped["zero_timestamp_events"],
            warnings=self._warnings(),
        )

    def _base_ns(self) -> int:
        base_ns = self.file.header.base_ns
        return base_ns if isinstance(base_ns, int) and 0 <= base_ns < LATEST_US * 1000 else 0

    def _sort_in(self, event: Event) -> None:
        if event == Event():  # the `{}` that some writers end the list with
            return
        self.total += 1
        category = event.cat or ""
        self.by_category[category or f"(phase {event.ph})"] += 1
        if category == "Trace" and event.ts is not None and str(event.name).startswith("PyTorch Profiler"):
            self.profiler_start = _ns(event.ts)
        kind = _kind(event, category)
        if kind is None:
            return
        table, code = kind
        trouble = _trouble(event, instant=table == "memory")
        if trouble:
            self.dropped[trouble] += 1
        else:
            self.kept[table].append((code, event))

    def _set_zero_times_aside(self) -> None:
        starts = [event.ts for _, event in self.kept["host"] if event.ts is not None]
        if not starts or _ns(min(starts)) < ZERO_TIME_MARGIN_NS:
            return
        untimed = [kept for kept in self.kept["device"] if not kept[1].ts]
        self.kept["device"] = [kept for kept in self.kept["device"] if kept[1].ts]
        self.dropped["zero_timestamp_events"] += len(untimed)
        self.untimed_kernels.update(_device_of(event) for code, event in untimed if code == t.KERNEL)

    def _host(self) -> t.HostRanges:
        codes, events, args = _columns(self.kept["host"])
        start = _ints(_ns(e.ts) for e in events)
        return t.HostRanges(
            start_ns=start,
            end_ns=start + _ints(_ns(e.dur) for e in events),
            name=_ints(self.names(_name(e)) for e in events),
            category=_ints(codes),
            thread=_ints(self.threads((str(e.pid), str(e.tid))) for e in events),
            external_id=_ints(_number(_or(a.external_id, a.old_external_id)) for a in args),
            correlation=_ints(_number(a.correlation) for a in args),
            sequence=_ints(_number(a.sequence) for a in args),
            forward_thread=_ints(_number(a.forward_thread) for a in args),
            shapes=_ints(self.shapes(bytes(a.shapes)) if a.shapes else -1 for a in args),
            finished=np.fromiter((a.finished is not False for a in args), bool),
        )

    def _device(self, table: str) -> t.DeviceRanges:
        codes, events, args = _columns(self.kept[table])
        start = _ints(_ns(e.ts) for e in events)
        return t.DeviceRanges(
            start_ns=start,
            end_ns=start + _ints(_ns(e.dur) for e in events),
            name=_ints(self.names(_name(e)) for e in events),
            category=_ints(codes),
            device=_ints(_device_of(e) for e in events),
            stream=_ints(_number(a.stream if a.stream is not None else e.tid) for a, e in zip(args, events, strict=True)),
            external_id=_ints(_number(_or(a.external_id, a.old_external_id)) for a in args),
            correlation=_ints(_number(a.correlation) for a in args),
            size_bytes=_ints(_number(a.size_bytes) for a in args),
        )

    def _allocations(self) -> t.Allocations:
        _, events, args = _columns(self.kept["memory"])
        return t.Allocations(
            time_ns=_ints(_ns(e.ts) for e in events),
            size_bytes=_ints(_number(_or(a.allocated_bytes, 0)) for a in args),
            device_type=_ints(_number(a.device_type) for a in args),
            device=_ints(_number(a.device_id) for a in args),
        )

    def _warnings(self) -> tuple[t.TraceWarning, ...]:
        return tuple(
            t.TraceWarning(code, count, TROUBLE[code].format(count)) for code, count in sorted(self.dropped.items()) if count
        )


TROUBLE = {
    "malformed_events": "Elements of the event list left out because they are no events: {}.",
    "missing_dur": "Events left out because they have no duration: {}.",
    "negative_dur": "Events left out because their duration is negative: {}.",
    "missing_ts": "Events left out because they have no start time: {}.",
    "zero_timestamp_events": "Device events left out because they carry no time (0): {}.",
}


def _kind(event: Event, category: str) -> tuple[str, int] | None:
    """The table an event belongs to and its category there; None for metadata, flows and unknown categories."""
    if event.ph == "i" and event.name == "[memory]":
        return "memory", 0
    if event.ph != "X":
        return None
    if event.name == "[memory]":  # torch's Python exporter writes the instants as ranges
        return "memory", 0
    if category in HOST_CATEGORIES:
        return "host", HOST_CATEGORIES[category]
    if category.endswith(("_runtime", "_driver")):
        return "host", t.RUNTIME
    if category in DEVICE_CATEGORIES:
        code = DEVICE_CATEGORIES[category]
        return ("device" if code in (t.KERNEL, t.MEMCPY, t.MEMSET) else "marks"), code
    return None


def _trouble(event: Event, instant: bool) -> str | None:
    if not _is_time(event.ts):
        return "missing_ts"
    if instant:
        return None
    if event.dur is None or not _is_time(event.dur):
        return "missing_dur"
    return "negative_dur" if event.dur < 0 else None


def _is_time(microseconds: Decimal | None) -> bool:
    return microseconds is not None and microseconds.is_finite() and abs(microseconds) < LATEST_US


def _columns(kept: list[tuple[int, Event]]) -> tuple[list[int], list[Event], list[Args]]:
    nothing = Args()
    return [code for code, _ in kept], [event for _, event in kept], [event.args or nothing for _, event in kept]


def _ints(values: Iterable[int]) -> t.Ints:
    return np.fromiter(values, np.int64)


def _ns(microseconds: Decimal | None) -> int:
    return round((microseconds or 0) * 1000)


def _or(*values: Any) -> Any:
    return next((value for value in values if value is not None), -1)


def _device_of(event: Event) -> int:
    return _number(_or(event.args.device if event.args else None, event.pid))


def _number(value: Any) -> int:
    """`7`, `"7"`, `"stream 7"` -> 7; anything else, and what does not fit int64 -> -1."""
    if not isinstance(value, int):
        digits = str(value).rsplit(" ", 1)[-1]
        value = int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else -1
    return value if -(2**63) <= value < 2**63 else -1


def _name(event: Event) -> str:
    return str(event.name) if event.name is not None else "(no name)"


_Ranges = TypeVar("_Ranges", t.HostRanges, t.DeviceRanges)


def _shifted(table: _Ranges, first: int) -> _Ranges:
    return replace(table, start_ns=table.start_ns - first, end_ns=table.end_ns - first)


def printed_shapes(raw: bytes) -> str:
    """`Input Dims` of the file -> input_shapes of key_averages(), which prints a list of tensors as []."""
    dims = json.loads(raw)
    return str([dim if _is_flat(dim) else [] for dim in dims]) if isinstance(dims, list) else "[]"


def _is_flat(dim: Any) -> bool:
    return isinstance(dim, list) and not any(isinstance(size, list) for size in dim)
