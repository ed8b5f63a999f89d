"""Which phases of the step changed?"""

from dataclasses import dataclass

import pandas as pd

from ..analyses.phases import phases
from ..trace import Trace
from .changes import changes


@dataclass(frozen=True, eq=False)
class PhaseChanges:
    """`rows` as in `changes`, named by phase; their changes add up to the change of the step. Steps as in Phases.per_step."""

    rows: pd.DataFrame
    before: pd.DataFrame
    after: pd.DataFrame


def phase_changes(before: Trace, after: Trace) -> PhaseChanges:
    """Compare the phases of two traces, per step."""
    old, new = phases(before).per_step, phases(after).per_step
    return PhaseChanges(changes(old, new), old, new)
