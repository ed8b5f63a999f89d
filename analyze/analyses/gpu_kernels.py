"""How busy is the GPU, and with which kernels?"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..findings import Caution, Text
from ..grouping import group_sums
from ..intervals import length, union
from ..kernels import COMPUTE, device_class, short_name, work_class
from ..launches import clock_offset, hidden_in_graphs, launch_start, missing_work
from ..step_time import step_time
from ..trace import DeviceRanges, Mask, Trace

CATEGORY_NAMES = {t.KERNEL: "kernel", t.MEMCPY: "gpu_memcpy", t.MEMSET: "gpu_memset"}


@dataclass(frozen=True, eq=False)
class GpuKernels:
    """Flat figures over the whole file.

    `kernels`: one per (cat, name, device), by total: name (full); short_name; cat; device_class (compute, communication, copy);
    device; count; total_ns, mean_ns, min_ns, max_ns; total_share (of the sum of total_ns).
    `devices`: device; busy_ns (union over its streams); idle_ns (the rest of the window); window_ns; busy_share, idle_share (of
    the window; NaN where they cannot be told); compute_ns (union of the work that is neither communication nor copy); span_ns
    (first start to last end); kernel_count (also those without a time); kernel_sum_ns; copy_count; copy_sum_ns.
    `streams`: device; stream; kernel_count; sum_ns, busy_ns (of all work).
    """

    kernels: pd.DataFrame
    devices: pd.DataFrame
    streams: pd.DataFrame
    busy_withheld: str | None  # why the busy share cannot be told at all
    lower_bound: str | None  # else why device work may be missing, so that busy time is the least it can be

    @property
    def idle_withheld(self) -> str | None:
        """Why idle time cannot be told."""
        return self.busy_withheld or self.lower_bound

    @property
    def measures(self) -> dict[str, float | dict[int, float]]:
        """By device where there are several."""
        if not self.lower_bound:
            return {}
        shares = dict(zip(self.devices["device"].tolist(), self.devices["busy_share"].tolist(), strict=True))
        return {"gpu_busy_share_lower_bound": shares if len(shares) > 1 else next(iter(shares.values()))}

    @property
    def warnings(self) -> tuple[Caution, ...]:
        if not self.lower_bound:
            return ()
        return (Caution("lower_bound", 1, Text.of("GPU busy time is a lower bound: {reason}.", reason=self.lower_bound)),)


def gpu_kernels(trace: Trace) -> GpuKernels:
    """Device work by name, device and stream."""
    work = trace.device
    if not len(work):
        raise MissingData("The trace holds no GPU work; on a GPU machine capture with CUDA activity on.")
    busy_withheld = clock_offset(trace) or hidden_in_graphs(trace)
    lower_bound = None if busy_withheld else missing_work(trace)
    compute = work_class(trace) == COMPUTE
    devices = pd.DataFrame(
        [_device(trace, int(d), work[work.device == d], compute[work.device == d]) for d in np.unique(work.device)]
    )
    if busy_withheld:
        devices["busy_share"] = float("nan")
    if busy_withheld or lower_bound:
        devices[["idle_ns", "idle_share"]] = float("nan")
    return GpuKernels(
        kernels=_kernels(trace, work),
        devices=devices,
        streams=pd.DataFrame([_stream(key, part) for key, part in _streams(work)]),
        busy_withheld=busy_withheld,
        lower_bound=lower_bound,
    )


def kernel_time_per_step(trace: Trace) -> pd.DataFrame:
    """A row for each counted step, a column for each (cat, name): time of the device work that was launched in the step.

    Work without a launch call in the file belongs to no step.
    """
    counted = step_time(trace).steps
    work = trace.device
    launched = launch_start(trace)
    row = np.searchsorted(counted["start_ns"].to_numpy(), launched, side="right") - 1
    inside = (row >= 0) & (launched >= 0)
    inside[inside] = launched[inside] < counted["end_ns"].to_numpy()[row[inside]]
    work, row = work[inside], row[inside]
    name_of, names = pd.factorize(np.array(trace.names, object))
    column, kinds = pd.factorize(name_of[work.name] * len(CATEGORY_NAMES) + work.category)
    shape = len(counted), len(kinds)
    table = group_sums(row * len(kinds) + column, work.end_ns - work.start_ns, math.prod(shape)).reshape(shape)
    pairs = [(CATEGORY_NAMES[int(kind) % len(CATEGORY_NAMES)], names[int(kind) // len(CATEGORY_NAMES)]) for kind in kinds]
    return pd.DataFrame(table, index=counted.index, columns=pd.MultiIndex.from_tuples(pairs, names=["cat", "name"]))


def _kernels(trace: Trace, work: DeviceRanges) -> pd.DataFrame:
    name_of, names = pd.factorize(np.array(trace.names, object))
    keys = {"category": work.category, "name": name_of[work.name], "device": work.device}
    grouped = pd.DataFrame({**keys, "ns": work.end_ns - work.start_ns}).groupby(list(keys), sort=False)["ns"]
    rows = grouped.agg(["count", "sum", "mean", "min", "max"]).reset_index()
    rows["name"] = names[rows["name"]]
    rows = rows.sort_values(["sum", "name", "device"], ascending=[False, True, True], kind="stable", ignore_index=True)
    return pd.DataFrame({
        "name": rows["name"],
        "short_name": [short_name(name) for name in rows["name"]],
        "cat": [CATEGORY_NAMES[c] for c in rows["category"]],
        "device_class": [device_class(CATEGORY_NAMES[c], n) for c, n in zip(rows["category"], rows["name"], strict=True)],
        "device": rows["device"],
        "count": rows["count"],
        "total_ns": rows["sum"],
        "mean_ns": rows["mean"],
        "min_ns": rows["min"],
        "max_ns": rows["max"],
        "total_share": rows["sum"] / max(1, int(rows["sum"].sum())),
    })  # fmt: skip


def _device(trace: Trace, device: int, work: DeviceRanges, compute: Mask) -> dict[str, int | float]:
    busy = length(*union(work.start_ns, work.end_ns))
    kernels, copies = work.category == t.KERNEL, work.category == t.MEMCPY
    duration = work.end_ns - work.start_ns
    return {
        "device": device,
        "busy_ns": busy,
        "idle_ns": float(trace.window_ns - busy),
        "window_ns": trace.window_ns,
        "busy_share": busy / trace.window_ns,
        "idle_share": 1 - busy / trace.window_ns,
        "compute_ns": length(*union(work.start_ns[compute], work.end_ns[compute])),
        "span_ns": int(work.end_ns.max() - work.start_ns.min()),
        "kernel_count": int(kernels.sum()) + trace.untimed_kernels[device],
        "kernel_sum_ns": int(duration[kernels].sum()),
        "copy_count": int(copies.sum()),
        "copy_sum_ns": int(duration[copies].sum()),
    }


def _streams(work: DeviceRanges) -> list[tuple[tuple[int, int], DeviceRanges]]:
    keys = pd.DataFrame({"device": work.device, "stream": work.stream}).drop_duplicates()
    pairs = sorted((int(device), int(stream)) for device, stream in keys.itertuples(index=False))
    return [(pair, work[(work.device == pair[0]) & (work.stream == pair[1])]) for pair in pairs]


def _stream(key: tuple[int, int], work: DeviceRanges) -> dict[str, int]:
    device, stream = key
    return {
        "device": device,
        "stream": stream,
        "kernel_count": int((work.category == t.KERNEL).sum()),
        "sum_ns": int((work.end_ns - work.start_ns).sum()),
        "busy_ns": length(*union(work.start_ns, work.end_ns)),
    }
