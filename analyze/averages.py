"""A key_averages snapshot -> the rows of an operator table, in torch's own numbers."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

TIMES = {"cpu": "cpu_time_total", "self_cpu": "self_cpu_time_total", "device": "device_time_total",
         "self_device": "self_device_time_total"}  # fmt: skip
SIZES = {"cpu": "cpu_memory_usage", "self_cpu": "self_cpu_memory_usage", "device": "device_memory_usage",
         "self_device": "self_device_memory_usage"}  # fmt: skip
KEYS = ["name", "device_type", "is_user_annotation", "input_shapes"]


def torch_rows(snapshot: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each (name, device_type, is_user_annotation, input_shapes), in torch's order; columns as in OpTable.

    Rows that differ in what we do not show (the stack, the overload) are added up. Torch's microseconds become the nearest ns.
    """
    rows = [_row(row, by_shape(snapshot)) for row in snapshot["rows"]]
    return pd.DataFrame(rows).groupby(KEYS, sort=False).sum().reset_index() if rows else pd.DataFrame()


def by_shape(snapshot: Mapping[str, Any]) -> bool:
    """Whether the rows are grouped by input shapes; where the header does not say, by what they hold."""
    said = snapshot.get("group_by_input_shape")
    return any(isinstance(row.get("input_shapes"), list) for row in snapshot["rows"]) if said is None else bool(said)


def torch_version(snapshot: Mapping[str, Any]) -> str | None:
    """The torch that made the snapshot, where it says so."""
    return str(snapshot["torch"]) if snapshot.get("torch") else None


def _row(row: Mapping[str, Any], with_shapes: bool) -> dict[str, Any]:
    shapes = row.get("input_shapes")
    times_us = {ours: _number(row, theirs) for ours, theirs in TIMES.items()}
    return {
        "name": str(row["key"]),
        "device_type": str(row.get("device_type") or "CPU").rsplit(".", 1)[-1],
        "is_user_annotation": bool(row.get("is_user_annotation")),
        "input_shapes": str(shapes) if with_shapes and isinstance(shapes, list) else "",
        "count": int(row.get("count") or 0),
        **{f"{ours}_ns": round(us * 1000) for ours, us in times_us.items()},
        **{f"{ours}_bytes": round(_number(row, theirs)) for ours, theirs in SIZES.items()},
        "cpu_torch_us": float(times_us["cpu"]),
        "self_cpu_torch_us": float(times_us["self_cpu"]),
        "torch_extra_ns": 0,
    }


def _number(row: Mapping[str, Any], name: str) -> float:
    """A figure of a row; before torch 2.4 `device` was `cuda`. What a torch lacks is 0."""
    return row.get(name) or row.get(name.replace("device_", "cuda_")) or 0
