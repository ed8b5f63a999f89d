"""What costs most: which operators, in which phase, hold how much of the step?"""

from dataclasses import dataclass

import pandas as pd

from ..step_time import OUTSIDE, OUTSIDE_LABEL, step_time
from ..trace import Trace

TINY_NS = 10_000  # an operator's dispatch costs 1 to 5 µs on current CPUs: below 10 µs it does little else


@dataclass(frozen=True, eq=False)
class Bottlenecks:
    """`rows`: one per (phase, name), by self time; they add up to the step.

    Columns: phase; name (operator or runtime call; "" for time outside them: Python, the interpreter, waits); self_ns per step;
    step_share (of the mean step); cumulative_share; outer_calls_count (calls per step that no other operator makes).
    `outside_ns` per step: the sum of the rows without a name. `ops_count`, `tiny_ops_count` per step: outermost operators, and
    those of them that take less than TINY_NS on average.
    """

    rows: pd.DataFrame
    step_ns: float
    outside_ns: float
    ops_count: float
    tiny_ops_count: float

    @property
    def labelled(self) -> pd.DataFrame:
        """`rows` with a name for readers where there is none."""
        return self.rows.assign(name=self.rows["name"].replace(OUTSIDE, OUTSIDE_LABEL))

    @property
    def outside_share(self) -> float:
        """Of the mean step."""
        return self.outside_ns / self.step_ns


def bottlenecks(trace: Trace) -> Bottlenecks:
    """Self time of every (phase, operator), mean of the counted steps."""
    found = step_time(trace)
    count, step_ns = found.count, found.step_ns
    sums = found.sums(found.rows)
    sums = sums.sort_values(["self_ns", "phase", "name"], ascending=[False, True, True], kind="stable", ignore_index=True)
    tiny = (sums["calls"] > 0) & (sums["total_ns"] < TINY_NS * sums["calls"])
    rows = pd.DataFrame({
        "phase": sums["phase"],
        "name": sums["name"],
        "self_ns": sums["self_ns"] / count,
        "step_share": sums["self_ns"] / count / step_ns,
        "cumulative_share": sums["self_ns"].cumsum() / count / step_ns,
        "outer_calls_count": sums["calls"] / count,
    })  # fmt: skip
    return Bottlenecks(
        rows=rows,
        step_ns=step_ns,
        outside_ns=float(rows.loc[rows["name"] == OUTSIDE, "self_ns"].sum()),
        ops_count=float(sums["calls"].sum() / count),
        tiny_ops_count=float(sums.loc[tiny, "calls"].sum() / count),
    )
