"""Which operators or named ranges changed, in sum, where there are no statistics of steps?"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..analyses.op_table import OpTable, op_table
from ..analyses.slices import SliceTimes, slices
from ..forms import form
from ..trace import Trace
from .changes import ADDED, REMOVED
from .matched_changes import matched_changes
from .sides import Side

TOTALS_ONLY = "totals_only"  # no word for a change: nothing is known of the variation between steps


@dataclass(frozen=True)
class TotalChange:
    """A sum over all names, before and after. `what`: of which time."""

    what: str
    before_ns: float
    after_ns: float

    @property
    def change_share(self) -> float:
        """Of before; NaN where that is zero."""
        return self.after_ns / self.before_ns - 1 if self.before_ns else math.nan


@dataclass(frozen=True, eq=False)
class TotalChanges:
    """`host`, `device`: rows as in `matched_changes`, without intervals; status: added, removed or totals_only.

    Host: self CPU time by operator, or self time of another tool's ranges. Device: time of device work by name.
    Per step where both recordings know how many steps they hold, else of the whole recordings.
    """

    host: pd.DataFrame
    device: pd.DataFrame
    host_total: TotalChange
    device_total: TotalChange
    before_steps: int | None
    after_steps: int | None

    @property
    def per_step(self) -> bool:
        return self.before_steps is not None and self.after_steps is not None

    @property
    def unequal(self) -> list[str]:
        """Why the two sums may be of unequal amounts of work."""
        return [] if self.per_step else ["The number of steps is not known on both sides, so whole recordings are compared."]


def total_changes(before: Side, after: Side) -> TotalChanges:
    """Compare totals by name: of snapshots (also with a trace), or of the ranges of another tool; one run a side."""
    if max(len(before), len(after)) > 1:
        raise MissingData("Totals have no statistics that several runs would make better; compare one with one.")
    return _total_changes(before[0], after[0])


def _total_changes(before: Trace, after: Trace) -> TotalChanges:
    whats = ("Self time of all ranges", "Time on devices") if form(before) == "ranges" else ("Self CPU time", "Device time")
    old, new = _totals(before), _totals(after)
    if not any(len(times) for side in (old, new) for times in (side.host, side.device)):
        raise MissingData("Neither recording has ranges on threads or devices, so there is nothing to add up by name.")
    if old.steps and new.steps:
        old, new = _per_step(old, old.steps), _per_step(new, new.steps)
    return TotalChanges(
        host=_changes(old.host, new.host),
        device=_changes(old.device, new.device),
        host_total=TotalChange(whats[0], float(old.host.sum()), float(new.host.sum())),
        device_total=TotalChange(whats[1], float(old.device.sum()), float(new.device.sum())),
        before_steps=old.steps,
        after_steps=new.steps,
    )


@dataclass(frozen=True, eq=False)
class _Totals:
    host: pd.Series  # ns by name
    device: pd.Series
    steps: int | None


def _totals(trace: Trace) -> _Totals:
    return _of_ranges(slices(trace)) if form(trace) == "ranges" else _of_ops(op_table(trace))


def _per_step(totals: _Totals, steps: int) -> _Totals:
    return _Totals(totals.host / steps, totals.device / steps, steps)


def _of_ranges(found: SliceTimes) -> _Totals:
    return _Totals(found.host.set_index("name")["self_ns"], found.device.set_index("name")["total_ns"], None)


def _of_ops(table: OpTable) -> _Totals:
    on_host = table.rows[table.rows["device_type"] == "CPU"]
    return _Totals(
        on_host.groupby("name", sort=False)["self_cpu_ns"].sum(),
        table.kernels.groupby("name", sort=False)["self_device_ns"].sum(),
        table.steps_count,
    )


def _changes(before: pd.Series, after: pd.Series) -> pd.DataFrame:
    rows = matched_changes([before.to_frame().T], [after.to_frame().T])
    was, is_now = (rows[side].map(len) > 0 for side in ("names_before", "names_after"))
    return rows.assign(status=np.select([was & ~is_now, is_now & ~was], [REMOVED, ADDED], TOTALS_ONLY))
