import gzip
import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from big_trace import AUTOGRAD_TID, PID, BigTrace, steps_in, write_big_trace

from longpole.analyze import trace as t
from longpole.analyze.load import load

STEPS, LAYERS = 11, 3


@pytest.mark.parametrize("with_frames", [True, False])
def test_a_big_trace_loads_with_what_it_says_it_holds(tmp_path: Path, with_frames: bool):
    path = tmp_path / "big.json"
    big = write_big_trace(path, steps=STEPS, layers=LAYERS, with_frames=with_frames)
    trace = load(path)
    assert trace.coverage.total == big.events_count
    assert {category: trace.coverage.by_category[category] for category in big.by_category if len(category) > 1} == {
        category: count for category, count in big.by_category.items() if len(category) > 1
    }
    assert {trace.threads[thread] for thread in trace.host.thread} == {(str(PID), str(PID)), (str(PID), str(AUTOGRAD_TID))}
    kernels = trace.device[trace.device.category == t.KERNEL]
    assert int((kernels.end_ns - kernels.start_ns).sum()) == big.kernel_sum_ns
    assert [trace.names[name] for name in trace.host.name if trace.names[name].startswith("ProfilerStep")] == [
        f"ProfilerStep#{step}" for step in range(1, STEPS + 1)
    ]


def test_its_counts_can_be_told_from_steps_and_layers():
    counts = BigTrace(STEPS, LAYERS).by_category
    assert counts["kernel"] == STEPS * (2 * LAYERS + 1)
    assert counts["gpu_memcpy"] == STEPS
    assert counts["user_annotation"] == 3 * STEPS
    assert counts["fwdbwd"] == STEPS * 2 * LAYERS
    assert counts["cuda_runtime"] == counts["kernel"] + counts["gpu_memcpy"] + STEPS  # one waits for the device


def test_its_ranges_nest_and_its_kernels_follow_each_other(tmp_path: Path):
    path = tmp_path / "big.json"
    write_big_trace(path, steps=STEPS, layers=LAYERS)
    trace = load(path)
    rows = sorted(zip(trace.host.thread, trace.host.start_ns, -trace.host.end_ns, strict=True))
    for _, of_thread in groupby(rows, key=lambda row: row[0]):
        ends: list[int] = []
        for _, start, negative_end in of_thread:
            while ends and ends[-1] <= start:
                ends.pop()
            assert -negative_end > start and (not ends or -negative_end <= ends[-1])
            ends.append(-negative_end)
    order = np.argsort(trace.device.start_ns)
    assert (trace.device.start_ns[order][1:] >= trace.device.end_ns[order][:-1]).all()


def test_every_kernel_has_its_call_and_its_op(tmp_path: Path):
    path = tmp_path / "big.json"
    write_big_trace(path, steps=STEPS, layers=LAYERS)
    trace = load(path)
    calls, ops = (trace.host[trace.host.category == category] for category in (t.RUNTIME, t.OP))
    assert len(set(calls.correlation.tolist())) == len(calls)
    assert len(set(ops.external_id.tolist())) == len(ops)
    row = {identity: row for row, identity in enumerate(calls.correlation.tolist())}
    op = {identity: row for row, identity in enumerate(ops.external_id.tolist())}
    for correlation, external_id, start_ns in zip(
        trace.device.correlation.tolist(), trace.device.external_id.tolist(), trace.device.start_ns, strict=True
    ):
        call = row[correlation]
        assert calls.external_id[call] == external_id
        assert calls.end_ns[call] > calls.start_ns[call] and calls.start_ns[call] < start_ns
        assert ops.start_ns[op[external_id]] <= calls.start_ns[call] <= calls.end_ns[call] <= ops.end_ns[op[external_id]]


def test_times_and_ids_are_those_of_the_step(tmp_path: Path):
    path = tmp_path / "big.json"
    write_big_trace(path, steps=STEPS, layers=LAYERS)
    events = json.loads(path.read_bytes())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len({event["ts"] for event in kernels}) == len(kernels)
    indices = [event["args"]["Ev Idx"] for event in events if "Ev Idx" in event.get("args", {})]
    assert len(set(indices)) == len(indices)


def test_a_compressed_one_holds_the_same_text_and_the_same_bytes_every_time(tmp_path: Path):
    plain, *compressed = (tmp_path / name for name in ("big.json", "a.json.gz", "b.json.gz"))
    write_big_trace(plain, steps=STEPS, layers=LAYERS)
    for path in compressed:
        write_big_trace(path, steps=STEPS, layers=LAYERS, gzip=True)
    assert gzip.decompress(compressed[0].read_bytes()) == plain.read_bytes()
    assert compressed[0].read_bytes() == compressed[1].read_bytes()


@pytest.mark.parametrize("with_frames", [True, False])
def test_a_bad_event_is_one_bad_name(tmp_path: Path, with_frames: bool):
    whole, broken = tmp_path / "whole.json", tmp_path / "broken.json"
    write_big_trace(whole, steps=STEPS, layers=LAYERS, with_frames=with_frames)
    write_big_trace(broken, steps=STEPS, layers=LAYERS, with_frames=with_frames, bad_event_at=5)
    lines = zip(whole.read_text().splitlines(), broken.read_text().splitlines(), strict=True)
    (pair,) = [pair for pair in lines if pair[0] != pair[1]]
    assert pair[1] == pair[0].replace("__next__", '"__next__"')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken.read_bytes())


@pytest.mark.parametrize("layers", [1, 40])
def test_a_size_is_met_within_a_step(tmp_path: Path, layers: int):
    path, size_bytes = tmp_path / "big.json", 5_000_000
    big = write_big_trace(path, size_bytes, layers=layers)
    assert big.steps == steps_in(size_bytes, layers)
    assert abs(path.stat().st_size - size_bytes) < 0.01 * size_bytes + big.step_bytes
