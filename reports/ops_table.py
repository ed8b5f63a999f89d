"""OpTable -> the text that torch's `key_averages().table()` prints, column for column."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from ..analyze.analyses.op_table import OpTable
from .svg import clean

NAME_WIDTH, SHAPES_WIDTH, WIDTH, GAP = 55, 80, 12, "  "  # torch's defaults
DEVICE = "CUDA"  # torch names ROCm devices so too
SORT_KEYS = {
    "count": "count",
    "cpu_time": "cpu_time",
    "cpu_time_total": "cpu_torch_us",
    "self_cpu_time_total": "self_cpu_torch_us",
    "cpu_memory_usage": "cpu_bytes",
    "self_cpu_memory_usage": "self_cpu_bytes",
    "device_time": "device_time",
    "device_time_total": "device_ns",
    "self_device_time_total": "self_device_ns",
    "device_memory_usage": "device_bytes",
    "self_device_memory_usage": "self_device_bytes",
}
SORT_KEYS |= {key.replace("device", "cuda"): column for key, column in SORT_KEYS.items() if "device" in key}

Row = dict[str, Any]
Column = tuple[str, int, Callable[[Row], str]]  # head, width, cell


def torch_table(table: OpTable, sort: str | None = None, limit: int = 100) -> str:
    """The table sorted by one of torch's keys, largest first (None: in the order of first start), `limit` rows; -1 for all."""
    ordered = _sorted(table.rows, sort)
    rows: list[Row] = ordered.assign(name=ordered["name"].map(clean)).to_dict("records")  # pyright: ignore[reportAssignmentType]
    columns = _columns(table, rows)
    rule = "".join("-" * width + GAP for _, width, _ in columns)
    lines = [rule, _line(columns, [head for head, _, _ in columns]), rule]
    shown = rows if limit < 0 else rows[:limit]
    lines += [_line(columns, [cell(row) for _, _, cell in columns]) for row in shown]
    lines += [rule, f"Self CPU time total: {torch_time(_self_cpu_us(rows))}"]
    if table.has_device:
        lines.append(f"Self {DEVICE} time total: {torch_time(table.self_device_ns / 1000)}")
    return "\n".join(lines) + "\n"


def _sorted(rows: pd.DataFrame, sort: str | None) -> pd.DataFrame:
    rows = rows.assign(cpu_time=rows["cpu_torch_us"] / rows["count"], device_time=rows["device_ns"] / rows["count"])
    return rows if sort is None else rows.sort_values(SORT_KEYS[sort], ascending=False, kind="stable")


def _self_cpu_us(rows: list[Row]) -> float:
    """The denominator of both CPU percentages: self time of all rows, over all threads."""
    return sum(row["self_cpu_torch_us"] for row in rows)


def _columns(table: OpTable, rows: list[Row]) -> list[Column]:
    def time_us(key: str) -> Callable[[Row], str]:
        return lambda row: torch_time(row[key])

    def time_ns(key: str) -> Callable[[Row], str]:
        return lambda row: torch_time(row[key] / 1000)

    def share(key: str, total: float) -> Callable[[Row], str]:
        return lambda row: "NaN" if total == 0 else f"{row[key] * 100.0 / total:.2f}%"

    def memory(key: str) -> Callable[[Row], str]:
        return lambda row: torch_memory(row[key])

    self_cpu_us = _self_cpu_us(rows)
    name_width = min(max((len(row["name"]) for row in rows), default=0) + 4, NAME_WIDTH)
    columns: list[Column] = [
        ("Name", name_width, lambda row: _clipped(row["name"])),
        ("Self CPU %", WIDTH, share("self_cpu_torch_us", self_cpu_us)),
        ("Self CPU", WIDTH, time_us("self_cpu_torch_us")),
        ("CPU total %", WIDTH, share("cpu_torch_us", self_cpu_us)),
        ("CPU total", WIDTH, time_us("cpu_torch_us")),
        ("CPU time avg", WIDTH, time_us("cpu_time")),
    ]
    if table.has_device:
        columns += [
            (f"Self {DEVICE}", WIDTH, time_ns("self_device_ns")),
            (f"Self {DEVICE} %", WIDTH, share("self_device_ns", table.self_device_ns)),
            (f"{DEVICE} total", WIDTH, time_ns("device_ns")),
            (f"{DEVICE} time avg", WIDTH, time_ns("device_time")),
        ]
    if table.has_memory:
        columns += [("CPU Mem", WIDTH, memory("cpu_bytes")), ("Self CPU Mem", WIDTH, memory("self_cpu_bytes"))]
        if any(row["self_device_bytes"] > 0 for row in rows):
            columns += [
                (f"{DEVICE} Mem", WIDTH, memory("device_bytes")),
                (f"Self {DEVICE} Mem", WIDTH, memory("self_device_bytes")),
            ]
    columns.append(("# of Calls", WIDTH, lambda row: str(row["count"])))
    if any(row["input_shapes"] for row in rows):
        width = min(max(len(row["input_shapes"]) for row in rows) + 4, SHAPES_WIDTH)
        columns.append(("Input Shapes", width, lambda row: row["input_shapes"][:width]))
    return columns


def _line(columns: list[Column], cells: list[str]) -> str:
    return "".join(f"{cell:>{width}}{GAP}" for (_, width, _), cell in zip(columns, cells, strict=True))


def _clipped(name: str) -> str:
    return name if len(name) < NAME_WIDTH - 3 else name[: NAME_WIDTH - 3] + "..."


def torch_time(us: float) -> str:
    """Three decimals in µs, ms or s, as torch."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def torch_memory(size_bytes: int) -> str:
    """Two decimals in KB, MB or GB of 1024, as torch."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.2f} {unit}"
    return f"{size_bytes} B"
