"""The operator table against key_averages() of the torch that wrote each trace."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_data import shared_trace

from longpole.analyze import trace as t
from longpole.analyze.analyses.op_table import OpTable, op_table, op_table_by_shape, op_table_with_frames
from longpole.analyze.trace import Trace
from longpole.reports.ops_table import torch_table

TIMES = ["count", "self_cpu_ns", "cpu_ns"]
DEVICE_TIMES = [*TIMES, "self_device_ns", "device_ns"]
MEMORY = ["self_cpu_bytes", "cpu_bytes", "self_device_bytes", "device_bytes"]
SCENARIOS = ("base", "rich", "stack", "threads", "workers")
EXACT = ("2.4.1", "2.11.0", "2.12.1", "2.13.0")
WHOLE_MICROSECONDS = ("1.13.1", "2.0.1", "2.2.2")
FRAMES_TAKE_TIME = ("2.12.1", "2.13.0")
EDGE = ("async", "memthreads", "overlap", "rec", "rec2", "unfinished")
EDGE_EXCEPT = {"async": "async_range", "unfinished": "never_closed"}  # the file does not mark them as torch does
GPU = {
    "h100_qwen": "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "hta_ns": "rank-0.Apr_03_18_51_38.1102.pt.trace",
    "mi300_resnet_act_ckpt": "resnet_act_checkpoint",
}

# A runtime call without an operator is found by its own number. Where an operator happens to have that number as its id, torch
# gives the call that operator's kernels once more, and with it the ranges around the call; and it counts the operator's own
# launches to the thread of the call, so that their time leaves the operator's children for those of the range around the call.
# Torch minus ours in count, self CPU, CPU total, self device and device total:
COLLISION = {
    "mi300_resnet_act_ckpt": {
        "hipEventDestroy": [0, 0, 0, 94_506, 94_506],
        "hipStreamIsCapturing": [0, 0, 0, 679, 679],
        "DistributedDataParallel.forward": [0, 0, 0, 0, 95_185],
        "ProfilerStep*": [0, -41_569, 0, 0, 95_185],
        "aten::convolution_backward": [0, 38_239, 0, 0, 0],
        "aten::mul": [0, 3_330, 0, 0, 0],
    }
}  # fmt: skip

Key = tuple[Any, ...]


def torch_rows(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    return content["rows"] if isinstance(content, dict) else content


def by_key(
    rows: list[dict[str, Any]], name: str, columns: dict[str, str | tuple[str, int]], like: dict[str, Any]
) -> dict[Key, dict]:
    """Sums by what both tables tell apart: torch before 2.8 has no is_user_annotation, shapes only where it grouped by them."""
    sums: dict[Key, dict[str, int]] = {}
    for row in rows:
        annotation = row["is_user_annotation"] if "is_user_annotation" in like else None
        key = (row[name], row["device_type"], annotation, str(row.get("input_shapes", "")))
        into = sums.setdefault(key, dict.fromkeys(columns, 0))
        for column, source in columns.items():
            field, factor = source if isinstance(source, tuple) else (source, 1)
            into[column] += round(row[field] * factor)
    return sums


def both(table: OpTable, path: Path) -> tuple[dict[Key, dict[str, int]], dict[Key, dict[str, int]]]:
    """(ours, torch's) by key, in count, integer nanoseconds and bytes."""
    rows = torch_rows(path)
    kind = "device" if "device_time_total" in rows[0] else "cuda"
    columns: dict[str, str | tuple[str, int]] = {
        "count": "count",
        "self_cpu_ns": ("self_cpu_time_total", 1000),
        "cpu_ns": ("cpu_time_total", 1000),
        "self_device_ns": (f"self_{kind}_time_total", 1000),
        "device_ns": (f"{kind}_time_total", 1000),
        "self_cpu_bytes": "self_cpu_memory_usage",
        "cpu_bytes": "cpu_memory_usage",
        "self_device_bytes": f"self_{kind}_memory_usage",
        "device_bytes": f"{kind}_memory_usage",
    }
    ours = by_key(table.rows.to_dict("records"), "name", {column: column for column in columns}, rows[0])  # pyright: ignore[reportArgumentType]
    return ours, by_key(rows, "key", columns, rows[0])


def differing(ours: dict[Key, dict[str, int]], theirs: dict[Key, dict[str, int]], columns: list[str]) -> set[str]:
    """Names of the rows that differ in one of the columns, or that only one of the tables has."""
    keys = ours.keys() | theirs.keys()
    missing = dict.fromkeys(columns)
    return {
        key[0] for key in keys if any(ours.get(key, missing)[column] != theirs.get(key, missing)[column] for column in columns)
    }  # fmt: skip


def frame_names(trace: Trace) -> set[str]:
    return {str(trace.names[i]) for i in trace.host.name[trace.host.category == t.PYTHON]}


def around_frames(trace: Trace) -> set[str]:
    """Names of the ranges that hold a frame."""
    host = trace.host
    frames = host[host.category == t.PYTHON]
    thread, start, end = host.thread[:, None], host.start_ns[:, None], host.end_ns[:, None]
    inside = (frames.thread == thread) & (frames.start_ns >= start) & (frames.end_ns <= end)
    rows = np.flatnonzero(inside.any(axis=1))
    names = {str(trace.names[i]) for i in host.name[rows]}
    return {"ProfilerStep*" if name.startswith("ProfilerStep#") else name for name in names}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("version", EXACT)
def test_times_equal_torchs_to_the_nanosecond(shared: Path, version: str, scenario: str):
    trace = shared_trace(f"keyavg/{version}/{scenario}.trace.json.gz")
    ours, theirs = both(op_table(trace), shared / f"keyavg/{version}/{scenario}.ka.json")
    assert len(theirs) > 50
    if scenario == "stack" and version in FRAMES_TAKE_TIME:
        frames = frame_names(trace)
        assert frames
        without = {key: row for key, row in theirs.items() if key[0] not in frames}
        assert differing(ours, without, ["count", "cpu_ns"]) == set()
        assert differing(ours, without, TIMES) <= around_frames(trace) - frames
        return
    assert differing(ours, theirs, TIMES) == set()


@pytest.mark.parametrize("version", FRAMES_TAKE_TIME)
def test_with_frames_that_take_time_all_of_torchs_figures_follow(shared: Path, version: str):
    table = op_table_with_frames(shared_trace(f"keyavg/{version}/stack.trace.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/{version}/stack.ka.json")
    assert len(theirs) == 213
    assert differing(ours, theirs, DEVICE_TIMES + MEMORY) == set()


@pytest.mark.parametrize("version", EXACT)
def test_times_by_shape_equal_torchs_to_the_nanosecond(shared: Path, version: str):
    table = op_table_by_shape(shared_trace(f"keyavg/{version}/rich.trace.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/{version}/rich.ka_shape.json")
    assert len(theirs) == 133
    assert differing(ours, theirs, TIMES) == set()


@pytest.mark.parametrize("version", EXACT)
def test_memory_equals_torchs(shared: Path, version: str):
    table = op_table(shared_trace(f"keyavg/{version}/rich.trace.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/{version}/rich.ka.json")
    assert any(row["cpu_bytes"] for row in ours.values())
    # torch 2.4.1 compares absolute times as floats: an allocation on the border of a range can fall on the other side
    assert len(differing(ours, theirs, MEMORY)) <= (2 if version == "2.4.1" else 0)


@pytest.mark.parametrize("name", EDGE)
def test_edge_cases_equal_torchs_but_for_ranges_that_it_calls_asynchronous(shared: Path, name: str):
    table = op_table(shared_trace(f"keyavg/edge/{name}.trace.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/edge/{name}.ka.json")
    assert differing(ours, theirs, DEVICE_TIMES + MEMORY) == ({EDGE_EXCEPT[name]} if name in EDGE_EXCEPT else set())


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("version", WHOLE_MICROSECONDS)
def test_files_of_whole_microseconds_agree_within_one_a_call(shared: Path, version: str, scenario: str):
    """Torch nests by nanoseconds that the file lacks; of calls that tie in it up to 3 count otherwise, and carry their time."""
    table = op_table(shared_trace(f"keyavg/{version}/{scenario}.trace.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/{version}/{scenario}.ka.json")
    assert ours.keys() == theirs.keys()
    for key, their in theirs.items():
        our, lost = ours[key], abs(ours[key]["count"] - their["count"])
        assert lost <= 3, key
        longest = max(our["cpu_ns"], their["cpu_ns"]) / max(1, min(our["count"], their["count"]))
        assert abs(our["cpu_ns"] - their["cpu_ns"]) <= 1000 * max(our["count"], their["count"]) + lost * longest, key
    sums = [sum(row["self_cpu_ns"] for row in rows.values()) for rows in (ours, theirs)]
    assert sums[0] == pytest.approx(sums[1], rel=0.02)


@pytest.mark.parametrize("name", GPU)
def test_device_times_equal_torchs_but_for_its_collision_of_ids(shared: Path, name: str):
    table = op_table(shared_trace(f"traces/{name}.json.gz"))
    ours, theirs = both(table, shared / f"keyavg/gpu/{GPU[name]}.ka.json")
    changed = COLLISION.get(name, {})
    assert {call: ns for call, ns in table.inflated_by_torch.items() if call not in changed} == {}
    assert differing(ours, theirs, DEVICE_TIMES) == set(changed)
    found = {
        key[0]: [theirs[key][column] - ours[key][column] for column in DEVICE_TIMES]
        for key in ours
        if key[0] in changed and key[1] == "CPU"
    }
    assert found == changed
    assert {call: row[3] for call, row in found.items() if row[3]} == table.inflated_by_torch


TABLES = [
    *((version, scenario) for version in EXACT for scenario in ("base", "threads", "workers")),
    ("2.4.1", "stack"),
    ("2.11.0", "stack"),
    *(("edge", name) for name in EDGE if name not in EDGE_EXCEPT),
]


@pytest.mark.parametrize(("folder", "name"), TABLES, ids=["-".join(table) for table in TABLES])
def test_the_printed_table_equals_torchs_to_the_byte(shared: Path, folder: str, name: str):
    sort = None if folder == "edge" else "self_cpu_time_total"
    ours = torch_table(op_table(shared_trace(f"keyavg/{folder}/{name}.trace.json.gz")), sort, -1)
    assert ours.strip("\n") == (shared / f"keyavg/{folder}/{name}.table.txt").read_text().strip("\n")


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1", "2.13.0"])
def test_the_printed_table_with_memory_equals_torchs_but_for_the_flops(shared: Path, version: str):
    ours = torch_table(op_table(shared_trace(f"keyavg/{version}/rich.trace.json.gz")), "self_cpu_time_total", -1).splitlines()
    theirs = (shared / f"keyavg/{version}/rich.table.txt").read_text().splitlines()
    width = len(ours[0])
    assert "Total MFLOPs" in theirs[1][width:]
    assert [line[:width] for line in theirs] == ours
