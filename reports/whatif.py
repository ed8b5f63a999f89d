"""Predictions of a replay -> the answer of `longpole whatif`, as text for a terminal or as JSON."""

import json
from collections.abc import Sequence

import pandas as pd
from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from ..analyze.replay.quality import Quality
from ..analyze.replay.whatif import Prediction
from . import formats as f
from .measures import pct, us
from .render_terminal import EASY_NAME, grid
from .saving_words import excerpt_line, quality_line
from .tables import Head, TableView, table

SCHEMA = "longpole.whatif/1"
GAP = 2  # columns between those of the table
TOGETHER = "all of these at once"
HEADS = {
    "change": "What if",
    "after_ns": "Step",
    "saving_ns": "Saves",
    "low_ns": "from",
    "high_ns": "to",
    "saving_share": "Of step",
}
LOW, HIGH = (list(HEADS).index(name) for name in ("low_ns", "high_ns"))


def whatif_text(found: Sequence[Prediction], known: Quality, width: int) -> Group:
    """How well the replay explains this trace, then a row for each change, and all at once."""
    steps = found[0].measured_ns
    step = f"Step: {f.time(float(steps.mean()))}, mean of {len(steps)}" if len(steps) else "No step is whole"
    lines = [f"{step}.", *filter(None, (excerpt_line(known), quality_line(known)))]
    reasons = [f"Only the range counts: {reason}." for reason in dict.fromkeys(p.reason for p in found) if reason]
    rows = _with_range(table(_rows(found), HEADS, unit_of="after_ns"))
    return Group(*map(Text, (*lines, "")), grid(_fitting(rows, width), width), *map(Text, ("", *reasons) if reasons else ()))


def _with_range(view: TableView) -> TableView:
    """The least and the most in one column, so that a terminal of 80 columns has room for all."""
    unit = view.heads[LOW].text.rpartition(", ")[2]
    heads = (*view.heads[:LOW], Head(f"Range, {unit}", True), *view.heads[HIGH + 1 :])
    rows = tuple((*row[:LOW], f"{row[LOW]} to {row[HIGH]}", *row[HIGH + 1 :]) for row in view.rows)
    return TableView(heads, rows, view.more)


def _fitting(view: TableView, width: int) -> TableView:
    """Long changes cut in the middle: how much is left stands at their end."""
    columns = zip(*((head.text for head in view.heads), *view.rows), strict=True)
    numbers = sum(GAP + max(map(cell_len, cells)) for head, cells in zip(view.heads, columns, strict=True) if head.numeric)
    room = max(EASY_NAME, width - GAP - numbers)
    return TableView(view.heads, tuple((_cut(row[0], room), *row[1:]) for row in view.rows), view.more)


def _cut(change: str, room: int) -> str:
    if cell_len(change) <= room:
        return change
    what, _, how = change.rpartition(" ")
    return set_cell_size(what, max(0, room - cell_len(how) - 2)) + f"… {how}"


def whatif_json(found: Sequence[Prediction], known: Quality) -> str:
    """One object; times per step, the mean of the steps that are replayed."""
    answers = [
        {
            "changes": [str(change) for change in p.changes],
            "step_us": us(row["after_ns"]),
            "saving_us_per_step": us(p.saving_ns),
            "saving_low_us": us(p.low_ns),
            "saving_high_us": us(p.high_ns),
            "saving_pct": pct(row["saving_share"]),
            "predicted": p.point, "reason": p.reason,
        }
        for p, row in zip(found, _rows(found).to_dict("records"), strict=True)
    ]  # fmt: skip
    whole = {
        "schema": SCHEMA,
        "step_us": us(float(found[0].measured_ns.mean())),
        "ranks": known.ranks_count,
        "steps": known.steps_count,
        "of_steps": known.steps_count if known.of_steps_count is None else known.of_steps_count,
        "quality": quality_json(known),
        "answers": answers,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def quality_json(known: Quality) -> dict[str, float | int | str | None]:
    return {
        "structural_error_pct": pct(known.worst_structural),
        "unexplained_pct": pct(known.unexplained_share),
        "unrecorded_pct": pct(known.unrecorded_share),
        "inferred_edges": known.inferred_count,
        "between_ranks_error_pct": None if known.between_ranks is None else pct(known.between_ranks),
        "cross_step_error_pct": None if known.cross_step is None else pct(known.cross_step),
        "no_change_error_pct": None if known.no_change is None else pct(known.no_change),
        "reason": known.reason,
    }


def _rows(found: Sequence[Prediction]) -> pd.DataFrame:
    rows = []
    for p in found:
        step = float(p.measured_ns.mean()) if len(p.measured_ns) else float("nan")
        what = str(p.changes[0]) if len(p.changes) == 1 else TOGETHER
        rows.append((what, step - p.saving_ns, p.saving_ns, p.low_ns, p.high_ns, p.saving_ns / step))
    return pd.DataFrame(rows, columns=["change", "after_ns", "saving_ns", "low_ns", "high_ns", "saving_share"])
