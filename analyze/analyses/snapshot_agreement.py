"""Do the operator times agree with the key_averages() that torch itself took at capture?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..trace import PYTHON, Trace
from .op_table import KEYS, OpTable, op_table, op_table_by_shape, op_table_with_frames

COMPARED = {"count": 1, "self_cpu_time_total": 1000, "cpu_time_total": 1000, "device_time_total": 1000}  # -> our integers
OURS = ["count", "self_cpu_ns", "cpu_ns", "device_ns"]
EXTRA = "torch_extra_ns"
COLLISION_REASON = "torch takes a runtime call whose own number equals an operator's id for that operator"
FRAMES_REASON = "torch lets Python frames take self time from operators, and does not list them"
ASYNC_REASON = "an asynchronous or unfinished range; the trace file does not mark it as torch does"


@dataclass(frozen=True, eq=False)
class SnapshotAgreement:
    """`rows_count` rows of torch's table were compared in count, self CPU, CPU total and device total, to the nanosecond.

    `differences`: name; device_type; column; torch (count or ns); ours; reason ("" where none is known).
    """

    rows_count: int
    torch_version: str
    differences: pd.DataFrame

    @property
    def agrees(self) -> bool:
        return not len(self.differences) or bool((self.differences["reason"] != "").all())


def snapshot_agreement(trace: Trace) -> SnapshotAgreement:
    """Compare the bundle's snapshot with the recomputed table; MissingData where there is none."""
    if trace.manifest is None:
        raise MissingData("A bare trace has no snapshot; capture with longpole to get one.")
    plain, by_shape = trace.averages, trace.averages_by_shape
    if plain is None:
        raise MissingData("The bundle has no key_averages snapshot; its manifest says why.")
    frames = _frame_names(trace)
    with_frames = any(row["key"] in frames for row in plain["rows"])
    parts = [(plain["rows"], (op_table_with_frames if with_frames else op_table)(trace))]
    if by_shape and trace.shapes and not frames:  # frames have no shapes: torch's self times then differ
        parts.append((by_shape["rows"], op_table_by_shape(trace)))
    found = [difference for rows, table in parts for difference in _differences(rows, table, bool(frames) and not with_frames)]
    return SnapshotAgreement(
        rows_count=sum(len(rows) for rows, _ in parts),
        torch_version=str(plain.get("torch", trace.manifest.versions.get("torch", "unknown"))),
        differences=pd.DataFrame(found, columns=["name", "device_type", "column", "torch", "ours", "reason"]),
    )


def _frame_names(trace: Trace) -> set[str]:
    return {str(trace.names[i]) for i in np.unique(trace.host.name[trace.host.category == PYTHON])}


def _differences(theirs: list[dict[str, Any]], table: OpTable, hidden_frames: bool) -> list[tuple[Any, ...]]:
    """Every figure that is not the same, of rows that either side has."""
    rows = table.rows
    if not any(row["is_user_annotation"] for row in theirs):  # torch before 2.8 has no such mark and adds what has one name
        rows = rows.assign(is_user_annotation=False).groupby(KEYS, sort=False)[[*OURS, EXTRA]].sum().reset_index()
    ours = {tuple(row[key] for key in KEYS): row for row in rows.to_dict("records")}
    torchs = {_key(row): row for row in theirs}
    found = []
    for key in dict.fromkeys([*torchs, *ours]):
        row, mine = torchs.get(key, {}), ours.get(key, {})
        for column, (their_name, factor) in zip(OURS, COMPARED.items(), strict=True):
            their_value, our_value = round((row.get(their_name) or 0) * factor), int(mine.get(column, 0))
            if their_value != our_value:
                reason = _reason(row, column, their_value - our_value, int(mine.get(EXTRA, 0)), table)
                if hidden_frames and column == "self_cpu_ns":
                    reason = reason or FRAMES_REASON
                found.append((key[0], key[1], column, their_value, our_value, reason))
    return found


def _key(row: dict[str, Any]) -> tuple[str, str, bool, str]:
    """A row of torch's table by KEYS; grouped by name alone, its input_shapes are no list."""
    shapes = row.get("input_shapes")
    return row["key"], row["device_type"], bool(row["is_user_annotation"]), str(shapes) if isinstance(shapes, list) else ""


def _reason(row: dict[str, Any], column: str, difference: int, extra_ns: int, table: OpTable) -> str:
    """Why torch's figure differs, where that is known: device time to the nanosecond, self CPU by what torch can have moved."""
    if row.get("is_async"):
        return ASYNC_REASON
    if column == "device_ns" and difference == extra_ns:
        return COLLISION_REASON
    if column == "self_cpu_ns" and 0 < abs(difference) <= table.moved_by_torch_ns:
        return COLLISION_REASON
    return ""
