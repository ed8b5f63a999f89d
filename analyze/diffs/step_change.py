"""Is the step faster, slower, or the same within noise?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...capture.bundle import unprofiled_times
from ..analyses.steps import Steps, steps
from ..statistics import CORRELATED_STEPS, MIN_STEPS, RUNS, STEPS, Floats, Interval, mean_change, median_change_interval
from ..step_marks import LeftOut, left_out
from .sides import Side, compared, typical

FASTER, SLOWER, WITHIN_NOISE, TOO_FEW_STEPS = "faster", "slower", "within_noise", "too_few_steps"
EXCEEDS, WITHIN, CANNOT_TELL = "exceeds", "within", "cannot_tell"
VERDICT_STEPS = CORRELATED_STEPS  # of fewer a side, any difference may come from neighbours that are alike


@dataclass(frozen=True, eq=False)
class StepDifference:
    """Of the mean step, after minus before; of several runs a side, the mean of their means.

    `unit`: what the intervals count as varying: "steps" of one run a side, which cannot show how much runs differ, or "runs".
    `verdict`: faster or slower where `interval` excludes zero, else within_noise; too_few_steps, without intervals, below
    VERDICT_STEPS a side. `speedup_interval`, `share_interval`: None also where they have no bounds. Medians: of several runs the
    mean of those of each.
    """

    before_ns: float
    after_ns: float
    change_ns: float
    interval: Interval | None
    change_share: float  # of the mean step before
    share_interval: Interval | None
    speedup_ratio: float  # mean before ÷ mean after
    speedup_interval: Interval | None
    before_median_ns: float
    after_median_ns: float
    median_interval: Interval | None  # of the change of the median
    unit: str
    verdict: str
    apart: bool  # whether every step of the faster side is faster than every step of the other

    def against(self, limit_share: float) -> str:
        """Whether the step became slower by more than this share of before.

        "exceeds" where the whole interval is beyond the limit, so that the change is real and larger; "within" where none of it
        is; else "cannot_tell".
        """
        if self.share_interval is None:
            return CANNOT_TELL
        if self.share_interval.low > limit_share:
            return EXCEEDS
        return WITHIN if self.share_interval.high <= limit_share else CANNOT_TELL


@dataclass(frozen=True, eq=False)
class StepChange(StepDifference):
    """Of the compared steps of two sides; `before`, `after`: those of the typical runs. The `unprofiled_` figures are medians of
    the steps measured without the profiler, of several runs their mean, where all bundles have them; their interval is None below
    MIN_STEPS a run. `left_out`: before, after.
    """

    before: Steps
    after: Steps
    left_out: tuple[Sequence[LeftOut], ...]
    unprofiled_before_ns: float | None
    unprofiled_after_ns: float | None
    unprofiled_interval: Interval | None


def step_change(before: Side, after: Side) -> StepChange:
    """Compare the counted steps of two sides, a first one apart that still warms up."""
    old, new = ([steps(trace) for trace in compared(side)] for side in (before, after))
    x, y = (_unprofiled(side) for side in (before, after))
    known, enough = bool(x and y), bool(x and y) and min(map(len, (*x, *y))) >= MIN_STEPS
    return StepChange(
        **vars(step_change_of(*([_times(found) for found in side] for side in (old, new)))),
        before=steps(typical(compared(before))),
        after=steps(typical(compared(after))),
        left_out=tuple(tuple(left for trace in side for left in left_out(trace)) for side in (before, after)),
        unprofiled_before_ns=_mean(x, np.median) if known else None,
        unprofiled_after_ns=_mean(y, np.median) if known else None,
        unprofiled_interval=median_change_interval(x, y) if enough else None,
    )


def _times(found: Steps) -> Floats:
    return found.rows.loc[found.rows["counted"], "step_ns"].to_numpy(float)


def _unprofiled(side: Side) -> list[Floats]:
    """Of each run the steps without the profiler; empty where a run lacks them."""
    times = [np.array(unprofiled_times(trace.manifest), float) for trace in side]
    return times if all(map(len, times)) else []


def step_change_of(before: Sequence[Floats], after: Sequence[Floats]) -> StepDifference:
    """Each side: for each run the times of its steps in their order, of which none is to be left out."""
    old, new = np.concatenate(before), np.concatenate(after)
    before_ns, after_ns = _mean(before, np.mean), _mean(after, np.mean)
    enough = min(len(old), len(new)) >= VERDICT_STEPS
    found = mean_change([run[:, None] for run in before], [run[:, None] for run in after]) if enough else None
    interval = Interval(float(found.low[0]), float(found.high[0])) if found else None
    speedup = found.ratio if found else None
    return StepDifference(
        before_ns=before_ns,
        after_ns=after_ns,
        change_ns=after_ns - before_ns,
        interval=interval,
        change_share=(after_ns - before_ns) / before_ns,
        share_interval=Interval(1 / speedup.high - 1, 1 / speedup.low - 1) if speedup else None,
        speedup_ratio=before_ns / after_ns,
        speedup_interval=speedup,
        before_median_ns=_mean(before, np.median),
        after_median_ns=_mean(after, np.median),
        median_interval=median_change_interval(before, after) if enough else None,
        unit=RUNS if max(len(before), len(after)) > 1 else STEPS,
        verdict=_verdict(interval),
        apart=bool(np.max(new) < np.min(old) or np.max(old) < np.min(new)),
    )


def _mean(runs: Sequence[Floats], of: Callable[[Floats], np.floating]) -> float:
    return float(np.mean([of(run) for run in runs]))


def _verdict(interval: Interval | None) -> str:
    if interval is None:
        return TOO_FEW_STEPS
    if not interval.excludes_zero():
        return WITHIN_NOISE
    return FASTER if interval.high < 0 else SLOWER
