"""Which operators ran, how often and for how long? As in torch's key_averages(), recomputed from the trace.

The rules are those of torch.autograd.profiler_util (torch 2.13), in integer nanoseconds. Two of its habits are left out on
purpose: Python frames take no self time from operators (torch 2.12 and newer let them when stacks are recorded), and a runtime
call whose own number happens to equal an operator's id does not receive that operator's kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..averages import KEYS, by_shape, torch_rows, torch_version
from ..callstack import tree_sum
from ..forms import form, withheld
from ..grouping import first_rows, group_sums
from ..intervals import outer_first
from ..op_events import OpEvents, carriers, collision_ns, collisions, kernel_ns, op_events
from ..trace import Ids, Ints, Mask, Trace

WITHOUT_FRAMES = (t.OP, t.ANNOTATION, t.RUNTIME, t.OVERHEAD)
WITH_FRAMES = (*WITHOUT_FRAMES, t.PYTHON)
STEP_NAME = "ProfilerStep*"
SUMS = [
    "count", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns",
    "self_cpu_bytes", "cpu_bytes", "self_device_bytes", "device_bytes", "torch_extra_ns",
]  # fmt: skip
TORCH_FLOATS = ["self_cpu_torch_us", "cpu_torch_us"]
FIRST = ["first_start_ns", "first_end_ns"]  # of a row: by them the rows are ordered


@dataclass(frozen=True, eq=False)
class OpTable:
    """`rows`: one per (name, device_type, is_user_annotation), in the order of first start.

    Columns: name; device_type ("CPU" or "CUDA"); is_user_annotation; input_shapes ("" or, by shape, the list as torch prints it);
    count; self_cpu_ns, cpu_ns (sum of durations; a recursive op counts at every level); self_device_ns, device_ns (kernels
    launched by the op itself; by it or the ops inside it; on a device row the duration); the same four for memory in bytes,
    allocations minus releases; self_cpu_torch_us, cpu_torch_us: the same times with torch's own rounding errors, for printing;
    torch_extra_ns: what torch's device_ns has too much by a collision of ids.
    `has_device`, `has_memory`: whether the recording has such events at all.
    """

    rows: pd.DataFrame
    self_cpu_ns: int  # sum over all rows and threads; can exceed the wall time
    self_device_ns: int  # sum over device rows that are not annotations
    has_device: bool
    has_memory: bool
    inflated_by_torch: dict[str, int]  # runtime calls to which torch gives an operator's kernels, by number alone: ns too much
    moved_by_torch_ns: int  # and the time of that operator's own runtime calls, which torch then counts elsewhere
    from_snapshot: bool = False  # the numbers are torch's own, of a key_averages snapshot
    torch: str | None = None  # the torch that made the snapshot, where it says so

    @property
    def steps_count(self) -> int | None:
        """How many steps the profiler marked; None where it marked none."""
        return int(self._steps["count"].sum()) or None

    @property
    def step_ns(self) -> float | None:
        """Mean step on the host."""
        return None if self.steps_count is None else float(self._steps["cpu_ns"].sum()) / self.steps_count

    @property
    def by_shape(self) -> bool:
        return bool((self.rows["input_shapes"] != "").any())

    @property
    def calls_count(self) -> int:
        """Of all rows on the host, the steps themselves apart."""
        on_host = (self.rows["device_type"] == "CPU") & (self.rows["name"] != STEP_NAME)
        return int(self.rows.loc[on_host, "count"].sum())

    @property
    def kernels(self) -> pd.DataFrame:
        """The rows of device work."""
        return self.rows[(self.rows["device_type"] != "CPU") & ~self.rows["is_user_annotation"]]

    @property
    def _steps(self) -> pd.DataFrame:
        return self.rows[(self.rows["name"] == STEP_NAME) & (self.rows["device_type"] == "CPU")]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Names and shapes as text, and the row in them of each row of Trace.names and Trace.shapes; the last shape is that of
    events without any.
    """

    names: np.ndarray
    shapes: np.ndarray
    name_of: Ids
    shape_of: Ids

    def codes(self, name: Ids, is_annotation: Mask, shape: "Ids | int") -> Ints:
        """One number for what events are grouped by; `name` and `shape`: rows of the trace's own."""
        return (self.name_of[name].astype(np.int64) * 2 + is_annotation) * len(self.shapes) + self.shape_of[shape]

    def keys(self, code: Ints, device_type: str) -> dict[str, Any]:
        """The columns of KEYS for such numbers."""
        name, is_annotation, shape = np.unravel_index(code, (len(self.names), 2, len(self.shapes)))
        return dict(zip(KEYS, (self.names[name], device_type, is_annotation == 1, self.shapes[shape]), strict=True))


