"""Two (steps × columns) tables -> one row a column: before, after, change, its interval, and whether it is real."""

import pandas as pd

from ..statistics import MIN_STEPS, change_intervals

CHANGED, WITHIN_NOISE, ADDED, REMOVED, TOO_FEW_STEPS = "changed", "within_noise", "added", "removed", "too_few_steps"
COLUMNS = ["name", "before_ns", "after_ns", "change_ns", "low_change_ns", "high_change_ns", "status"]


def changes(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Rows by the absolute change of the mean per step, largest first; the changes add up to that of the columns' sum.

    Columns: name (the column's label); before_ns, after_ns, change_ns (means per step); low_change_ns, high_change_ns (95 %
    interval of the change, NaN below MIN_STEPS steps a side); status: changed, within_noise, added, removed or too_few_steps.
    """
    labels = list(dict.fromkeys([*before.columns, *after.columns]))
    if not labels:
        return pd.DataFrame(columns=COLUMNS)
    old, new = before.reindex(columns=labels, fill_value=0), after.reindex(columns=labels, fill_value=0)
    enough = min(len(old), len(new)) >= MIN_STEPS
    intervals = change_intervals(old, new) if enough else [None] * len(labels)
    old_mean, new_mean = old.mean().tolist(), new.mean().tolist()
    rows = pd.DataFrame({
        "name": pd.Series(labels, dtype=object),
        "before_ns": old_mean,
        "after_ns": new_mean,
        "change_ns": [b - a for a, b in zip(old_mean, new_mean, strict=True)],
        "low_change_ns": [i.low if i else float("nan") for i in intervals],
        "high_change_ns": [i.high if i else float("nan") for i in intervals],
        "status": [
            _status(label in before.columns, label in after.columns, None if i is None else i.excludes_zero())
            for label, i in zip(labels, intervals, strict=True)
        ],
    })  # fmt: skip
    order = sorted(range(len(rows)), key=lambda row: (-abs(rows["change_ns"].iloc[row]), str(labels[row])))
    return rows.iloc[order].reset_index(drop=True)


def _status(was: bool, is_now: bool, real: bool | None) -> str:
    if not was:
        return ADDED
    if not is_now:
        return REMOVED
    if real is None:
        return TOO_FEW_STEPS
    return CHANGED if real else WITHIN_NOISE
