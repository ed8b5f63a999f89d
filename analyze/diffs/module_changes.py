"""Which modules changed?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..analyses.modules import module_calls
from ..grouping import group_sums
from ..step_time import row_at, step_time
from ..trace import Trace
from .matched_changes import matched_changes
from .sides import Side, compared

HOST, DEVICE = "host", "device"


@dataclass(frozen=True, eq=False)
class ModuleChanges:
    """`rows`: as in `matched_changes`, per step: time of the calls that begin in a step, with the modules inside, forward and
    backward; so the rows of modules inside each other tell the same time, and do not add up.

    `time`: DEVICE, work that was launched there, where both recordings hold some; else HOST. `left_out`: names of so many more
    modules, smaller than these, are in no row.
    """

    rows: pd.DataFrame
    time: str
    left_out: int


def module_changes(before: Side, after: Side) -> ModuleChanges:
    """Compare the time of modules; MissingData where a recording has no frames of them."""
    time = DEVICE if all(len(trace.device) for trace in (*before, *after)) else HOST
    old, new = ([module_times(trace, time) for trace in compared(side)] for side in (before, after))
    rows = matched_changes(old, new)
    told = rows[(rows["names_before"].map(len) > 0) | (rows["names_after"].map(len) > 0)]  # of the smallest no sum makes sense
    names = {name for table in (*old, *new) for name in table.columns}.difference(*told["names_before"], *told["names_after"])
    return ModuleChanges(told.reset_index(drop=True), time, len(names))


def module_times(trace: Trace, time: str) -> pd.DataFrame:
    """A row for each counted step, a column for each module, named by those around it: ns of the calls that begin there."""
    counted, found = step_time(trace).steps, module_calls(trace)
    columns = ["forward_gpu_ns", "backward_gpu_ns"] if time == DEVICE else ["forward_ns", "backward_ns"]
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), found.rows["start_ns"].to_numpy())
    inside, count = step >= 0, len(found.names)
    cell = step[inside] * count + found.rows["module"].to_numpy()[inside]
    sums = group_sums(cell, found.rows[columns].sum(axis=1).to_numpy()[inside], len(counted) * count)
    table = pd.DataFrame(sums.reshape(len(counted), count), columns=pd.Index(found.names, dtype=object))
    return table.loc[:, np.bincount(cell % max(1, count), minlength=count) > 0]
