"""Which tool wrote a file, and what its events become."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import kernel, make_trace, op, step

from longpole.analyze import trace as t
from longpole.analyze.load import load
from longpole.analyze.loading.producers import paired
from longpole.analyze.trace import Trace


def loaded(folder: Path, events: list[dict[str, Any]], **top_level: Any) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({**top_level, "traceEvents": events} if top_level else events), encoding="utf-8")
    return load(path)


def x(name: str, start: float, end: float, pid: Any = 1, tid: Any = 1, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": end - start, **more}


def process(pid: Any, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def slices(trace: Trace) -> list[tuple[str, int, int, int]]:
    found = trace.slices
    rows = zip(found.name.tolist(), found.kind.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    return [(trace.names[name], kind, start, end) for name, kind, start, end in rows]


H, D, A = t.HOST_SLICE, t.DEVICE_SLICE, t.ASYNC_SLICE


def test_jax_names_its_devices_by_process(tmp_path: Path):
    events = [process(1, "/device:GPU:0"), process(7, "/host:CPU"), x("f", 0, 3, pid=7), x("fusion", 1, 5, pid=1), {}]
    trace = loaded(tmp_path, events, displayTimeUnit="ns", metadata={"highres-ticks": True})
    assert trace.source.producer == "JAX/XLA"
    assert slices(trace) == [("f", H, 0, 3000), ("fusion", D, 1000, 5000)]


def test_tensorflow_names_its_devices_by_job(tmp_path: Path):
    events = [process(3, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"), x("MatMul", 1, 5, pid=3)]
    trace = loaded(tmp_path, events)
    assert (trace.source.producer, slices(trace)) == ("TensorFlow", [("MatMul", D, 0, 4000)])


def test_onnx_runtime_is_told_by_its_categories(tmp_path: Path):
    events = [x("load", 0, 9, cat="Session"), x("node", 1, 5, cat="Node"), x("gemm", 2, 4, cat="Kernel")]
    trace = loaded(tmp_path, events)
    assert trace.source.producer == "ONNX Runtime"
    assert sorted(slices(trace)) == [("gemm", D, 2000, 4000), ("load", H, 0, 9000), ("node", H, 1000, 5000)]


def test_ascend_is_told_by_its_hardware(tmp_path: Path):
    events = [process(5, "Ascend Hardware"), process(2, "CANN"), x("MatMulV2", 2, 4, pid=5), x("launch", 0, 1, pid=2)]
    trace = loaded(tmp_path, events)
    assert trace.source.producer == "Ascend"
    assert slices(trace) == [("MatMulV2", D, 2000, 4000), ("launch", H, 0, 1000)]


def test_the_legacy_autograd_profiler_is_told_by_its_processes(tmp_path: Path):
    events = [x("add", 0, 4, pid="CPU functions"), x("add", 2, 9, pid="CUDA functions", tid=0)]
    trace = loaded(tmp_path, events)
    assert trace.source.producer == "PyTorch legacy autograd profiler"
    assert slices(trace) == [("add", H, 0, 4000), ("add", D, 2000, 9000)]


def test_a_tool_that_names_itself_is_named(tmp_path: Path):
    assert loaded(tmp_path, [x("a", 0, 1)], otherData={"producer": "mytool 3"}).source.producer == "mytool 3"
    assert loaded(tmp_path, [x("a", 0, 1)], otherData={"version": "3"}).source.producer == "unknown"


def test_begins_and_ends_become_ranges_and_asynchronous_ones_stay_off_the_threads(tmp_path: Path):
    events = [
        {"ph": "B", "name": "outer", "pid": 5, "tid": 1, "ts": 0},
        {"ph": "B", "name": "inner", "pid": 5, "tid": 1, "ts": 10},
        {"ph": "b", "cat": "C", "name": "reduce", "id": 1, "pid": 5, "tid": 1, "ts": 20},
        {"ph": "b", "cat": "C", "name": "gather", "id": 2, "pid": 5, "tid": 1, "ts": 25},
        {"ph": "E", "pid": 5, "tid": 1, "ts": 60},
        {"ph": "e", "cat": "C", "name": "reduce", "id": 1, "pid": 5, "tid": 2, "ts": 80},
        {"ph": "E", "pid": 5, "tid": 1, "ts": 100},
        {"ph": "E", "pid": 5, "tid": 1, "ts": 120},
    ]
    trace = loaded(tmp_path, events)
    assert sorted(slices(trace)) == [("inner", H, 10_000, 60_000), ("outer", H, 0, 100_000), ("reduce", A, 20_000, 80_000)]
    assert {w.code: w.count for w in trace.warnings} == {"unmatched_begin": 1, "unmatched_end": 1}
    assert (trace.coverage.used, trace.coverage.dropped, trace.coverage.total) == (6, 2, 8)


def test_begins_and_ends_of_torchs_own_categories_are_host_ranges():
    begin, end = (
        {"ph": ph, "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 1, "ts": ts} for ph, ts in (("B", 20), ("E", 30))
    )
    trace = make_trace([step(1, 0, 100)], [begin, end])
    assert trace.host.category.tolist() == [t.ANNOTATION, t.OP]
    assert (trace.host.start_ns.tolist(), trace.host.end_ns.tolist()) == ([0, 20_000], [100_000, 30_000])


@pytest.mark.parametrize("vendor", ["xpu", "mtia", "privateuse1", "hpu"])
def test_other_accelerators_have_kernels_and_calls_like_the_first(vendor: str):
    call = {**op("launch", 10, 12), "cat": f"{vendor}_runtime", "args": {"correlation": 3}}
    trace = make_trace([step(1, 0, 100)], [call, kernel("gemm", 20, 30, correlation=3)])
    assert trace.host.category.tolist() == [t.ANNOTATION, t.RUNTIME]
    assert trace.device.correlation.tolist() == [3]


def test_unknown_categories_are_counted_and_listed_and_never_fatal():
    odd = [{**op("a", 1, 2), "cat": f"kind{i}"} for i in range(7)]
    trace = make_trace([step(1, 0, 100)], odd)
    (warning,) = trace.warnings
    assert (warning.code, warning.count, warning.harmless) == ("unknown_categories", 7, True)
    assert "kind0, kind1, kind2, kind3, kind4 and 2 more" in warning.message


def naive(events: list[tuple[int, bool, int]]) -> tuple[list[tuple[int, int]], int, int]:
    open_at: dict[int, list[int]] = {}
    found, alone = [], 0
    for time, begins, lane in sorted(events, key=lambda event: event[0]):
        if begins:
            open_at.setdefault(lane, []).append(time)
        elif open_at.get(lane):
            found.append((open_at[lane].pop(), time))
        else:
            alone += 1
    return sorted(found), sum(map(len, open_at.values())), alone


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 2)), max_size=30))
def test_an_end_closes_the_last_begin_of_its_lane(events: list[tuple[int, bool, int]]):
    columns = [np.array([event[i] for event in events], kind) for i, kind in enumerate((np.int64, np.bool_, np.int64))]
    found = paired(*columns)
    pairs = sorted(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True))
    assert (pairs, found.unmatched_begin, found.unmatched_end) == naive(events)
