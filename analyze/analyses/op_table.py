"""Which operators ran, how often and for how long? As in torch's key_averages(), recomputed from the trace.

The rules are those of torch.autograd.profiler_util (torch 2.13), in integer nanoseconds. Two of its habits are left out on
purpose: Python frames take no self time from operators (torch 2.12 and newer let them when stacks are recorded), and a runtime
call whose own number happens to equal an operator's id does not receive that operator's kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..averages import KEYS, by_shape, torch_rows, torch_version
from ..callstack import children_sum, parents, tree_sum, without_duplicates
from ..forms import form, withheld
from ..trace import Ints, Mask, Trace

SKIPPED = {
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}  # torch.autograd.profiler_util._filter_name
WITHOUT_FRAMES = (t.OP, t.ANNOTATION, t.RUNTIME, t.OVERHEAD)
WITH_FRAMES = (*WITHOUT_FRAMES, t.PYTHON)
STEP_NAME = "ProfilerStep*"
SUMS = [
    "count", "self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns",
    "self_cpu_bytes", "cpu_bytes", "self_device_bytes", "device_bytes", "torch_extra_ns",
]  # fmt: skip
TORCH_FLOATS = ["self_cpu_torch_us", "cpu_torch_us"]


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


def op_table(trace: Trace) -> OpTable:
    """Rows by name, as `key_averages()`; of a snapshot alone its own rows, by shape where it is grouped so."""
    if trace.snapshot is not None:
        return _of_snapshot(trace.snapshot)
    _refuse_other_tools(trace)
    return _grouped(trace, _events(trace, WITHOUT_FRAMES).assign(input_shapes=""))


def op_table_with_frames(trace: Trace) -> OpTable:
    """Rows by name with Python frames among them, which take self time from operators: as torch 2.12 and 2.13 with stacks."""
    return _grouped(trace, _events(trace, WITH_FRAMES).assign(input_shapes=""))


def op_table_by_shape(trace: Trace) -> OpTable:
    """Rows by name and input shapes, as `key_averages(group_by_input_shape=True)`; MissingData without shapes."""
    if trace.snapshot is not None:
        if not by_shape(trace.snapshot):
            raise MissingData("The snapshot is not grouped by input shape; take key_averages(group_by_input_shape=True).")
        return _of_snapshot(trace.snapshot)
    _refuse_other_tools(trace)
    if not trace.shapes:
        raise MissingData("The trace holds no input shapes; capture with shapes on (record_shapes=True).")
    return _grouped(trace, _events(trace, WITHOUT_FRAMES))


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


def _grouped(trace: Trace, events: pd.DataFrame) -> OpTable:
    if events.empty:
        raise MissingData("The trace holds no operators; capture with CPU activity on.")
    groups = events.groupby(KEYS, sort=False, observed=True)
    rows = groups[SUMS].sum().reset_index()
    for column in TORCH_FLOATS:  # bincount adds one by one, as torch does; pandas would compensate rounding errors
        rows[column] = np.bincount(groups.ngroup(), weights=events[column], minlength=len(rows))
    inflated, moved_ns = _collisions(trace)
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


def _events(trace: Trace, categories: tuple[int, ...]) -> pd.DataFrame:
    """One row an event that key_averages() counts, ordered by start, the longest first."""
    parts = [_host_events(trace, categories), _device_events(trace), _unclaimed_allocations(trace)]
    events = pd.concat([part for part in parts if len(part)], ignore_index=True) if any(map(len, parts)) else parts[0]
    order = np.lexsort((-events["end_ns"].to_numpy(), events["start_ns"].to_numpy()))
    return events.iloc[order]


def _host_events(trace: Trace, categories: tuple[int, ...]) -> pd.DataFrame:
    skipped = np.array([name in SKIPPED for name in trace.names], bool)
    host = trace.host[np.isin(trace.host.category, categories) & ~skipped[trace.host.name]]
    in_order = host[np.lexsort((-host.end_ns, host.start_ns))]
    key, key_names = _keys(trace)
    name = key[in_order.name]
    home = _home_threads(in_order)
    synchronous = in_order.finished
    parent, stands_for = _tree(in_order, name, home, synchronous)
    kept = parent != -2
    duration = in_order.end_ns - in_order.start_ns
    inside = np.where(kept, parent, -1)
    own_device = np.where(synchronous, _kernel_ns(trace, in_order), 0)[stands_for]
    device = tree_sum(inside, np.where(kept, own_device, 0))
    torch_extra = tree_sum(inside, np.where(kept & synchronous, _collision_ns(trace, in_order), 0))
    memory = {kind: _allocated(trace, in_order, kind) for kind in ("cpu", "device")}
    torch_us = _torch_us(trace, in_order)
    children_us = np.bincount(inside[inside >= 0], weights=torch_us[inside >= 0], minlength=len(inside))
    events = pd.DataFrame({
        "start_ns": in_order.start_ns,
        "end_ns": in_order.end_ns,
        "name": key_names[name],
        "device_type": "CPU",
        "is_user_annotation": in_order.category == t.ANNOTATION,
        "input_shapes": np.array([*trace.shapes, "[]"], object)[in_order.shapes],
        "count": 1,
        "self_cpu_ns": np.where(synchronous, duration - children_sum(inside, duration), 0),
        "cpu_ns": duration,
        "self_device_ns": own_device,
        "device_ns": device,
        "self_cpu_torch_us": np.where(synchronous, torch_us - children_us, 0.0),
        "cpu_torch_us": torch_us,
        **{f"self_{kind}_bytes": size - children_sum(inside, size) for kind, size in memory.items()},
        **{f"{kind}_bytes": size for kind, size in memory.items()},
        "torch_extra_ns": torch_extra,
    })  # fmt: skip
    return events[kept]


def _torch_us(trace: Trace, host: t.HostRanges) -> np.ndarray:
    """Durations as torch has them: float microseconds since the profiler's start, end minus start.

    Their errors are some 1e-12; they decide only how a figure that ends in exactly half a digit is printed.
    """
    zero = trace.profiler_start_ns or 0
    return (host.end_ns - zero) / 1000 - (host.start_ns - zero) / 1000


def _keys(trace: Trace) -> tuple[Ints, np.ndarray]:
    """For each row of Trace.names the row of its key, and the keys: every ProfilerStep#N is one."""
    shown = [STEP_NAME if name.startswith("ProfilerStep#") else name for name in trace.names]
    keys = list(dict.fromkeys(shown))
    row = {key: i for i, key in enumerate(keys)}
    return np.array([row[name] for name in shown], np.int64), np.array(keys, object)


