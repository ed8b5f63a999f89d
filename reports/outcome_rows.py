"""Outcome -> the rows of its tables, as printed text: each finding of the first run, what was predicted, what was measured."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..analyze.diffs.fates import Fate
from ..analyze.diffs.outcome import Comparison, Outcome
from ..analyze.diffs.outcome_text import outcome_text, phase_text, places
from ..analyze.findings import Finding
from . import formats as f
from .model import Report
from .prose import sentence

MOST_FATES = 6  # on page one; the section has all
HEADS = ("Finding of the first report", "Now", "Predicted", "Possible range", "Measured", f"95{f.NARROW}% interval", "Verdict")
NOTE = (
    "Changes of the step time. Measured is the whole step, whatever else changed between the two captures; "
    "each prediction is for that change alone."
)


@dataclass(frozen=True)
class OutcomeRow:
    """One finding, or what is gone together; changes of the step. `word`: as predicted, less than predicted, …"""

    label: str
    now: str
    predicted: str
    possible: str
    measured: str = ""
    interval: str = ""
    word: str = ""


def outcome_lines(report: Report) -> list[str]:
    """What page one says of the findings, in sentences; empty where nothing was predicted nor found."""
    found: Outcome | None = report.result("outcome") if report.told else None
    texts = [outcome_text(found), phase_text(found)] if found else []
    return [sentence(text) for text in texts if text]


def outcome_rows(report: Report) -> list[OutcomeRow]:
    """Findings that save time, the first run's first, and what those that are gone saved; one unit for all."""
    found: Outcome | None = report.result("outcome")
    if found is None or not report.told:
        return []
    saving = [fate for fate in found.fates if fate.finding.saves]
    shown = [fate for i, fate in enumerate(saving) if i < MOST_FATES or fate in found.gone]
    unit = f.choose_unit(max((abs(ns) for ns in _times(found, shown)), default=0))
    if len(found.gone) != 1:
        together = _measured(f"{places(found.gone)} together", found, unit) if found.gone else []
        return [*(_row(fate, unit) for fate in shown), *together]
    rows = [_measured(_label(fate), found, unit) if fate in found.gone else [] for fate in shown]
    return [row for fate, compared in zip(shown, rows, strict=True) for row in compared or [_row(fate, unit)]]


def _times(found: Outcome, shown: list[Fate]) -> Iterator[float]:
    for compared in (found.profiled, found.unprofiled):
        if compared:
            yield compared.measured_ns
    for fate in shown:
        yield fate.finding.saving_ns


def fate_rows(found: Outcome) -> list[tuple[str, ...]]:
    """Of the section, all findings: number, title, now, predicted, at least, at most, without the profiler."""
    return [(str(fate.place or ""), sentence(fate.finding.title), _now(fate), *_predicted(fate.before)) for fate in found.fates]


def _predicted(before: Finding | None) -> tuple[str, ...]:
    if before is None:
        return ("", "", "", "")
    if not before.saves:
        return ("worth knowing", "", "", "")
    without = before.saving_unprofiled_ns
    times = [f.time(-ns) for ns in (before.saving_ns, before.low_ns, before.high_ns)]
    return (*times, "" if without is None else f.time(-without))


def _label(fate: Fate) -> str:
    title = sentence(fate.finding.title)
    return f"{fate.place}. {title}" if fate.place else title


def _row(fate: Fate, unit: f.Unit) -> OutcomeRow:
    now = _now(fate, unit)
    if fate.before is None:
        return OutcomeRow(_label(fate), now, "", "")
    saving = fate.before
    return OutcomeRow(_label(fate), now, f.time(-saving.saving_ns, unit), _range(saving.low_ns, saving.high_ns, unit))


def _now(fate: Fate, unit: f.Unit | None = None) -> str:
    """`smaller: −0.20 ms`: the status, and what the second run would still save."""
    status = fate.status.replace("_", " ")
    return f"{status}: {f.time(-fate.after.saving_ns, unit)}" if fate.after and fate.after.saves else status


def _measured(label: str, found: Outcome, unit: f.Unit) -> list[OutcomeRow]:
    """Of all that is gone."""
    if found.profiled is None:
        return []
    first = _compared(label, "gone", found.profiled, unit)
    return [first, _compared("without the profiler", "", found.unprofiled, unit)] if found.unprofiled else [first]


def _compared(label: str, now: str, compared: Comparison, unit: f.Unit) -> OutcomeRow:
    predicted, interval = compared.predicted, compared.interval
    return OutcomeRow(
        label,
        now,
        f.time(-predicted.expected_ns, unit) if predicted else f.UNKNOWN,
        _range(predicted.low_ns, predicted.high_ns, unit) if predicted else "",
        f.time(-compared.measured_ns, unit, sign=True),
        _range(interval.low, interval.high, unit, sign=True) if interval else "",
        (compared.word or "").replace("_", " "),
    )


def _range(low_ns: float, high_ns: float, unit: f.Unit, sign: bool = False) -> str:
    most, least = (f.number(-ns / unit.ns_per_unit, unit.decimals, sign) for ns in (high_ns, low_ns))
    return f.interval(most, least)
