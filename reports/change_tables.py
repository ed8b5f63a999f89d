"""Rows of changes by name -> a table as printed, with what stands under a name: what it was called before, which kernels came."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from .tables import TableView, clipped, table

BEFORE_AFTER = {"before_ns": "Before", "after_ns": "After", "change_ns": "Change"}
INTERVAL = {"low_change_ns": "95 % from", "high_change_ns": "to"}
VERDICT = {"status": "Verdict"}
MOST_ROWS = 200  # whole tables are in the JSON


@dataclass(frozen=True)
class ChangeView:
    """`notes`: for each row, lines that stand under its name."""

    view: TableView
    notes: tuple[tuple[str, ...], ...]


def change_view(rows: pd.DataFrame, names: Mapping[str, str], limit: int | None = None, more: str = "") -> ChangeView:
    """`names`: the columns that come first, with their heads; `more`: a column with a note for the rows that have one."""
    shown = rows if limit is None else rows.head(limit)
    notes = [
        tuple(clipped(line) for line in (f"before: {was}" if was else "", note) if line)
        for was, note in zip(shown["was"], shown[more] if more else [""] * len(shown), strict=True)
    ]
    return ChangeView(table(rows, {**names, **heads_of(shown)}, limit=limit, unit_of="before_ns"), tuple(notes))


def memory_view(rows: pd.DataFrame) -> TableView:
    """Rows of MemoryChanges."""
    heads = heads_of(rows.rename(columns=lambda name: name.replace("_bytes", "_ns")))
    return table(rows, {"name": "Memory", **{name.replace("_ns", "_bytes"): head for name, head in heads.items()}})


def heads_of(rows: pd.DataFrame) -> dict[str, str]:
    """Columns of a change; of intervals only where any is known."""
    known = rows["low_change_ns"].notna().any()
    return {**BEFORE_AFTER, **(INTERVAL if known else {}), **VERDICT}
