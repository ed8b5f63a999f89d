"""Trace: what `load` gives and every analysis reads; the columns of its tables with dtype, unit and meaning.

All times are int64 nanoseconds since `Trace.origin_ns`, the first start of the window. Ids that an event lacks are -1.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..capture.bundle import Manifest

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Ids = NDArray[np.signedinteger[Any]]  # as narrow as their values allow
Mask = NDArray[np.bool_]

OP, ANNOTATION, PYTHON, RUNTIME, OVERHEAD = range(5)  # HostRanges.category
KERNEL, MEMCPY, MEMSET, MARK, SYNC = range(5)  # DeviceRanges.category; MARK is a gpu_user_annotation
HOST_SLICE, DEVICE_SLICE, ASYNC_SLICE = range(3)  # Slices.kind


_AnyTable = TypeVar("_AnyTable", bound="Table")


class Table:
    """Columns of equal length, one row an event; indexing with a mask or row numbers gives a table of those rows."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def __getitem__(self, rows: Mask | Ids | slice) -> Self:
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})  # type: ignore[type-var, arg-type]


@dataclass(frozen=True, eq=False)
class HostRanges(Table):
    """Ranges on CPU threads, in the order of the file."""

    start_ns: Ints
    end_ns: Ints
    name: Ids  # row of Trace.names
    category: Ids  # OP, ANNOTATION, PYTHON (frames), RUNTIME (runtime and driver calls), OVERHEAD (of the profiler)
    thread: Ids  # row of Trace.threads
    external_id: Ids  # of an op or annotation its own; of a runtime call that of the op that made it
    correlation: Ids  # joins a runtime call with its device work
    sequence: Ids  # autograd sequence number, shared by a forward op and its backward op
    forward_thread: Ids  # torch's logical thread of the forward op; > 0 only on backward ops
    shapes: Ids  # row of Trace.shapes, -1 where shapes were not recorded
    finished: Mask  # False for a range that was still open when the profiler stopped


@dataclass(frozen=True, eq=False)
class DeviceRanges(Table):
    """Ranges on the streams of devices, in the order of the file."""

    start_ns: Ints
    end_ns: Ints
    name: Ids  # row of Trace.names
    category: Ids  # KERNEL, MEMCPY, MEMSET: device work; MARK, SYNC: rows that are not work
    device: Ids
    stream: Ids
    external_id: Ids  # the op that launched it
    correlation: Ids  # the runtime call that launched it
    size_bytes: Ints  # of copies and memsets, else -1


@dataclass(frozen=True, eq=False)
class Allocations(Table):
    """`[memory]` instants: one row an allocation (bytes > 0) or a release (bytes < 0)."""

    time_ns: Ints
    size_bytes: Ints
    device_type: Ids  # 0 CPU, 1 CUDA, as in c10::DeviceType
    device: Ids  # -1 for the CPU
    thread: Ids  # row of Trace.threads: who asked for it
    address: Ints  # an allocation and its release have the same one; -1 where not recorded
    total_bytes: Ints  # what the allocator of that device holds afterwards, by its own count; -1 where not recorded


@dataclass(frozen=True, eq=False)
class Arguments(Table):
    """What few events carry: one row an argument, in the order of the table it belongs to."""

    row: Ids  # of the table of host ranges, of device work or of the rows beside it
    key: Ids  # row of Trace.argument_keys
    value: Ids  # row of Trace.argument_values


@dataclass(frozen=True, eq=False)
class Slices(Table):
    """Ranges that another tool than torch.profiler wrote; a PyTorch trace has none."""

    start_ns: Ints
    end_ns: Ints
    name: Ids  # row of Trace.names
    kind: Ids  # HOST_SLICE, DEVICE_SLICE, ASYNC_SLICE (begins and ends anywhere: no part of a thread's stack)
    thread: Ids  # row of Trace.threads


def no_rows(table: type[_AnyTable]) -> _AnyTable:
    """A table of that type without rows."""
    return table(**{f.name: np.empty(0, bool if f.name == "finished" else np.int64) for f in fields(table)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class TraceWarning:
    """One kind of trouble in an input: a code for tools, how often, a sentence for people (what it is and what it cost)."""

    code: str
    count: int
    message: str
    harmless: bool = False  # nothing was lost or changed by it


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
    producer: str  # "PyTorch Profiler", "JAX/XLA", ...; "unknown" where nothing tells
    rank: int | None
    world_size: int | None
    devices: tuple[str, ...]  # names of the GPUs
    runtime: str | None  # "CUDA 12.4", "ROCm 6.2"
    with_shapes: bool
    with_stacks: bool
    with_memory: bool
    device_bytes: tuple[int, ...] = ()  # the memory of each of `devices`, 0 where not told
    capabilities: tuple[str, ...] = ()  # of each of `devices`: "8.0"; empty where not told. An AMD GPU's "9.0" is another scale
    rank_name: str = ""  # of a rank that a file holds beside others: what stands before its process ids ("TP01")


@dataclass(frozen=True)
class Coverage:
    """What became of the events of the file: used + repaired + ignored + dropped = total."""

    total: int
    used: int
    ignored: int  # metadata, flows, profiler spans, unknown categories
    dropped: int
    by_category: Mapping[str, int]
    repaired: int = 0  # used or ignored in the end, but not as they stood in the file
    health: Mapping[str, int] = field(default_factory=dict)  # codes of measures.md -> counts


@dataclass(frozen=True, eq=False)
class Excerpt:
    """What a Trace that was cut out of a longer recording knows of that."""

    steps: "pd.DataFrame"  # rows of marked_steps as in the recording, those of the excerpt
    of_count: int  # counted steps of the recording


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
    untimed: DeviceRanges = field(default_factory=lambda: no_rows(DeviceRanges))  # device work whose times cannot be used
    argument_keys: Sequence[str] = ()
    argument_values: Sequence[str] = ()  # JSON as it stood in the file
    host_arguments: Arguments = field(default_factory=lambda: no_rows(Arguments))
    device_arguments: Arguments = field(default_factory=lambda: no_rows(Arguments))
    mark_arguments: Arguments = field(default_factory=lambda: no_rows(Arguments))
    slices: Slices = field(default_factory=lambda: no_rows(Slices))
    averages: Mapping[str, Any] | None = None  # torch's key_averages() of the same run, from its bundle
    averages_by_shape: Mapping[str, Any] | None = None
    snapshot: Mapping[str, Any] | None = None  # torch's own averages, where they are all that was given
    whole_until_ns: int | None = None  # of a file that was cut off: host events after this time may be missing
    whole_steps: tuple[str, ...] | None = None  # and the names of the steps that lack nothing, on the host and on devices
    warnings: tuple[TraceWarning, ...] = field(default=())
    excerpt: Excerpt | None = None  # never of a file
    settled: bool = False  # whether statistics leave a first step out that takes far longer than the others
    peers: tuple["Trace", ...] = ()  # the other ranks of its run, where they were read with it

    @property
    def untimed_kernels(self) -> Counter[int]:
        """By device."""
        return Counter(self.untimed.device[self.untimed.category == KERNEL].tolist())
