"""Bundle folder or chrome trace file -> Trace."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..capture.bundle import BundleFile, Manifest, is_bundle, read_manifest, verified
from ..capture.errors import BundleError
from . import trace as t
from .decode import Args, Event, EventFile, decoded, inflated

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
ZERO_TIME_MARGIN_NS = 10**9  # device work at time 0 in a recording that starts a second later has no time of its own


def load(path: Path | str) -> t.Trace:
    """Read a bundle or a chrome trace (.json, .json.gz) that torch.profiler wrote.

    Raises BundleError, with one sentence, for anything else: missing, empty, cut off, not a trace.
    """
    path = Path(path)
    if path.is_dir():
        return _load_bundle(path)
    return _load_file(path, path, None)


def _load_bundle(folder: Path) -> t.Trace:
    if not is_bundle(folder):
        raise BundleError(f"{folder} is a folder without a manifest.json, so it is no bundle; name a bundle or a trace file.")
    manifest = read_manifest(folder)
    if len(manifest.ranks) != 1:
        raise BundleError(
            f"{folder} holds {len(manifest.ranks)} ranks and this version reads one; name the trace file of one rank."
        )
    return _load_file(folder, verified(folder, manifest.ranks[0].trace), manifest)


def _load_file(given: Path, path: Path, manifest: Manifest | None) -> t.Trace:
    content = _read(path)
    file = decoded(path, inflated(path, content))
    source = _source(given, file, t.SourceFile(str(path), hashlib.sha256(content).hexdigest()))
    return _Reader(file).trace(path, source, manifest)


def load_snapshot(folder: Path, file: BundleFile) -> dict[str, Any]:
    """A key_averages snapshot of a bundle, as plain JSON."""
    path = verified(folder, file)
    try:
        return json.loads(path.read_bytes())
    except ValueError as damage:
        raise BundleError(f"{path} is not valid JSON ({damage}); capture again.") from damage


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as missing:
        raise BundleError(f"{path} does not exist; check the path.") from missing
    except OSError as problem:
        raise BundleError(f"{path} cannot be read: {problem.strerror or problem}.") from problem
    if not content:
        raise BundleError(f"{path} is empty; the capture did not finish writing it, capture again.")
    return content


def _source(given: Path, file: EventFile, read: t.SourceFile) -> t.Source:
    version = file.cuda or file.hip
    return t.Source(
        path=str(given),
        files=(read,),
        producer="PyTorch Profiler" if file.schema is not None else "unknown",
        rank=file.distributed.get("rank"),
        world_size=file.distributed.get("world_size"),
        devices=tuple(str(d.get("name", "unknown")) for d in file.devices),
        runtime=None if version is None else _runtime_version(version, rocm=file.cuda is None),
        with_shapes=bool(file.record_shapes),
        with_stacks=bool(file.with_stack),
        with_memory=bool(file.profile_memory),
    )


def _runtime_version(number: int, rocm: bool) -> str:
    """CUDA writes 12040 for 12.4; HIP writes 60342133 for 6.3.42133."""
    return f"ROCm {number // 10**7}.{number // 10**5 % 100}" if rocm else f"CUDA {number // 1000}.{number % 1000 // 10}"


class _Intern:
    """Values -> row numbers, in order of first use."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.rows.setdefault(value, len(self.rows))


class _Reader:
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
        for event in self.file.events:
            self._sort_in(event)
        self._set_zero_times_aside()
        host, device, marks = self._host(), self._device("device"), self._device("marks")
        memory = self._allocations()
        timed = host[host.category != t.OVERHEAD]
        if not len(timed) + len(device):
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
            origin_ns=(self.file.base_ns or 0) + first,
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
            warnings=self._warnings(),
        )

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
            finished=np.fromiter((a.finished for a in args), bool),
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
            size_bytes=_ints(a.allocated_bytes or 0 for a in args),
            device_type=_ints(_number(a.device_type) for a in args),
            device=_ints(_number(a.device_id) for a in args),
        )

    def _warnings(self) -> tuple[t.TraceWarning, ...]:
        return tuple(
            t.TraceWarning(code, count, TROUBLE[code].format(count)) for code, count in sorted(self.dropped.items()) if count
        )


TROUBLE = {
    "missing_dur": "{} events have no duration and are left out.",
    "negative_dur": "{} events have a negative duration and are left out.",
    "missing_ts": "{} events have no start time and are left out.",
    "zero_timestamp_events": "{} device events carry no time (0) and are left out.",
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
    if event.ts is None or not event.ts.is_finite():
        return "missing_ts"
    if instant:
        return None
    if event.dur is None or not event.dur.is_finite():
        return "missing_dur"
    return "negative_dur" if event.dur < 0 else None


def _columns(kept: list[tuple[int, Event]]) -> tuple[list[int], list[Event], list[Args]]:
    nothing = Args()
    return [code for code, _ in kept], [event for _, event in kept], [event.args or nothing for _, event in kept]


def _ints(values: Iterable[int]) -> t.Ints:
    return np.fromiter(values, np.int64)


def _ns(microseconds: Decimal | None) -> int:
    return round((microseconds or 0) * 1000)


def _or(*values: int | str | None) -> int | str:
    return next((value for value in values if value is not None), -1)


def _device_of(event: Event) -> int:
    return _number(_or(event.args.device if event.args else None, event.pid))


def _number(value: int | str | None) -> int:
    """`7`, `"7"`, `"stream 7"` -> 7; anything else -> -1."""
    if isinstance(value, int):
        return value
    digits = str(value).rsplit(" ", 1)[-1]
    return int(digits) if digits.isdecimal() else -1


def _name(event: Event) -> str:
    return str(event.name) if event.name is not None else "(no name)"


_Ranges = TypeVar("_Ranges", t.HostRanges, t.DeviceRanges)


def _shifted(table: _Ranges, first: int) -> _Ranges:
    return replace(table, start_ns=table.start_ns - first, end_ns=table.end_ns - first)


def printed_shapes(raw: bytes) -> str:
    """`Input Dims` of the file -> input_shapes of key_averages(), which prints a list of tensors as []."""
    dims = json.loads(raw)
    return str([[] if any(isinstance(size, list) for size in dim) else dim for dim in dims])
