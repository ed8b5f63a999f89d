"""Outcome -> what a reviewer is told of it: which findings are gone, and what was predicted beside what was measured."""

from collections.abc import Sequence
from typing import Any

from ..findings import Text
from .fates import GONE, SMALLER, Fate
from .outcome import AS_PREDICTED, CANNOT_BE_TOLD, LESS, MORE, Comparison, Outcome

MEANINGS = {
    AS_PREDICTED: ", and the step is shorter as predicted: ",
    MORE: ", and the step is shorter by more than predicted: ",
    LESS: ", yet the step is shorter by less than predicted: ",
    CANNOT_BE_TOLD: ", yet the change is within noise, and whether that saved what was predicted cannot be told: ",
}
NO_SHORTER = ", yet the step is no shorter: "
TOO_FEW = ". There are too few steps to tell whether that saved what was predicted: "
NOT_TOGETHER = ". They were not predicted together, and what each would save does not add up; the whole step differs by "
NOT_COMPARABLE = ". The runs cannot be compared, so what that saved cannot be told."


def outcome_text(outcome: Outcome) -> Text:
    """One sentence for page one."""
    if not outcome.gone:
        return _nothing_gone(outcome.fates)
    subject, values = _subject(outcome.gone, GONE)
    if outcome.decisive is None:
        return Text(subject + NOT_COMPARABLE, values)
    compared, numbers = outcome.decisive, _numbers(outcome.decisive)
    measured = "{measured_change_ns}"
    if compared.interval:
        measured += " measured (95\u202f% interval {low_change_ns} to {high_change_ns})"
    where = " without the profiler." if compared is outcome.unprofiled else "."
    if compared.predicted is None:
        return Text(subject + NOT_TOGETHER + measured.replace(" measured", "") + where, values | numbers)
    if not compared.interval:
        measured += " measured"
    predicted = "{predicted_change_ns} a step predicted ({most_change_ns} to {least_change_ns}), "
    return Text(subject + _meaning(compared) + predicted + measured + where, values | numbers)


def phase_text(outcome: Outcome) -> Text | None:
    """Where the whole step did not do what was predicted: whether the phase of the finding did."""
    profiled, change = outcome.profiled, outcome.phase_change_ns
    if change is None or profiled is None or profiled.predicted is None or outcome.word not in (LESS, MORE):
        return None
    return Text.of(
        "In the recorded steps {phase}, where it was, changed by {phase_change_ns}; {predicted_change_ns} were predicted.",
        phase=outcome.gone[0].finding.phase.replace("_", " "),
        phase_change_ns=change,
        predicted_change_ns=-profiled.predicted.expected_ns,
    )


def _meaning(compared: Comparison) -> str:
    if compared.interval is None:
        return TOO_FEW
    word = compared.word or CANNOT_BE_TOLD
    return NO_SHORTER if word == LESS and compared.interval.low <= 0 else MEANINGS[word]


def _numbers(compared: Comparison) -> dict[str, Any]:
    values = {"measured_change_ns": -compared.measured_ns}
    if compared.interval:
        values |= {"low_change_ns": -compared.interval.high, "high_change_ns": -compared.interval.low}
    if saving := compared.predicted:
        values |= {"predicted_change_ns": -saving.expected_ns}
        values |= {"most_change_ns": -saving.high_ns, "least_change_ns": -saving.low_ns}
    return values


def _nothing_gone(fates: Sequence[Fate]) -> Text:
    predicted = [fate for fate in fates if fate.before and fate.before.saves]
    if not predicted:
        return Text("The first report has no change that saves time, so nothing was predicted.")
    if smaller := [fate for fate in predicted if fate.status == SMALLER]:
        subject, values = _subject(smaller, SMALLER)
        return Text(subject + "; none is gone, so there is nothing to hold against what was predicted.", values)
    return Text("What the first report found is still there; none of its changes shows in the second run.")


def _subject(fates: Sequence[Fate], what: str) -> tuple[str, dict[str, Any]]:
    findings, are = ("Finding", "is") if len(fates) == 1 else ("Findings", "are")
    return f"{findings} {{places}} of the first report {are} {what}", {"places": places(fates)}


def places(fates: Sequence[Fate]) -> str:
    """Their numbers in the first report: `1, 3 and 4`."""
    *first, last = [str(fate.place) for fate in fates]
    return f"{', '.join(first)} and {last}" if first else last