def op_table(trace: Trace) -> OpTable:
    """Rows by name, as `key_averages()`; of a snapshot alone its own rows, by shape where it is grouped so."""
    if trace.snapshot is not None:
        return _of_snapshot(trace.snapshot)
    _refuse_other_tools(trace)
    return _table(trace, WITHOUT_FRAMES, _by_name(trace))


def op_table_with_frames(trace: Trace) -> OpTable:
    """Rows by name with Python frames among them, which take self time from operators: as torch 2.12 and 2.13 with stacks."""
    return _table(trace, WITH_FRAMES, _by_name(trace))


def op_table_by_shape(trace: Trace) -> OpTable:
    """Rows by name and input shapes, as `key_averages(group_by_input_shape=True)`; MissingData without shapes."""
    if trace.snapshot is not None:
        if not by_shape(trace.snapshot):
            raise MissingData("The snapshot is not grouped by input shape; take key_averages(group_by_input_shape=True).")
        return _of_snapshot(trace.snapshot)
    _refuse_other_tools(trace)
    if not trace.shapes:
        raise MissingData("The trace holds no input shapes; capture with shapes on (record_shapes=True).")
    shape_of, shapes = pd.factorize(np.array([*trace.shapes, "[]"], object))
    return _table(trace, WITHOUT_FRAMES, replace(_by_name(trace), shapes=shapes, shape_of=shape_of))


def _of_snapshot(snapshot: Mapping[str, Any]) -> OpTable:
    rows = torch_rows(snapshot)
    if rows.empty:
        raise MissingData("The snapshot has no rows; take key_averages() after the profiler has stopped.")
    on_device = (rows["device_type"] != "CPU") & ~rows["is_user_annotation"]
    return OpTable(
        rows=rows,
        self_cpu_ns=int(rows["self_cpu_ns"].sum()),
        self_device_ns=int(rows.loc[on_device, "self_device_ns"].sum()),
        has_device=bool(on_device.any() or rows["device_ns"].any()),
        has_memory=bool(rows[["cpu_bytes", "self_cpu_bytes", "device_bytes", "self_device_bytes"]].to_numpy().any()),
        inflated_by_torch={},
        moved_by_torch_ns=0,
        from_snapshot=True,
        torch=torch_version(snapshot),
    )


def _refuse_other_tools(trace: Trace) -> None:
    if form(trace) == "ranges":
        raise MissingData(withheld(trace))


def _by_name(trace: Trace) -> _Labels:
    """Every ProfilerStep#N is one name, and all shapes are one."""
    shown = [STEP_NAME if name.startswith("ProfilerStep#") else name for name in trace.names]
    name_of, names = pd.factorize(np.array(shown, object))
    return _Labels(names, np.array([""], object), name_of, np.zeros(len(trace.shapes) + 1, np.int64))


