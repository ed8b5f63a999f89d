"""Which phases of the step changed?"""

from dataclasses import dataclass

import pandas as pd

from ..analyses.phases import phases
from .changes import changes
from .sides import Side, compared


@dataclass(frozen=True, eq=False)
class PhaseChanges:
    """`rows` as in `changes`, named by phase; their changes add up to the change of the step. `before`, `after`: mean ns per step
    of each phase.
    """

    rows: pd.DataFrame
    before: "pd.Series[float]"
    after: "pd.Series[float]"


def phase_changes(before: Side, after: Side) -> PhaseChanges:
    """Compare the phases of two sides, per step."""
    old, new = ([phases(trace).per_step for trace in compared(side)] for side in (before, after))
    rows = changes(old, new)
    by_name = rows.set_index("name")
    kept = [list(dict.fromkeys(name for table in side for name in table.columns)) for side in (old, new)]
    return PhaseChanges(rows, by_name["before_ns"].loc[kept[0]], by_name["after_ns"].loc[kept[1]])