def _home_threads(host: t.HostRanges) -> Ints:
    """A runtime call belongs to the thread of the op that made it, where that is known."""
    is_op = (host.category == t.OP) | (host.category == t.ANNOTATION)
    owner = _owners(host, host.external_id)
    return np.where(~is_op & (owner >= 0), host.thread[np.maximum(owner, 0)], host.thread)


def _owners(host: t.HostRanges, external_id: Ints) -> Ints:
    """For each id, the row of the op or annotation that carries it as its own, or -1."""
    ops = np.flatnonzero(((host.category == t.OP) | (host.category == t.ANNOTATION)) & host.finished & (host.external_id > 0))
    if not len(ops):
        return np.full(len(external_id), -1)
    ops = ops[np.argsort(host.external_id[ops], kind="stable")]
    place = np.minimum(np.searchsorted(host.external_id[ops], external_id), len(ops) - 1)
    return np.where(host.external_id[ops[place]] == external_id, ops[place], -1)


def _tree(host: t.HostRanges, name: Ints, home: Ints, synchronous: Mask) -> tuple[Ints, Ints]:
    """Parents after duplicates are gone (-1 none, -2 removed) and the row whose kernels each row has."""
    rows = np.flatnonzero(synchronous)
    nested = parents(host.start_ns[rows], host.end_ns[rows], home[rows])
    kept, stands_for = without_duplicates(nested, name[rows])
    parent = np.full(len(host), -1)
    parent[rows] = np.where(kept >= 0, rows[np.maximum(kept, 0)], kept)
    chain = np.arange(len(host))
    chain[rows] = rows[stands_for]
    return parent, chain


def _kernel_ns(trace: Trace, host: t.HostRanges) -> Ints:
    """For each op, the time of the device work that carries its id."""
    owner = _owners(host, trace.device.external_id)
    total = np.zeros(len(host), np.int64)
    found = owner >= 0
    np.add.at(total, owner[found], (trace.device.end_ns - trace.device.start_ns)[found])
    return total


