"""The snapshot holds what key_averages() said, row by row, in JSON types only."""

import json
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest

from longpole.analyze.analyses.snapshot_agreement import snapshot_agreement
from longpole.analyze.load import load
from longpole.capture.snapshot import ROW_ATTRIBUTES, encoded, row, snapshot

torch = pytest.importorskip("torch")

SNAPSHOTS = ("key_averages", "key_averages_by_shape")


def profiled(shapes: bool = False):
    weights = torch.rand(4, 4, requires_grad=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes, profile_memory=True, with_flops=True
    ) as profiler:
        for rows in (2, 2, 3):
            (torch.rand(rows, 4) @ weights).relu().sum().backward()
    return profiler


def test_each_row_equals_the_row_of_key_averages():
    averages = profiled().key_averages()
    rows = snapshot(averages, by_shape=False, events=10, options={})["rows"]
    assert [r["key"] for r in rows] == [a.key for a in averages]
    assert [r["count"] for r in rows] == [a.count for a in averages]
    assert [r["self_cpu_time_total"] for r in rows] == [a.self_cpu_time_total for a in averages]
    assert [r["cpu_memory_usage"] for r in rows] == [a.cpu_memory_usage for a in averages]
    assert [r["flops"] for r in rows] == [a.flops for a in averages]


def test_rows_by_shape_keep_the_shapes():
    averages = profiled(shapes=True).key_averages(group_by_input_shape=True)
    rows = snapshot(averages, by_shape=True, events=10, options={})["rows"]
    multiplied = [(r["input_shapes"], r["count"]) for r in rows if r["key"] == "aten::mm"]
    assert ([[2, 4], [4, 4]], 2) in multiplied
    assert ([[3, 4], [4, 4]], 1) in multiplied


def test_every_attribute_that_differs_between_rows_is_kept():
    averages = profiled(shapes=True).key_averages(group_by_input_shape=True)
    derived = {"cpu_children", "cpu_parent"}  # events of their own, and only those of the first call
    assert set(vars(averages[0])) - derived <= set(ROW_ATTRIBUTES)


def test_the_header_says_how_the_rows_were_made():
    content = snapshot([], by_shape=True, events=7, options={"shapes": True})
    assert content["torch"] == torch.__version__
    assert content["units"] == {"time": "us", "memory": "bytes"}
    assert (content["group_by_input_shape"], content["events"], content["options"]) == (True, 7, {"shapes": True})


def test_the_file_reads_back_as_the_same_rows():
    content = snapshot(profiled().key_averages(), by_shape=False, events=10, options={})
    assert json.loads(encoded(content)) == content


def test_names_of_older_torch_are_read():
    older = row(SimpleNamespace(key="aten::mm", cuda_time_total=5, self_cuda_memory_usage=7))
    assert (older["device_time_total"], older["self_device_memory_usage"]) == (5, 7)
    assert older["is_user_annotation"] is None


def test_only_json_types_leave():
    device = Enum("DeviceType", ["CPU"])
    plain = row(SimpleNamespace(device_type=device["CPU"], flops=float("nan"), input_shapes=[(1, 2)], stack=[object]))
    assert plain["device_type"] == "CPU"
    assert plain["flops"] is None
    assert plain["input_shapes"] == [[1, 2]]
    assert isinstance(plain["stack"][0], str)


def test_both_snapshots_of_a_real_recording_agree_with_the_recomputed_table(tmp_path: Path):
    pytest.importorskip("gymnasium")
    from longpole.capture.workloads import WORKLOADS

    WORKLOADS["dqn"].capture(tmp_path / "run", variant="after", steps=3, wait=2, warmup=1, shapes=True, device="cpu")
    found = snapshot_agreement(load(tmp_path / "run"))
    rows = [json.loads((tmp_path / "run" / f"rank0.{name}.json").read_text(encoding="utf-8"))["rows"] for name in SNAPSHOTS]
    assert found.rows_count == sum(map(len, rows)) > len(rows[0])
    assert found.agrees and found.differences.empty
