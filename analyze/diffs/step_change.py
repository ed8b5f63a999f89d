"""Is the step faster, slower, or the same within noise?"""

from dataclasses import dataclass

import numpy as np

from ..analyses.steps import Steps, steps
from ..statistics import MIN_STEPS, Floats, Interval, change_intervals, median_change_interval, ratio_interval
from ..trace import Ints, Trace

FASTER, SLOWER, WITHIN_NOISE, TOO_FEW_STEPS = "faster", "slower", "within_noise", "too_few_steps"


@dataclass(frozen=True, eq=False)
class StepChange:
    """Change of the mean step, after minus before. Intervals are None below MIN_STEPS steps a side.

    The `unprofiled_` figures are medians of the steps measured without the profiler, where both bundles have them.
    """

    before: Steps
    after: Steps
    change_ns: float
    change_share: float  # of the mean step before
    interval: Interval | None
    speedup_ratio: float  # mean before ÷ mean after
    speedup_interval: Interval | None
    verdict: str
    unprofiled_before_ns: float | None
    unprofiled_after_ns: float | None
    unprofiled_interval: Interval | None
    apart: bool  # whether every step of the faster run is faster than every step of the other


def step_change(before: Trace, after: Trace) -> StepChange:
    """Compare the counted steps of two traces."""
    old, new = steps(before), steps(after)
    x, y = (np.array(t.manifest.unprofiled_step_ns if t.manifest else (), float) for t in (before, after))
    a, b = (found.rows.loc[found.rows["counted"], "step_ns"].to_numpy() for found in (old, new))
    interval = _interval(a, b)
    return StepChange(
        before=old,
        after=new,
        change_ns=new.mean_ns - old.mean_ns,
        change_share=(new.mean_ns - old.mean_ns) / old.mean_ns,
        interval=interval,
        speedup_ratio=old.mean_ns / new.mean_ns,
        speedup_interval=ratio_interval(a, b) if interval else None,
        verdict=_verdict(interval),
        unprofiled_before_ns=old.unprofiled_ns,
        unprofiled_after_ns=new.unprofiled_ns,
        unprofiled_interval=median_change_interval(x, y) if min(len(x), len(y)) >= MIN_STEPS else None,
        apart=bool(np.max(b) < np.min(a) or np.max(a) < np.min(b)),
    )


def _interval(before: Ints | Floats, after: Ints | Floats) -> Interval | None:
    enough = min(len(before), len(after)) >= MIN_STEPS
    return change_intervals(before[:, None], after[:, None])[0] if enough else None


def _verdict(interval: Interval | None) -> str:
    if interval is None:
        return TOO_FEW_STEPS
    if not interval.excludes_zero():
        return WITHIN_NOISE
    return FASTER if interval.high < 0 else SLOWER