def _table(trace: Trace, categories: tuple[int, ...], labels: _Labels) -> OpTable:
    parts = [_host_rows(trace, categories, labels), _device_rows(trace, labels), _unclaimed_allocations(trace, labels)]
    if not any(map(len, parts)):
        raise MissingData("The trace holds no operators; capture with CPU activity on.")
    rows = pd.concat([part for part in parts if len(part)], ignore_index=True)
    rows = rows.iloc[outer_first(*(rows[column].to_numpy() for column in FIRST))]
    rows = rows.groupby(KEYS, sort=False)[[*SUMS, *TORCH_FLOATS]].sum().reset_index()
    inflated, moved_ns = collisions(trace)
    on_device = (rows["device_type"] != "CPU") & ~rows["is_user_annotation"]
    return OpTable(
        rows=rows,
        self_cpu_ns=int(rows["self_cpu_ns"].sum()),
        self_device_ns=int(rows.loc[on_device, "self_device_ns"].sum()),
        has_device=bool(len(trace.device)),
        has_memory=trace.source.with_memory or bool(len(trace.allocations)),
        inflated_by_torch=inflated,
        moved_by_torch_ns=moved_ns,
    )


def _rows(keys: Mapping[str, Any], start: Ints, end: Ints, sums: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each key; start and end are those of its first event, sums that are not given are 0."""
    zeros = {**dict.fromkeys(SUMS, 0), **dict.fromkeys(TORCH_FLOATS, 0.0)}
    return pd.DataFrame({**keys, **dict(zip(FIRST, (start, end), strict=True)), **zeros, **sums})


@dataclass(frozen=True, eq=False)
class _Groups:
    """The group of each event and of the event around it, numbered in the order of first start; -1 for none."""

    group: Ids
    around: Ids
    code: Ints  # of each group, from _Labels

    def sums(self, value: Ints) -> Ints:
        return group_sums(self.group, value, len(self.code))

    def own(self, value: Ints) -> Ints:
        """Sums of what the events have and their direct children do not."""
        return self.sums(value) - group_sums(self.around, value, len(self.code))

    def float_sums(self, value: np.ndarray) -> np.ndarray:
        """Added one by one, as torch does."""
        return np.bincount(self.group + 1, weights=value, minlength=len(self.code) + 1)[1:]


def _host_rows(trace: Trace, categories: tuple[int, ...], labels: _Labels) -> pd.DataFrame:
    events = op_events(trace, categories, labels.name_of)
    groups = _groups(trace, events, labels)
    first = first_rows(groups.group)
    sums = {
        **_times(events, groups),
        **_device_times(trace, events, groups),
        **_memory(trace, events, groups),
        **_torch_times(trace, events, groups),
    }
    return _rows(labels.keys(groups.code, "CPU"), events.start_ns[first], events.end_ns[first], sums)


def _groups(trace: Trace, events: OpEvents, labels: _Labels) -> _Groups:
    host, kept = trace.host, events.row[events.kept]
    group = np.full(len(events), -1, np.int32)
    group[events.kept], code = pd.factorize(labels.codes(host.name[kept], host.category[kept] == t.ANNOTATION, host.shapes[kept]))
    return _Groups(group, np.where(events.inside >= 0, group[events.inside], np.int32(-1)), code)


def _times(events: OpEvents, groups: _Groups) -> dict[str, Any]:
    duration = events.end_ns - events.start_ns
    return {
        "count": groups.sums(np.ones(len(events), np.int64)),
        "cpu_ns": groups.sums(duration),
        "self_cpu_ns": groups.own(np.where(events.synchronous, duration, 0)),
    }


def _device_times(trace: Trace, events: OpEvents, groups: _Groups) -> dict[str, Any]:
    if not len(trace.device):
        return {}
    owners = carriers(trace.host, events.row)
    launched_ns = np.where(events.synchronous, kernel_ns(trace, owners, len(events)), 0)[events.stands_for]
    sums = {"self_device_ns": groups.sums(launched_ns), "device_ns": groups.sums(_with_inner(events, launched_ns))}
    del launched_ns  # a column of all events
    extra_ns = np.where(events.synchronous, collision_ns(trace, events.row, owners), 0)
    return {**sums, "torch_extra_ns": groups.sums(_with_inner(events, extra_ns))}


def _with_inner(events: OpEvents, value: Ints) -> Ints:
    return tree_sum(events.inside, np.where(events.kept, value, 0))


def _memory(trace: Trace, events: OpEvents, groups: _Groups) -> dict[str, Any]:
    sums = {}
    for kind in ("cpu", "device") if len(trace.allocations) else ():
        size = _allocated(trace, events, kind)
        sums |= {f"self_{kind}_bytes": groups.own(size), f"{kind}_bytes": groups.sums(size)}
    return sums


def _torch_times(trace: Trace, events: OpEvents, groups: _Groups) -> dict[str, Any]:
    """Durations as torch has them: float microseconds since the profiler's start, end minus start.

    Their errors are some 1e-12; they decide only how a figure that ends in exactly half a digit is printed.
    """
    zero = trace.profiler_start_ns or 0
    whole = (events.end_ns - zero) / 1000 - (events.start_ns - zero) / 1000
    own = whole - np.bincount(events.inside + 1, weights=whole, minlength=len(events) + 1)[1:]
    own[~events.synchronous] = 0
    return {"self_cpu_torch_us": groups.float_sums(own), "cpu_torch_us": groups.float_sums(whole)}


def _allocated(trace: Trace, events: OpEvents, kind: str) -> Ints:
    """Bytes allocated minus released while each range was open, on any thread, as torch counts them."""
    memory = trace.allocations[_of_kind(trace.allocations, kind)]
    memory = memory[np.argsort(memory.time_ns, kind="stable")]
    until = np.concatenate(([0], np.cumsum(memory.size_bytes)))
    first = np.searchsorted(memory.time_ns, events.start_ns, side="left")
    last = np.searchsorted(memory.time_ns, events.end_ns, side="right")
    return until[last] - until[first]


def _of_kind(memory: t.Allocations, kind: str) -> Mask:
    return (memory.device_type == 0) if kind == "cpu" else (memory.device_type > 0)


def _device_rows(trace: Trace, labels: _Labels) -> pd.DataFrame:
    parts = (trace.device, trace.device_marks)
    start, end = (np.concatenate([getattr(part, column) for part in parts]) for column in ("start_ns", "end_ns"))
    code = np.concatenate([labels.codes(part.name, part.category == t.MARK, -1) for part in parts])
    order = outer_first(start, end)
    start, end = start[order], end[order]
    group, codes = pd.factorize(code[order])
    first, device_ns = first_rows(group), group_sums(group, end - start, len(codes))
    sums = {"count": np.bincount(group, minlength=len(codes)), "self_device_ns": device_ns, "device_ns": device_ns}
    return _rows(labels.keys(codes, "CUDA"), start[first], end[first], sums)


def _unclaimed_allocations(trace: Trace, labels: _Labels) -> pd.DataFrame:
    """Allocations made while no range was open: a row of their own, named [memory]."""
    memory = trace.allocations[_while_nothing_is_open(trace, trace.allocations.time_ns)]
    if not len(memory):
        return pd.DataFrame()
    sums = {"count": len(memory)}
    for kind in ("cpu", "device"):
        sums[f"self_{kind}_bytes"] = sums[f"{kind}_bytes"] = int(memory.size_bytes[_of_kind(memory, kind)].sum())
    first = memory.time_ns.min(keepdims=True)
    keys = dict(zip(KEYS, ("[memory]", "CPU", False, labels.shapes[labels.shape_of[-1]]), strict=True))
    return _rows(keys, first, first, sums)


def _while_nothing_is_open(trace: Trace, moment: Ints) -> Mask:
    """Python frames count for nothing."""
    if not len(moment):
        return np.zeros(0, bool)
    ranges = trace.host.category != t.PYTHON
    opened = np.searchsorted(np.sort(trace.host.start_ns[ranges]), moment, side="right")
    return opened == np.searchsorted(np.sort(trace.host.end_ns[ranges]), moment, side="left")
