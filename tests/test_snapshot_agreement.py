from pathlib import Path
from typing import Any

import pytest
from make_trace import annotation, frame, kernel, launch, make_trace, op, step, write_bundle

from longpole.analyze.analyses.snapshot_agreement import SnapshotAgreement, snapshot_agreement
from longpole.analyze.load import load
from longpole.capture.errors import MissingData

EVENTS = [step(1, 0, 100), op("aten::mm", 10, 40)]


def row(name: str, count: int, self_us: float, total_us: float, **other: Any) -> dict[str, Any]:
    plain = {"device_type": "CPU", "is_user_annotation": False, "device_time_total": 0, "is_async": False}
    return {"key": name, "count": count, "self_cpu_time_total": self_us, "cpu_time_total": total_us, **plain, **other}


STEP_ROW = row("ProfilerStep*", 1, 70.0, 100.0, is_user_annotation=True)


def agreement(folder: Path, events: list[Any], rows: list[dict[str, Any]]) -> SnapshotAgreement:
    return snapshot_agreement(load(write_bundle(folder / "run", events, snapshot=rows)))


def test_equal_rows_agree(tmp_path: Path):
    found = agreement(tmp_path, EVENTS, [STEP_ROW, row("aten::mm", 1, 30.0000000001, 30.0)])
    assert (found.rows_count, found.torch_version, found.agrees, len(found.differences)) == (2, "2.13.0", True, 0)


def test_one_nanosecond_is_a_difference(tmp_path: Path):
    found = agreement(tmp_path, EVENTS, [STEP_ROW, row("aten::mm", 1, 30.0, 30.001)])
    assert not found.agrees
    assert found.differences.to_dict("records") == [
        {"name": "aten::mm", "device_type": "CPU", "column": "cpu_ns", "torch": 30_001, "ours": 30_000, "reason": ""}
    ]


def test_a_row_that_we_lack_differs_in_all_it_holds(tmp_path: Path):
    found = agreement(tmp_path, EVENTS, [STEP_ROW, row("aten::mm", 1, 30.0, 30.0), row("aten::bmm", 2, 5.0, 6.0)])
    assert found.differences["ours"].tolist() == [0, 0, 0]
    assert not found.agrees


def test_a_row_that_torch_lacks_differs_too(tmp_path: Path):
    found = agreement(tmp_path, EVENTS, [STEP_ROW])
    assert found.differences[["name", "torch", "ours"]].to_numpy().tolist() == [
        ["aten::mm", 0, 1], ["aten::mm", 0, 30_000], ["aten::mm", 0, 30_000],
    ]  # fmt: skip


def test_torch_that_does_not_mark_annotations_adds_what_has_one_name(tmp_path: Path):
    events = [annotation("a", 0, 100), op("a", 10, 40), op("b", 50, 60)]
    rows = [row("a", 2, 90.0, 130.0, is_user_annotation=None), row("b", 1, 10.0, 10.0, is_user_annotation=None)]
    assert agreement(tmp_path, events, rows).agrees


def test_an_asynchronous_range_differs_for_a_known_reason(tmp_path: Path):
    found = agreement(tmp_path, EVENTS, [STEP_ROW, row("aten::mm", 1, 0, 30.0, is_async=True)])
    assert (len(found.differences), found.agrees) == (1, True)


def test_rows_that_torch_inflates_differ_for_a_known_reason(tmp_path: Path):
    events = [
        op("a", 0, 50, **{"External id": 5}),
        launch(5, 60, 65, name="hipEventDestroy"),
        kernel("k", 9, 19, **{"External id": 5}),
    ]
    a = row("a", 1, 50.0, 50.0, device_time_total=10.0)
    k = row("k", 1, 0.0, 0.0, device_type="CUDA", device_time_total=10.0)
    found = agreement(tmp_path, events, [a, row("hipEventDestroy", 1, 5.0, 5.0, device_time_total=10.0), k])
    assert found.differences[["torch", "ours"]].to_numpy().tolist() == [[10_000, 0]]
    assert found.agrees


def test_a_snapshot_with_frames_is_compared_with_frames(tmp_path: Path):
    events = [op("a", 0, 50), frame("f.py(1): g", 10, 40)]
    assert agreement(tmp_path, events, [row("a", 1, 20.0, 50.0), row("f.py(1): g", 1, 30.0, 30.0)]).agrees


def test_without_a_snapshot_there_is_nothing_to_compare(tmp_path: Path):
    with pytest.raises(MissingData, match="bare trace"):
        snapshot_agreement(make_trace(EVENTS))
    with pytest.raises(MissingData, match="no key_averages snapshot"):
        snapshot_agreement(load(write_bundle(tmp_path / "run", EVENTS)))
