"""Where does the step go: which phase holds how much of it?"""

from dataclasses import dataclass

import pandas as pd

from ..statistics import MIN_STEPS, mean_intervals
from ..step_time import OTHER, step_time
from ..trace import Trace


@dataclass(frozen=True, eq=False)
class Phases:
    """Disjoint phases that add up to the step, in the order of a step.

    `rows`: phase; mean_ns; low_ns, high_ns (95 % interval of the mean, NaN below MIN_STEPS steps); p95_ns; phase_share (of the
    mean step). `per_step`: a row a counted step, a column a phase, int64 ns. `marked`: False when every instant is "other".
    """

    rows: pd.DataFrame
    per_step: pd.DataFrame
    step_ns: float
    marked: bool

    @property
    def ranked(self) -> pd.DataFrame:
        """`rows`, the largest first."""
        return self.rows.sort_values("mean_ns", ascending=False, kind="stable")


def phases(trace: Trace) -> Phases:
    """Time of each phase in each counted step."""
    found = step_time(trace)
    per_step = found.per_step("phase")[list(found.phases)]
    step_ns = found.step_ns
    intervals = mean_intervals(per_step) if len(per_step) >= MIN_STEPS else []
    rows = pd.DataFrame({
        "phase": per_step.columns,
        "mean_ns": per_step.mean().to_numpy(),
        "low_ns": [i.low for i in intervals] or float("nan"),
        "high_ns": [i.high for i in intervals] or float("nan"),
        "p95_ns": per_step.quantile(0.95).to_numpy(),
        "phase_share": per_step.mean().to_numpy() / step_ns,
    })  # fmt: skip
    return Phases(rows, per_step, step_ns, marked=list(per_step.columns) != [OTHER])
