"""Measured runs -> HistoryReport: all that a renderer of a history needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ...analyze.history import History, history
from ...analyze.history_verdict import HistoryVerdict, history_verdict
from ...analyze.measured import MeasuredRun


@dataclass(frozen=True, eq=False)
class HistoryReport:
    """What was found, said in words, and by which longpole."""

    found: History
    verdict: HistoryVerdict
    version: str


def history_report(runs: Sequence[MeasuredRun]) -> HistoryReport:
    found = history(runs)
    return HistoryReport(found, history_verdict(found), version("longpole"))
