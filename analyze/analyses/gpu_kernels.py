"""How busy is the GPU, and with which kernels?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..device_measures import by_device, of_devices
from ..device_time import stream_times, sums, union_times
from ..durations import repaired_work
from ..findings import Caution, Text
from ..kernels import device_class, has_tensor_cores, kernel_class, work_class
from ..launches import clock_offset, graphs_without_kernels, hidden_in_graphs, missing_work
from ..short_names import short_names
from ..trace import DeviceRanges, Mask, Trace

CATEGORY_NAMES = {t.KERNEL: "kernel", t.MEMCPY: "gpu_memcpy", t.MEMSET: "gpu_memset"}
NAN = float("nan")
HIDDEN = Text("Launches of CUDA graphs hide what ran inside: the GPU's busy share and its idle time are withheld.", {})
NO_WORK = "The trace holds no GPU work; on a GPU machine capture with CUDA activity on."
NO_TIMES = "No record of GPU work in the trace carries a time; capture again."
IMPOSSIBLE = "Kernels that last beyond the end of a later kernel of their stream: {kernels_count}; cut at the next start there."
MEASURES = {  # measures -> columns of `devices`; where a cell is NaN there is nothing to tell
    "gpu_busy_ns": "busy_ns", "gpu_busy_share": "busy_share", "gpu_busy_share_lower_bound": "busy_share_lower_bound",
    "gpu_idle_ns": "idle_ns", "gpu_idle_share": "idle_share", "gpu_span_ns": "span_ns",
    "kernel_count": "kernel_count", "kernels": "kernel_count",
    "kernel_count_timed": "kernel_timed_count", "kernel_sum_ns": "kernel_sum_ns", "kernel_sum_raw_ns": "kernel_sum_ns",
    "kernel_sum_repaired_ns": "kernel_repaired_ns", "impossible_durations": "impossible_count",
    "same_stream_overlap_ns": "stream_overlap_ns", "kernel_median_ns": "kernel_median_ns", "median_gap_ns": "median_gap_ns",
    "compute_union_ns": "compute_ns", "comm_union_ns": "comm_ns", "copy_union_ns": "copy_ns",
    "compute_sum_ns": "compute_sum_ns", "comm_sum_ns": "comm_sum_ns", "comm_count": "comm_count", "overlap_ns": "overlap_ns",
    "overlap_share_of_comm": "overlap_share", "comm_exposed_ns": "comm_exposed_ns", "copy_exposed_ns": "copy_exposed_ns",
    "memcpy_count": "copy_count", "memcpy_sum_ns": "copy_sum_ns", "memcpy_bytes": "copy_bytes",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class GpuKernels:
    """Flat figures over the whole file; impossible durations are repaired everywhere but in `kernel_sum_ns`.

    `kernels`: one per (cat, name, device), by total: name (full); short_name (no two names alike); cat; device_class (compute,
    communication, copy); kernel_class (in more detail); tensor_cores (whether the name tells of them); device; count; total_ns,
    mean_ns, min_ns, max_ns; total_share (of the sum of total_ns).
    `devices`: device; busy_ns (union over its streams); idle_ns (the rest of the window); window_ns; busy_share, idle_share (of
    the window; NaN where they cannot be told); busy_share_lower_bound (where it is one); span_ns (first start to last end);
    kernel_count (also those without a time); kernel_sum_ns (as in the file); impossible_count; stream_overlap_ns (what streams
    work on two things at once); and the columns of `device_time.union_times` and `sums`.
    `streams`: the columns of `device_time.stream_times`, of all work.
    """

    kernels: pd.DataFrame
    devices: pd.DataFrame
    streams: pd.DataFrame
    busy_withheld: str | None  # why the busy share cannot be told at all
    hidden_count: int  # graph launches of which the work inside is not known
    lower_bound: str | None  # else why device work may be missing, so that busy time is the least it can be
    bytes_withheld: str | None  # why not all that was copied can be told

    @property
    def idle_withheld(self) -> str | None:
        """Why idle time cannot be told."""
        return self.busy_withheld or self.lower_bound

    @property
    def withheld(self) -> Mapping[str, str]:
        """Names of measures -> why."""
        reasons = {
            "gpu_busy_share": self.busy_withheld, "gpu_idle_ns": self.idle_withheld, "gpu_idle_share": self.idle_withheld,
            "memcpy_bytes": self.bytes_withheld,
        }  # fmt: skip
        return {name: why for name, why in reasons.items() if why}

    @property
    def measures(self) -> Mapping[str, Any]:
        """Of one device a number, of several an object by device."""
        streams = [(int(device), rows) for device, rows in self.streams.groupby("device")]  # type: ignore[arg-type]
        return by_device(self.devices, MEASURES) | {
            "streams_with_work": of_devices({d: rows["stream"].tolist() for d, rows in streams}),
            "stream_gap_ns": of_devices(
                {device: dict(zip(rows["stream"], rows["gap_ns"], strict=True)) for device, rows in streams}
            ),
        }

    @property
    def classes(self) -> pd.DataFrame:
        """By kind of work, the most time first: kernel_class; count; total_ns; total_share; tensor_cores_share (or NaN)."""
        rows = self.kernels.assign(tensor_ns=self.kernels["total_ns"].where(self.kernels["tensor_cores"], 0))
        sums = rows.groupby("kernel_class", sort=False)[["count", "total_ns", "total_share", "tensor_ns"]].sum().reset_index()
        tensor_ns = sums.pop("tensor_ns")
        sums["tensor_cores_share"] = (tensor_ns / sums["total_ns"]).where(tensor_ns > 0)
        return sums.sort_values(["total_ns", "kernel_class"], ascending=[False, True], kind="stable", ignore_index=True)

    @property
    def least_busy(self) -> Mapping[Any, Any] | None:
        """The row of that device, where there are several and their shares can be told."""
        if len(self.devices) < 2 or self.busy_withheld:
            return None
        return self.devices.sort_values("busy_share", kind="stable").to_dict("records")[0]

    @property
    def cut_ns(self) -> int:
        """What impossible durations were shortened by, together."""
        return int((self.devices["kernel_sum_ns"] - self.devices["kernel_repaired_ns"]).sum())

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """Beside those of loading."""
        found, bound = int(self.devices["impossible_count"].sum()), self.lower_bound
        cut = Caution("impossible_durations", found, Text.of(IMPOSSIBLE, kernels_count=found))
        least = Caution("lower_bound", 1, Text.of("GPU busy time is a lower bound: {reason}.", reason=bound or ""))
        hidden = Caution("graph_launches_without_kernels", self.hidden_count, HIDDEN)
        return (*((cut,) if found else ()), *((least,) if bound else ()), *((hidden,) if self.hidden_count else ()))


def gpu_kernels(trace: Trace) -> GpuKernels:
    """Device work by name, device and stream."""
    work = repaired_work(trace)
    if not len(work):
        raise MissingData(NO_TIMES if len(trace.untimed) else NO_WORK)
    busy_withheld = clock_offset(trace) or hidden_in_graphs(trace)
    lower_bound = None if busy_withheld else missing_work(trace)
    streams = stream_times(work)
    devices = pd.DataFrame([_device(trace, work, d) for d in sorted({*work.device.tolist(), *trace.untimed_kernels})])
    known = streams[streams["stream"] >= 0]
    overlap = (known["sum_ns"] - known["busy_ns"]).groupby(known["device"]).sum()
    devices["stream_overlap_ns"] = devices["device"].map(overlap).fillna(0).astype(np.int64)
    devices["busy_share_lower_bound"] = devices["busy_share"] if lower_bound else NAN
    if busy_withheld:
        devices["busy_share"] = NAN
    if busy_withheld or lower_bound:
        devices[["idle_ns", "idle_share"]] = NAN
    if bytes_withheld := _unsized(devices):
        devices["copy_bytes"] = NAN
    return GpuKernels(
        kernels=_kernels(trace, work),
        devices=devices,
        streams=streams,
        busy_withheld=busy_withheld,
        hidden_count=graphs_without_kernels(trace)[0],
        lower_bound=lower_bound,
        bytes_withheld=bytes_withheld,
    )


def _unsized(devices: pd.DataFrame) -> str | None:
    """Why a sum of bytes would lack some; where no copy has a size, they were not recorded."""
    unsized, count = int(devices["copy_unsized_count"].sum()), int(devices["copy_count"].sum())
    return f"copies without a size: {unsized} of {count}" if 0 < unsized < count else None


def _kernels(trace: Trace, work: DeviceRanges) -> pd.DataFrame:
    name_of, names = pd.factorize(np.array(trace.names, object))
    keys = {"category": work.category, "name": name_of[work.name], "device": work.device}
    grouped = pd.DataFrame({**keys, "ns": work.end_ns - work.start_ns}).groupby(list(keys), sort=False)["ns"]
    rows = grouped.agg(["count", "sum", "mean", "min", "max"]).reset_index()
    rows["name"] = names[rows["name"]]
    rows = rows.sort_values(["sum", "name", "device"], ascending=[False, True, True], kind="stable", ignore_index=True)
    pairs = list(zip((CATEGORY_NAMES[c] for c in rows["category"]), rows["name"], strict=True))
    return pd.DataFrame({
        "name": rows["name"],
        "short_name": rows["name"].map(short_names(rows["name"])),
        "cat": [category for category, _ in pairs],
        "device_class": [device_class(*pair) for pair in pairs],
        "kernel_class": [kernel_class(*pair) for pair in pairs],
        "tensor_cores": [category == "kernel" and has_tensor_cores(name) for category, name in pairs],
        "device": rows["device"],
        "count": rows["count"],
        "total_ns": rows["sum"],
        "mean_ns": rows["mean"],
        "min_ns": rows["min"],
        "max_ns": rows["max"],
        "total_share": rows["sum"] / max(1, int(rows["sum"].sum())),
    })  # fmt: skip


def _device(trace: Trace, work: DeviceRanges, device: int) -> dict[str, int | float]:
    rows: Mask = work.device == device
    own, kind, raw = work[rows], work_class(trace)[rows], trace.device[rows]
    kernels, unions = own.category == t.KERNEL, union_times(own, kind)
    busy_share = unions["busy_ns"] / trace.window_ns
    return {
        "device": device,
        "window_ns": trace.window_ns,
        "idle_ns": float(trace.window_ns - unions["busy_ns"]),
        "busy_share": busy_share,
        "idle_share": 1 - busy_share,
        "span_ns": int(own.end_ns.max() - own.start_ns.min()) if len(own) else 0,
        "kernel_count": int(kernels.sum()) + trace.untimed_kernels[device],
        "kernel_sum_ns": int((raw.end_ns - raw.start_ns)[kernels].sum()),
        "impossible_count": int((raw.end_ns != own.end_ns).sum()),
        **unions,
        **sums(own, kind),
    }
