"""Events a reader checks in the head -> chrome trace, as text, file or Trace. Times are microseconds.

trace = make_trace([step(1, 0, 100), op("aten::mm", 10, 40)], [kernel("gemm", 20, 60)])
"""

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from longpole.analyze.load import load
from longpole.analyze.trace import (
    ASYNC_SLICE,
    DEVICE_SLICE,
    HOST_SLICE,
    Allocations,
    Coverage,
    DeviceRanges,
    HostRanges,
    Slices,
    Source,
    SourceFile,
    Trace,
    no_rows,
)
from longpole.capture.bundle import Manifest, RankFiles, described, write_manifest

Event = dict[str, Any]
ORIGIN_US = 5_000_000  # Kineto's times are relative to a base of its own, never small


def host(category: str, name: str, start: float, end: float, tid: int = 1, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 100,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def op(name: str, start: float, end: float, tid: int = 1, **args: Any) -> Event:
    """An operator; arguments by their names in the file, for instance **{"External id": 3}."""
    return host("cpu_op", name, start, end, tid, **args)


def backward(name: str, start: float, end: float, tid: int = 1, sequence: int = 1) -> Event:
    return op(name, start, end, tid, **{"Sequence number": sequence, "Fwd thread id": 1})


def annotation(name: str, start: float, end: float, tid: int = 1, **args: Any) -> Event:
    return host("user_annotation", name, start, end, tid, **args)


def step(number: int, start: float, end: float, tid: int = 1) -> Event:
    return annotation(f"ProfilerStep#{number}", start, end, tid)


def phase(name: str, start: float, end: float, tid: int = 1) -> Event:
    return annotation(f"longpole.phase#{name}", start, end, tid)


def launch(correlation: int, start: float, end: float, tid: int = 1, name: str = "cudaLaunchKernel", **args: Any) -> Event:
    return host("cuda_runtime", name, start, end, tid, correlation=correlation, **args)


def frame(name: str, start: float, end: float, tid: int = 1) -> Event:
    return host("python_function", name, start, end, tid)


def loop(durations: Iterable[float], *parts: Callable[[float, float], list[Event]]) -> list[Event]:
    """Steps one after the other, each with what the parts make of its start and end.

    loop([100, 100], lambda start, end: [op("aten::mm", start, start + 40)])
    """
    events, start = [], 0.0
    for number, duration in enumerate(durations):
        end = start + duration
        events += [step(number, start, end), *(event for part in parts for event in part(start, end))]
        start = end
    return events


def kernel(name: str, start: float, end: float, stream: int = 7, device: int = 0, category: str = "kernel", **args: Any) -> Event:
    return {
        "ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": start, "dur": end - start,
        "args": {"device": device, "stream": stream, **args},
    }  # fmt: skip


def memcpy(name: str, start: float, end: float, stream: int = 7, device: int = 0, **args: Any) -> Event:
    return kernel(name, start, end, stream, device, "gpu_memcpy", **args)


def allocation(
    time: float, size_bytes: int, device_type: int = 0, device: int | None = None, tid: int = 1,
    address: int | None = None, total: int | None = None,
) -> Event:  # fmt: skip
    """`device_type`: 0 the host, 1 a GPU; `total`: what is allocated afterwards, as the allocator counts."""
    known = {"Addr": address, "Total Allocated": total}
    return {
        "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": tid, "s": "t", "ts": time,
        "args": {
            "Bytes": size_bytes, "Device Type": device_type, "Device Id": device_type - 1 if device is None else device,
            **{name: value for name, value in known.items() if value is not None},
        },
    }  # fmt: skip


def trace_text(*events: list[Event], **top_level: Any) -> str:
    """The file's text; every list of events moved by ORIGIN_US."""
    moved = [{**event, "ts": event["ts"] + ORIGIN_US} if "ts" in event else event for part in events for event in part]
    head = {"schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000, **top_level}
    return json.dumps({**head, "traceEvents": moved})


def write_trace(path: Path, *events: list[Event], **top_level: Any) -> Path:
    path.write_text(trace_text(*events, **top_level), encoding="utf-8")
    return path


def make_trace(*events: list[Event], **top_level: Any) -> Trace:
    """What `load` makes of the events; its times start at 0 with the first event."""
    with tempfile.TemporaryDirectory() as folder:
        return load(write_trace(Path(folder) / "made.json", *events, **top_level))


def write_bundle(folder: Path, *events: list[Event], snapshot: list[dict[str, Any]] | None = None, **manifest: Any) -> Path:
    """A bundle of one rank; `snapshot`: the rows of its key_averages; the rest are fields of the manifest."""
    folder.mkdir()
    trace = folder / "rank0.trace.json.gz"
    trace.write_bytes(gzip.compress(trace_text(*events).encode(), mtime=0))
    averages = folder / "rank0.key_averages.json"
    if snapshot is not None:
        averages.write_text(json.dumps({"torch": "2.13.0", "rows": snapshot}), encoding="utf-8")
    files = RankFiles(0, described(trace), None if snapshot is None else described(averages))
    fields = {"title": "made", "captured_at": "2026-11-30T18:56:00Z", "ranks": (files,)}
    empty: dict[str, Any] = {"mode": None, "machine": {}, "versions": {}, "options": {}, "program": {}}
    write_manifest(folder, Manifest(**{**empty, **fields, **manifest}))
    return folder


def make_bundle(*events: list[Event], **fields: Any) -> Trace:
    """What `load` makes of a bundle of these events; fields as in write_bundle. Its folder is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return load(write_bundle(Path(folder) / "bundle", *events, **fields))


Slice = tuple[float, float, str, int, int]  # start, end, name, kind, thread


def on_thread(name: str, start: float, end: float, thread: int = 0) -> Slice:
    """A range that another tool than torch.profiler wrote, on a thread of the host."""
    return start, end, name, HOST_SLICE, thread


def on_device(name: str, start: float, end: float, thread: int = 0) -> Slice:
    return start, end, name, DEVICE_SLICE, thread


def asynchronous(name: str, start: float, end: float, thread: int = 0) -> Slice:
    return start, end, name, ASYNC_SLICE, thread


def make_ranges(*slices: Slice, producer: str = "JAX/XLA", **fields: Any) -> Trace:
    """The Trace of another tool's file; its window is that of the slices; `fields` replace those of the Trace."""
    names = list(dict.fromkeys(name for _, _, name, _, _ in slices))
    first, last = min(start for start, *_ in slices), max(end for _, end, *_ in slices)
    columns = [
        (round((a - first) * 1000), round((b - first) * 1000), names.index(n), kind, thread) for a, b, n, kind, thread in slices
    ]
    trace = _bare_trace(f"{producer.split('/')[0].replace(' ', '_')}.json", producer, len(slices))
    return replace(
        trace,
        window_ns=round((last - first) * 1000),
        slices=Slices(*np.array(columns, np.int64).T),
        names=names,
        threads=[("1", str(number)) for number in range(1 + max(thread for *_, thread in slices))],
        **fields,
    )


def average(name: str, count: int, self_cpu: float, cpu: float | None = None, device: float = 0, **fields: Any) -> dict[str, Any]:
    """A row of key_averages() in torch's microseconds; `device`: time of the kernels that it launched itself."""
    return {
        "key": name, "count": count, "device_type": "CPU", "is_user_annotation": False, "input_shapes": "",
        "self_cpu_time_total": self_cpu, "cpu_time_total": self_cpu if cpu is None else cpu,
        "self_device_time_total": device, "device_time_total": device, "cpu_memory_usage": 0, "self_cpu_memory_usage": 0,
        "device_memory_usage": 0, "self_device_memory_usage": 0, **fields,
    }  # fmt: skip


def kernel_average(name: str, count: int, device: float) -> dict[str, Any]:
    """A row of device work."""
    return average(name, count, 0, device=device, device_type="CUDA")


def make_snapshot(*rows: dict[str, Any], by_shape: bool = False, torch: str = "2.13.0", **fields: Any) -> Trace:
    """The Trace of a key_averages snapshot alone."""
    trace = _bare_trace("key_averages.json", "PyTorch Profiler", len(rows))
    return replace(trace, snapshot={"torch": torch, "group_by_input_shape": by_shape, "rows": list(rows)}, **fields)


def _bare_trace(path: str, producer: str, events: int) -> Trace:
    """A Trace whose tables are empty."""
    source = Source(path, (SourceFile(path, "ab" * 32),), producer, None, None, (), None, False, False, False)
    return Trace(
        source=source, manifest=None, origin_ns=0, window_ns=0, profiler_start_ns=None, host=no_rows(HostRanges),
        device=no_rows(DeviceRanges), device_marks=no_rows(DeviceRanges), allocations=no_rows(Allocations), names=[], threads=[],
        shapes=[], coverage=Coverage(events, events, 0, 0, Counter()),
    )  # fmt: skip
