"""How busy is the GPU, and with which kernels?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..intervals import length, union
from ..kernels import device_class, short_name
from ..step_time import step_time
from ..trace import DeviceRanges, Ints, Mask, Trace

CLOCK_TOLERANCE_NS = 1000  # host and device clocks are aligned to about a microsecond
END_OF_TIME = np.iinfo(np.int64).max // 2
CATEGORY_NAMES = {t.KERNEL: "kernel", t.MEMCPY: "gpu_memcpy", t.MEMSET: "gpu_memset"}


@dataclass(frozen=True, eq=False)
class GpuKernels:
    """Flat figures over the whole file.

    `kernels`: one per (cat, name, device), by total: name (full); short_name; cat; device_class (compute, communication, copy);
    device; count; total_ns, mean_ns, min_ns, max_ns; total_share (of the sum of total_ns).
    `devices`: device; busy_ns (union over its streams); window_ns; busy_share (of the window; a lower bound where
    `lower_bound`); compute_ns (union of the work that is neither communication nor copy); span_ns (first start to last end);
    kernel_count (also those without a time); kernel_sum_ns; copy_count; copy_sum_ns.
    `streams`: device; stream; work_count; sum_ns; busy_ns.
    """

    kernels: pd.DataFrame
    devices: pd.DataFrame
    streams: pd.DataFrame
    lower_bound: str | None  # why device work may be missing from the file
    idle_withheld: str | None  # why idle time cannot be told; without `lower_bound` the busy share cannot be told either


def gpu_kernels(trace: Trace) -> GpuKernels:
    """Device work by name, device and stream."""
    work = trace.device
    if not len(work):
        raise MissingData("The trace holds no GPU work; on a GPU machine capture with CUDA activity on.")
    untold = _clock_offset(trace) or _hidden_in_graphs(trace)
    lower_bound = None if untold else _missing_work(trace)
    return GpuKernels(
        kernels=_kernels(trace, work),
        devices=pd.DataFrame([_device(trace, int(d), work[work.device == d]) for d in np.unique(work.device)]),
        streams=pd.DataFrame([_stream(key, part) for key, part in _streams(work)]),
        lower_bound=lower_bound,
        idle_withheld=untold or lower_bound,
    )


def kernel_time_per_step(trace: Trace) -> pd.DataFrame:
    """A row for each counted step, a column for each (cat, name): time of the device work that was launched in the step.

    Work without a launch call in the file belongs to no step.
    """
    counted = step_time(trace).steps
    work = trace.device
    launched = _launch_start(trace)
    row = np.searchsorted(counted["start_ns"].to_numpy(), launched, side="right") - 1
    inside = (row >= 0) & (launched >= 0)
    inside[inside] = launched[inside] < counted["end_ns"].to_numpy()[row[inside]]
    work, row = work[inside], row[inside]
    frame = pd.DataFrame({
        "step": counted.index.to_numpy()[row],
        "cat": [CATEGORY_NAMES[c] for c in work.category.tolist()],
        "name": [trace.names[n] for n in work.name.tolist()],
        "ns": work.end_ns - work.start_ns,
    })  # fmt: skip
    table = frame.groupby(["step", "cat", "name"], sort=False)["ns"].sum().unstack(["cat", "name"], fill_value=0)
    return table.reindex(counted.index, fill_value=0).astype(np.int64)


def _kernels(trace: Trace, work: DeviceRanges) -> pd.DataFrame:
    frame = pd.DataFrame({
        "name": np.array(trace.names, object)[work.name], "category": work.category, "device": work.device,
        "ns": work.end_ns - work.start_ns,
    })  # fmt: skip
    grouped = frame.groupby(["category", "name", "device"], sort=False)["ns"]
    rows = grouped.agg(["count", "sum", "mean", "min", "max"]).reset_index()
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


def _device(trace: Trace, device: int, work: DeviceRanges) -> dict[str, int | float]:
    busy = length(*union(work.start_ns, work.end_ns))
    kernels, copies = work[work.category == t.KERNEL], work[work.category == t.MEMCPY]
    compute = work[_of_class(trace, work, "compute")]
    return {
        "device": device,
        "busy_ns": busy,
        "window_ns": trace.window_ns,
        "busy_share": busy / trace.window_ns if trace.window_ns else 0.0,
        "compute_ns": length(*union(compute.start_ns, compute.end_ns)),
        "span_ns": int(work.end_ns.max() - work.start_ns.min()),
        "kernel_count": len(kernels) + trace.untimed_kernels[device],
        "kernel_sum_ns": int((kernels.end_ns - kernels.start_ns).sum()),
        "copy_count": len(copies),
        "copy_sum_ns": int((copies.end_ns - copies.start_ns).sum()),
    }


def _of_class(trace: Trace, work: DeviceRanges, device_class_name: str) -> Mask:
    kinds = list(zip(work.category.tolist(), work.name.tolist(), strict=True))
    classes = {kind: device_class(CATEGORY_NAMES[kind[0]], trace.names[kind[1]]) for kind in set(kinds)}
    return np.array([classes[kind] == device_class_name for kind in kinds], bool)


def _streams(work: DeviceRanges) -> list[tuple[tuple[int, int], DeviceRanges]]:
    keys = sorted(set(zip(work.device.tolist(), work.stream.tolist(), strict=True)))
    return [(key, work[(work.device == key[0]) & (work.stream == key[1])]) for key in keys]


def _stream(key: tuple[int, int], work: DeviceRanges) -> dict[str, int]:
    device, stream = key
    return {
        "device": device,
        "stream": stream,
        "work_count": len(work),
        "sum_ns": int((work.end_ns - work.start_ns).sum()),
        "busy_ns": length(*union(work.start_ns, work.end_ns)),
    }


def _launch_start(trace: Trace) -> Ints:
    """For each piece of device work, the start of the runtime call with its correlation, or -1."""
    call = _launching_call(trace)
    return np.where(call >= 0, trace.host.start_ns[np.maximum(call, 0)], -1) if len(trace.host) else call


def _launching_call(trace: Trace) -> Ints:
    """For each piece of device work, the row of the runtime call with its correlation, or -1."""
    host, work = trace.host, trace.device
    calls = np.flatnonzero((host.category == t.RUNTIME) & (host.correlation > 0))
    if not len(calls):
        return np.full(len(work), -1)
    calls = calls[np.argsort(host.correlation[calls], kind="stable")]
    place = np.minimum(np.searchsorted(host.correlation[calls], work.correlation), len(calls) - 1)
    return np.where(host.correlation[calls[place]] == work.correlation, calls[place], -1)


def _missing_work(trace: Trace) -> str | None:
    """Launch calls without a record of their work, or records without a time: the GPU did more than the file tells."""
    untimed = sum(w.count for w in trace.warnings if w.code == "zero_timestamp_events")
    if untimed:
        return f"{untimed} device events carry no time"
    recorded = _recorded(trace, _calls(trace, _is_launch))
    if lost := int((~recorded).sum()):
        return f"{lost} of {len(recorded)} launch calls have no record of their work"
    return None


def _hidden_in_graphs(trace: Trace) -> str | None:
    """Launches of CUDA graphs without a record: one can hold any number of kernels."""
    recorded = _recorded(trace, _calls(trace, _is_graph_launch))
    if lost := int((~recorded).sum()):
        return f"{lost} of {len(recorded)} graph launches have no record of the kernels inside"
    return None


def _calls(trace: Trace, named: Callable[[str], bool]) -> Mask:
    """Runtime calls by name."""
    return (trace.host.category == t.RUNTIME) & np.array([named(name) for name in trace.names], bool)[trace.host.name]


def _recorded(trace: Trace, calls: Mask) -> Mask:
    correlation = trace.host.correlation[calls]
    return np.isin(correlation[correlation > 0], trace.device.correlation)


def _is_launch(name: str) -> bool:
    return ("Launch" in name and "LaunchHostFunc" not in name) or name.startswith("urEnqueueKernel")


def _is_graph_launch(name: str) -> bool:
    return "GraphLaunch" in name


def _is_device_wait(name: str) -> bool:
    return name.endswith(("DeviceSynchronize", "CtxSynchronize"))


def _clock_offset(trace: Trace) -> str | None:
    """Work before its launch, or after a wait for it: host and device do not share one clock."""
    launched = _launch_start(trace)
    if early := int(((launched >= 0) & (trace.device.start_ns < launched - CLOCK_TOLERANCE_NS)).sum()):
        return f"{early} device events start before the call that launched them: the two clocks disagree"
    if late := int((trace.device.end_ns > _waited_until(trace) + CLOCK_TOLERANCE_NS).sum()):
        return f"{late} device events end after a wait for them returned: the two clocks disagree"
    return None


def _waited_until(trace: Trace) -> Ints:
    """For each piece of device work, the first end of a wait for its whole device that began after its launch.

    The end of time where there is none, and where several devices work: the file does not say which of them a call waits for.
    """
    never = np.full(len(trace.device), END_OF_TIME)
    call, waits = _launching_call(trace), trace.host[_calls(trace, _is_device_wait)]
    if not len(waits) or len(np.unique(trace.device.device)) > 1:
        return never
    waits = waits[np.argsort(waits.start_ns)]
    first_end = np.append(np.minimum.accumulate(waits.end_ns[::-1])[::-1], END_OF_TIME)
    return np.where(call >= 0, first_end[np.searchsorted(waits.start_ns, trace.host.end_ns[np.maximum(call, 0)])], never)
