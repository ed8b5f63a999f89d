"""Times added up by name -> the tables of terminal and Markdown, where a recording has no steps to tell of."""

from dataclasses import replace

import pandas as pd

from ..analyze.diffs.total_changes import TOTALS_ONLY, TotalChanges
from .model import Report
from .tables import TableView, table

Titled = list[tuple[str, TableView]]
CHANGE_HEADS = {"name": "Name", "before_ns": "Before", "after_ns": "After", "change_ns": "Change"}


def total_tables(report: Report, limit: int) -> Titled:
    """Of one run: another tool's ranges, or the operators of a snapshot; none of a run whose steps were told."""
    if ranges := report.result("slices"):
        parts = [
            ("On devices", ranges.device, {"total_ns": "Total", "total_share": "Of all device time"}),
            ("On threads", ranges.host, {"self_ns": "Self", "total_ns": "Total", "self_share": "Of all self time"}),
            ("Asynchronous", ranges.asynchronous, {"total_ns": "Total", "total_share": "Of all asynchronous time"}),
        ]
        return [(t, table(rows, {"name": t, "count": "Calls", **heads}, limit=limit)) for t, rows, heads in parts if len(rows)]
    ops = report.result("op_table")
    if report.result("steps") or ops is None:
        return []
    heads = {"name": "Operator", "count": "Calls", "self_cpu_ns": "Self CPU", "cpu_ns": "CPU total"}
    if ops.has_device:
        heads |= {"self_device_ns": "Self device"}
    if ops.by_shape:
        heads |= {"input_shapes": "Input shapes"}
    return [("Operators", table(ops.rows.sort_values("self_cpu_ns", ascending=False, kind="stable"), heads, limit=limit))]


def total_change_tables(totals: TotalChanges, limit: int) -> Titled:
    """Of two runs: changes by name, on the host and on devices."""
    parts = [("On the host", totals.host), ("On devices", totals.device)]
    return [(title, change_table(rows, limit)) for title, rows in parts if len(rows)]


def change_table(rows: pd.DataFrame, limit: int) -> TableView:
    """Changes of totals; what was called otherwise before; a status where a name came or went, for more is not known of any."""
    shown = rows.head(limit)
    came_or_went = shown["status"].where(shown["status"] != TOTALS_ONLY, "")
    heads = CHANGE_HEADS | ({"was": "Called before"} if shown["was"].any() else {})
    heads |= {"status": "Status"} if came_or_went.any() else {}
    return replace(table(shown.assign(status=came_or_went), heads, unit_of="before_ns"), more=len(rows) - len(shown))
