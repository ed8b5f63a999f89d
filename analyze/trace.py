"""Trace: what `load` gives and every analysis reads; the columns of its tables with dtype, unit and meaning.

All times are int64 nanoseconds since `Trace.origin_ns`, the first start of the window. Ids that an event lacks are -1.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..capture.bundle import Manifest

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

OP, ANNOTATION, PYTHON, RUNTIME, OVERHEAD = range(5)  # HostRanges.category
KERNEL, MEMCPY, MEMSET, MARK, SYNC = range(5)  # DeviceRanges.category; MARK is a gpu_user_annotation


class Table:
    """Columns of equal length, one row an event; indexing with a mask or row numbers gives a table of those rows."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def __getitem__(self, rows: Mask | Ints) -> Self:
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})  # type: ignore[type-var, arg-type]


@dataclass(frozen=True, eq=False)
class HostRanges(Table):
    """Ranges on CPU threads, in the order of the file."""

    start_ns: Ints
    end_ns: Ints
    name: Ints  # row of Trace.names
    category: Ints  # OP, ANNOTATION, PYTHON (frames), RUNTIME (runtime and driver calls), OVERHEAD (of the profiler)
    thread: Ints  # row of Trace.threads
    external_id: Ints  # of an op or annotation its own; of a runtime call that of the op that made it
    correlation: Ints  # joins a runtime call with its device work
    sequence: Ints  # autograd sequence number, shared by a forward op and its backward op
    forward_thread: Ints  # torch's logical thread of the forward op; > 0 only on backward ops
    shapes: Ints  # row of Trace.shapes, -1 where shapes were not recorded
    finished: Mask  # False for a range that was still open when the profiler stopped


@dataclass(frozen=True, eq=False)
class DeviceRanges(Table):
    """Ranges on the streams of devices, in the order of the file."""

    start_ns: Ints
    end_ns: Ints
    name: Ints  # row of Trace.names
    category: Ints  # KERNEL, MEMCPY, MEMSET: device work; MARK, SYNC: rows that are not work
    device: Ints
    stream: Ints
    external_id: Ints  # the op that launched it
    correlation: Ints  # the runtime call that launched it
    size_bytes: Ints  # of copies and memsets, else -1


@dataclass(frozen=True, eq=False)
class Allocations(Table):
    """`[memory]` instants: one row an allocation (bytes > 0) or a release (bytes < 0)."""

    time_ns: Ints
    size_bytes: Ints
    device_type: Ints  # 0 CPU, 1 CUDA, as in c10::DeviceType
    device: Ints  # -1 for the CPU


@dataclass(frozen=True)
class TraceWarning:
    """One kind of trouble in an input: a code for tools, how often, a sentence for people."""

    code: str
    count: int
    message: str


@dataclass(frozen=True)
class SourceFile:
    """A file that was read: its path as given and its SHA-256."""

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """Base name; reports show no folders."""
        return self.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source:
    """Where a trace comes from, as its file says; None or empty where it says nothing."""

    path: str  # as the user gave it: a bundle or a file
    files: tuple[SourceFile, ...]
    producer: str  # "PyTorch Profiler", or "unknown"
    rank: int | None
    world_size: int | None
    devices: tuple[str, ...]  # names of the GPUs
    runtime: str | None  # "CUDA 12.4", "ROCm 6.2"
    with_shapes: bool
    with_stacks: bool
    with_memory: bool


@dataclass(frozen=True)
class Coverage:
    """What became of the events of the file: used + ignored + dropped = total."""

    total: int
    used: int
    ignored: int  # metadata, flows, profiler spans, unknown categories
    dropped: int
    by_category: Counter[str]


@dataclass(frozen=True, eq=False)
class Trace:
    """One rank's recording."""

    source: Source
    manifest: Manifest | None
    origin_ns: int  # absolute time of the first start of the window (Unix epoch, where the file has one)
    window_ns: int  # first start to last end over host ranges (overhead apart) and device work
    profiler_start_ns: int | None  # when the profiler itself started: what torch measures time from
    host: HostRanges
    device: DeviceRanges  # device work: kernels, copies, memsets
    device_marks: DeviceRanges  # gpu_user_annotation and cuda_sync rows: not work
    allocations: Allocations
    names: Sequence[str]
    threads: Sequence[tuple[str, str]]  # (process id, thread id) as in the file
    shapes: Sequence[str]  # as key_averages() prints them: a TensorList is []
    coverage: Coverage
    untimed_kernels: Counter[int] = field(default_factory=Counter)  # by device: kernels at time 0, in no table
    untimed_work: int = 0  # device events at time 0, kernels among them
    warnings: tuple[TraceWarning, ...] = field(default=())
