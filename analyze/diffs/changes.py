"""(steps × columns) tables of two sides -> one row a column: before, after, change, its interval, and whether it is real."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..statistics import CHANCE, MIN_STEPS, Floats, mean_changes_at_once

CHANGED, WITHIN_NOISE, ADDED, REMOVED, TOO_FEW_STEPS = "changed", "within_noise", "added", "removed", "too_few_steps"

TABLES = 7  # that a comparison judges: phases, operators, kernels, work by operator, modules, memory, calls; each has its part
Runs = Sequence[pd.DataFrame]  # of one side: a table a run; a column that a run lacks is zero in it


def changes(before: Runs, after: Runs) -> pd.DataFrame:
    """Rows by the absolute change of the mean, largest first; the changes add up to that of the columns' sum.

    Columns: name (the column's label); before_ns, after_ns, change_ns (means over steps, of several runs over their means);
    low_change_ns, high_change_ns (95 % interval of the change; NaN below MIN_STEPS steps a side, or where it has no bound);
    status: changed, within_noise, added, removed or too_few_steps.

    Intervals and statuses hold for all rows of all tables at once: 95 % of comparisons of a program with itself call no row
    anything but within noise. The other words mean that the interval excludes zero: what is in some steps by chance has
    neither come nor gone.
    """
    labels = list(dict.fromkeys(label for run in (*before, *after) for label in run.columns))
    old, new = ([run.reindex(columns=labels, fill_value=0).to_numpy(float) for run in side] for side in (before, after))
    old_mean, new_mean = (np.mean([run.mean(axis=0) for run in side], axis=0) for side in (old, new))
    low, high = _borders(old, new)
    rows = pd.DataFrame({
        "name": pd.Series(labels, dtype=object),
        "before_ns": old_mean,
        "after_ns": new_mean,
        "change_ns": new_mean - old_mean,
        "low_change_ns": np.where(np.isfinite(low), low, np.nan),
        "high_change_ns": np.where(np.isfinite(high), high, np.nan),
        "status": pd.Series([_status(*row) for row in zip(old_mean, new_mean, low, high, strict=True)], dtype=object),
    })  # fmt: skip
    order = sorted(range(len(rows)), key=lambda row: (-abs(rows["change_ns"].iloc[row]), str(labels[row])))
    return rows.iloc[order].reset_index(drop=True)


def _borders(before: Sequence[Floats], after: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Of the intervals; NaN where there are too few steps."""
    columns = before[0].shape[1]
    if not columns or min(sum(map(len, side)) for side in (before, after)) < MIN_STEPS:
        return np.full(columns, np.nan), np.full(columns, np.nan)
    found = mean_changes_at_once(before, after, CHANCE / TABLES)
    return found.low, found.high


def _status(before: float, after: float, low: float, high: float) -> str:
    if np.isnan(low):
        return TOO_FEW_STEPS
    if low <= 0 <= high:
        return WITHIN_NOISE
    return ADDED if before == 0 else REMOVED if after == 0 else CHANGED
