"""How long does a step take, and how much does that vary?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.bundle import unprofiled_times
from .. import trace as t
from ..findings import Caution, Text
from ..statistics import MIN_STEPS, Interval, mean_intervals
from ..step_marks import WHOLE_TRACE, marked_steps
from ..trace import Trace

UNLIKE_RATIO = 2.0  # between the steps before a recording and those after it: the program has changed what it does
UNLIKE_STEPS = 3  # on each side, for that to be told
FASTER_RATIO = 0.8  # profiled ÷ unprofiled step: a profiler makes no step faster
STEPS_CHANGED = (
    "Steps without the profiler took {before_ns} before the recording and {after_ns} after it (medians): the program did not go"
    " on as before, by itself or because the profiler's start held it up, and the recorded steps may be like neither."
)
FASTER = (
    "The recorded steps took {profiled_ns} and those without the profiler {unprofiled_ns} (medians): these are other steps, or"
    " the machine was busy then, and the recorded ones may not stand for the program."
)


@dataclass(frozen=True, eq=False)
class Steps:
    """`rows` as in marked_steps; the statistics are over its counted steps.

    `interval`: 95 % interval of the mean, None below MIN_STEPS steps. `unprofiled_ns`: the median step without the profiler,
    where the bundle has it; `before_ns`, `after_ns`: that before the recording and after it, of UNLIKE_STEPS steps at least.
    """

    rows: pd.DataFrame
    window: str  # "steps"; "trace" where the trace marks no steps and the window is taken as one
    mode: str  # "training", "inference" or "unknown"
    count: int
    mean_ns: float
    median_ns: float
    p95_ns: float
    max_ns: int
    interval: Interval | None
    unprofiled_ns: float | None
    before_ns: float | None = None
    after_ns: float | None = None

    @property
    def whole_count(self) -> int:
        """Whole steps of all kinds; the statistics are over one kind."""
        return int((~self.rows["partial"] & ~self.rows["aside"]).sum())

    @property
    def kind(self) -> str:
        """Of the counted steps, in serving traces; else empty."""
        return str(self.rows.loc[self.rows["counted"], "kind"].iloc[0])

    @property
    def steady_mean_ns(self) -> float:
        """Mean without a leading outlier: the first step may still warm up."""
        counted = self.rows[self.rows["counted"]]
        return float(counted["step_ns"].iloc[int(counted["outlier"].iloc[0]) :].mean())

    @property
    def measures(self) -> Mapping[str, Any]:
        """`step_ns`: durations of all marked steps, in their order."""
        durations = {"step_ns": self.rows["step_ns"].tolist()} if self.window == "steps" else {}
        return {"step_mean_steady_ns": self.steady_mean_ns, **durations}

    @property
    def statistics(self) -> pd.DataFrame:
        """The statistics as a table: statistic, value_ns."""
        values = {"mean": self.mean_ns, "median": self.median_ns, "95th percentile": self.p95_ns, "slowest": self.max_ns}
        return pd.DataFrame({"statistic": list(values), "value_ns": list(values.values())})

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """That the recorded steps are not as those around them."""
        cautions = []
        before, after = self.before_ns, self.after_ns
        if before and after and max(before, after) >= UNLIKE_RATIO * min(before, after):
            cautions.append(Caution("steps_changed", 1, Text.of(STEPS_CHANGED, before_ns=before, after_ns=after)))
        elif self.overhead_ratio and self.overhead_ratio <= FASTER_RATIO and self.unprofiled_ns:
            message = Text.of(FASTER, profiled_ns=self.median_ns, unprofiled_ns=self.unprofiled_ns)
            cautions.append(Caution("faster_when_profiled", 1, message))
        return tuple(cautions)

    @property
    def overhead_ratio(self) -> float | None:
        """Profiled ÷ unprofiled median step: how much the profiler slows the step down."""
        return self.median_ns / self.unprofiled_ns if self.unprofiled_ns else None


def steps(trace: Trace) -> Steps:
    """Statistics of the counted steps."""
    rows = marked_steps(trace)
    times = rows.loc[rows["counted"], "step_ns"]
    unprofiled = unprofiled_times(trace.manifest)
    around = (trace.manifest.unprofiled_step_ns, trace.manifest.unprofiled_after_step_ns) if trace.manifest else ((), ())
    before_ns, after_ns = (float(np.median(ns)) if len(ns) >= UNLIKE_STEPS else None for ns in around)
    return Steps(
        rows=rows,
        window="trace" if rows["name"].iloc[0] == WHOLE_TRACE else "steps",
        mode=_mode(trace),
        count=len(times),
        mean_ns=float(times.mean()),
        median_ns=float(times.median()),
        p95_ns=float(times.quantile(0.95)),
        max_ns=int(times.max()),
        interval=mean_intervals(times.to_numpy()[:, None])[0] if len(times) >= MIN_STEPS else None,
        unprofiled_ns=float(np.median(unprofiled)) if unprofiled else None,
        before_ns=before_ns,
        after_ns=after_ns,
    )


def _mode(trace: Trace) -> str:
    """Training if anything runs backward or an optimizer steps."""
    if trace.manifest and trace.manifest.mode:
        return trace.manifest.mode
    steps_optimizer = any(name.startswith("Optimizer.step#") for name in trace.names)
    if steps_optimizer or bool((trace.host.forward_thread > 0).any()):
        return "training"
    return "inference" if bool((trace.host.category == t.OP).any()) else "unknown"
