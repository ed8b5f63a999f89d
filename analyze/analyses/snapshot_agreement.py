"""Do the operator times agree with the key_averages() that torch itself took at capture?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...capture.errors import MissingData
from ..load import load_snapshot
from ..trace import PYTHON, Trace
from .op_table import OpTable, op_table, op_table_with_frames

COMPARED = {"count": 1, "self_cpu_time_total": 1000, "cpu_time_total": 1000, "device_time_total": 1000}  # -> our integers
OURS = ["count", "self_cpu_ns", "cpu_ns", "device_ns"]
EXTRA = "torch_extra_ns"
COLLISION_REASON = "torch takes a runtime call whose own number equals an operator's id for that operator"
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
    file = trace.manifest.ranks[0].key_averages
    if file is None:
        raise MissingData("The bundle has no key_averages snapshot; its manifest says why.")
    snapshot = load_snapshot(Path(trace.source.path), file)
    with_frames = any(row["key"] in frames for row in snapshot["rows"]) if (frames := _frame_names(trace)) else False
    table = (op_table_with_frames if with_frames else op_table)(trace)
    keys = ["name", "device_type", "is_user_annotation"]
    ours = {tuple(row[key] for key in keys): [row[c] for c in [*OURS, EXTRA]] for row in table.rows.to_dict("records")}
    return SnapshotAgreement(
        rows_count=len(snapshot["rows"]),
        torch_version=str(snapshot.get("torch", trace.manifest.versions.get("torch", "unknown"))),
        differences=_differences(snapshot["rows"], ours, table),
    )


def _frame_names(trace: Trace) -> set[str]:
    return {str(trace.names[i]) for i in set(trace.host.name[trace.host.category == PYTHON].tolist())}


def _differences(theirs: list[dict[str, Any]], ours: dict[tuple[Any, ...], list[int]], table: OpTable) -> pd.DataFrame:
    found = []
    for row in theirs:
        key = (row["key"], row["device_type"], bool(row["is_user_annotation"]))
        *mine, extra_ns = ours.get(key, [0] * (len(OURS) + 1))
        for column, our_value, (their_name, factor) in zip(OURS, mine, COMPARED.items(), strict=True):
            their_value = round((row.get(their_name) or 0) * factor)
            if their_value != our_value:
                reason = _reason(row, column, their_value - our_value, extra_ns, table)
                found.append((row["key"], row["device_type"], column, their_value, our_value, reason))
    return pd.DataFrame(found, columns=["name", "device_type", "column", "torch", "ours", "reason"])


def _reason(row: dict[str, Any], column: str, difference: int, extra_ns: int, table: OpTable) -> str:
    """Why torch's figure differs, where that is known: device time to the nanosecond, self CPU by what torch can have moved."""
    if row.get("is_async"):
        return ASYNC_REASON
    if column == "device_ns" and difference == extra_ns:
        return COLLISION_REASON
    if column == "self_cpu_ns" and 0 < abs(difference) <= table.moved_by_torch_ns:
        return COLLISION_REASON
    return ""
