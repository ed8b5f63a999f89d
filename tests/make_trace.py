"""Events a reader checks in the head -> chrome trace, as text, file or Trace. Times are microseconds.

trace = make_trace([step(1, 0, 100), op("aten::mm", 10, 40)], [kernel("gemm", 20, 60)])
"""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from longpole.analyze.load import load
from longpole.analyze.trace import Trace
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


def allocation(time: float, size_bytes: int, device_type: int = 0) -> Event:
    return {
        "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "s": "t", "ts": time,
        "args": {"Bytes": size_bytes, "Device Type": device_type, "Device Id": device_type - 1},
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
    empty: dict[str, Any] = {"mode": None, "machine": {}, "versions": {}, "options": {}, "program": {}}
    write_manifest(folder, Manifest(title="made", captured_at="2026-11-30T18:56:00Z", **{**empty, "ranks": (files,), **manifest}))
    return folder


def make_bundle(*events: list[Event], **fields: Any) -> Trace:
    """What `load` makes of a bundle of these events; fields as in write_bundle. Its folder is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return load(write_bundle(Path(folder) / "bundle", *events, **fields))
