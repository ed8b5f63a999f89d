"""HistoryReport -> CSV for a spreadsheet: a row for each run, with its stretch, and what changes or breaks before it."""

import csv
import io
from collections.abc import Sequence
from itertools import accumulate

from ...analyze.history import History, HistoryRun
from ...analyze.measured import STEP
from ..measures import pct, us
from ..svg import clean
from .model import HistoryReport

HEADS = (
    "run", "name", "captured_at", "commit", "steps", "step_us", "ci_low_us", "ci_high_us", "unprofiled_step_us", "peak_bytes",
    "stretch", "broken_by", "step_change_pct", "step_change_p", "peak_change_pct", "peak_change_p",
)  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet may run (OWASP, CSV injection)


def render_csv(report: HistoryReport) -> bytes:
    """UTF-8; text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    csv.writer(text).writerows([HEADS, *_rows(report.found)])
    return text.getvalue().encode("utf-8")


def _rows(found: History) -> list[Sequence[object]]:
    breaks = {broken.at: "; ".join(broken.reasons) for broken in found.breaks}
    stretch = accumulate(row in breaks for row in range(len(found.runs)))
    changes = {(point.metric == STEP, point.at): (pct(point.change_share), point.chance) for point in found.changes.points}
    nothing = ("", "")
    return [
        [
            row + 1, *_of_run(run), number + 1, defused(breaks.get(row, "")),
            *changes.get((True, row), nothing), *changes.get((False, row), nothing),
        ]
        for row, (run, number) in enumerate(zip(found.runs, stretch, strict=True))
    ]  # fmt: skip


def _of_run(run: HistoryRun) -> list[object]:
    low, high = (us(run.interval.low), us(run.interval.high)) if run.interval else ("", "")
    unprofiled = "" if run.unprofiled_ns is None else us(run.unprofiled_ns)
    peak = "" if run.peak_bytes is None else round(run.peak_bytes, 3)
    names = (defused(text or "") for text in (run.name, run.captured_at, run.commit))
    return [*names, run.steps_count, us(run.step_ns), low, high, unprofiled, peak]


def defused(text: str) -> str:
    """The text, one line, that no spreadsheet runs."""
    return f"'{clean(text)}" if text.startswith(FORMULA) else clean(text)