def _collided(host: t.HostRanges) -> Ints:
    """For each runtime call without an op whose own number equals an op's id: that op, for which torch takes it; else -1."""
    calls = (host.category == t.RUNTIME) & (host.external_id <= 0)
    return np.where(calls, _owners(host, host.correlation), -1)


def _collision_ns(trace: Trace, host: t.HostRanges) -> Ints:
    """The device time that torch gives each such call: the op's, a second time."""
    owner = _collided(host)
    return np.where(owner >= 0, _kernel_ns(trace, host)[np.maximum(owner, 0)], 0)


def _collisions(trace: Trace) -> tuple[dict[str, int], int]:
    """By name the device time that such calls get too much, and the time of the runtime calls that the ops really made."""
    host = trace.host
    extra_ns = _collision_ns(trace, host)
    rows = np.flatnonzero(extra_ns)
    extra = pd.Series(extra_ns[rows]).groupby([str(trace.names[n]) for n in host.name[rows]]).sum()
    made_by_them = (host.category == t.RUNTIME) & np.isin(_owners(host, host.external_id), _collided(host)[rows])
    return {str(name): int(ns) for name, ns in extra.items()}, int((host.end_ns - host.start_ns)[made_by_them].sum())


def _allocated(trace: Trace, host: t.HostRanges, kind: str) -> Ints:
    """Bytes allocated minus released while each range was open, on any thread, as torch counts them."""
    memory = trace.allocations[_of_kind(trace.allocations, kind)]
    memory = memory[np.argsort(memory.time_ns, kind="stable")]
    until = np.concatenate(([0], np.cumsum(memory.size_bytes)))
    first = np.searchsorted(memory.time_ns, host.start_ns, side="left")
    last = np.searchsorted(memory.time_ns, host.end_ns, side="right")
    return until[last] - until[first]


def _of_kind(memory: t.Allocations, kind: str) -> Mask:
    return (memory.device_type == 0) if kind == "cpu" else (memory.device_type > 0)


def _device_events(trace: Trace) -> pd.DataFrame:
    parts = [part for part in (trace.device, trace.device_marks) if len(part)]
    key, key_names = _keys(trace)
    frames = []
    for part in parts:
        duration = part.end_ns - part.start_ns
        marks = part.category == t.MARK
        frames.append(_plain_rows(part.start_ns, part.end_ns, key_names[key[part.name]], "CUDA", marks, duration))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _unclaimed_allocations(trace: Trace) -> pd.DataFrame:
    """Allocations made while no range was open: rows of their own, named [memory]."""
    memory = trace.allocations
    host = trace.host[trace.host.category != t.PYTHON]
    opened = np.searchsorted(np.sort(host.start_ns), memory.time_ns, side="right")
    closed = np.searchsorted(np.sort(host.end_ns), memory.time_ns, side="left")
    memory = memory[opened == closed]
    if not len(memory):
        return pd.DataFrame()
    rows = _plain_rows(memory.time_ns, memory.time_ns, "[memory]", "CPU", False, np.zeros(len(memory), np.int64))
    for kind in ("cpu", "device"):
        size = np.where(_of_kind(memory, kind), memory.size_bytes, 0)
        rows[f"self_{kind}_bytes"] = rows[f"{kind}_bytes"] = size
    return rows


def _plain_rows(
    start: Ints, end: Ints, name: "np.ndarray | str", device_type: str, is_annotation: "Mask | bool", device_ns: Ints
) -> pd.DataFrame:
    return pd.DataFrame({
        "start_ns": start, "end_ns": end, "name": name, "device_type": device_type, "is_user_annotation": is_annotation,
        "input_shapes": "[]", "count": 1, "self_cpu_ns": 0, "cpu_ns": 0, "self_device_ns": device_ns, "device_ns": device_ns,
        "self_cpu_bytes": 0, "cpu_bytes": 0, "self_device_bytes": 0, "device_bytes": 0,
        "self_cpu_torch_us": 0.0, "cpu_torch_us": 0.0, "torch_extra_ns": 0,
    })  # fmt: skip
