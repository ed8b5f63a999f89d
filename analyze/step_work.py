"""Which step device work belongs to, and for which steps the file may lack some."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from .durations import repaired_work
from .intervals import covered, union
from .launches import clock_offset, hidden_graphs, hidden_in_graphs, launch_start, launches_of_missing_work, missing_work
from .step_marks import marked_steps
from .step_time import row_at
from .trace import Ids, Ints, Mask, Trace


@dataclass(frozen=True, eq=False)
class StepWork:
    """`steps` as in marked_steps. `step`: for each piece of device work the row of the step in which its launch starts, or -1.

    Work belongs to a step wherever it runs: what the last step launched and runs after it is that step's own.
    `incomplete`: steps for which the file may lack device work, and `gaps` says why. `strays`: why it cannot be told what any
    step launched, though what runs between its borders can. `offset`: why no step's time on the device can be told at all.
    """

    steps: pd.DataFrame
    step: Ids
    incomplete: Mask
    gaps: str | None
    strays: str | None
    offset: str | None

    @property
    def withheld(self) -> str | None:
        """Why no step's device time can be told; None where that of some can."""
        return self.offset or (self.gaps if self.incomplete.all() else None)

    @property
    def launches_withheld(self) -> str | None:
        """Why the device time of what a step launched can be told of none."""
        return self.withheld or self.strays

    @property
    def timed(self) -> Mask:
        """Steps whose device time can be told."""
        return np.zeros(len(self.steps), bool) if self.offset else ~self.incomplete


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def step_work(trace: Trace) -> StepWork:
    """Device work by step. Steps that are set aside own nothing: their time is another step's, too."""
    steps = marked_steps(trace)
    own = np.flatnonzero(~steps["aside"])
    launched = launch_start(trace)
    row = row_at(steps["start_ns"].to_numpy()[own], steps["end_ns"].to_numpy()[own], launched)
    step = np.where(row >= 0, own[row], -1)
    incomplete, gaps = _incomplete(trace, steps, launched)
    return StepWork(steps, step, incomplete, gaps, _strays(trace, launched), clock_offset(trace))


def busy_inside(trace: Trace, steps: pd.DataFrame, rows: Mask) -> Ints:
    """How much of each step the device work in those rows covers."""
    work = union(trace.device.start_ns[rows], repaired_work(trace).end_ns[rows])
    return covered(*work, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())


def busy_by_group(group: Ids, start: Ints, end: Ints, count: int) -> Ints:
    """For each of `count` groups the length of the union of its intervals; rows of group -1 are left out."""
    grouped = group >= 0
    group, start, end = group[grouped].astype(np.int64), start[grouped], end[grouped]
    apart = int(end.max(initial=0)) + 1  # puts the groups side by side: no interval reaches into the next group's
    first = np.arange(count) * apart
    return covered(*union(start + group * apart, end + group * apart), first, first + apart)


def _incomplete(trace: Trace, steps: pd.DataFrame, launched: Ints) -> tuple[Mask, str | None]:
    """Steps that may lack device work, and why."""
    lost, unknown_count = launches_of_missing_work(trace)
    if unknown_count:
        return np.ones(len(steps), bool), missing_work(trace)
    hiding = np.union1d(lost, hidden_graphs(trace))
    touched = _touched(trace, steps, np.sort(trace.host.start_ns[hiding]), launched)
    if trace.whole_steps is not None:
        return touched | ~steps["name"].isin(trace.whole_steps).to_numpy(), "the file was cut off, and device events come last"
    return touched, (missing_work(trace) or hidden_in_graphs(trace)) if touched.any() else None


def _strays(trace: Trace, launched: Ints) -> str | None:
    """Why it cannot be told what each step launched: some work may have been launched in any of them.

    What a stream runs before the first work whose call is in the file was launched before the recording: streams keep order.
    """
    work = trace.device
    track = pd.factorize(pd.MultiIndex.from_arrays([work.device, work.stream]))[0]
    known = launched >= 0
    first = np.full(track.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, track[known], work.start_ns[known])
    has_known = np.bincount(track[known], minlength=len(first)) > 0
    count = int((~known & ((work.start_ns >= first[track]) | ~has_known[track])).sum())
    return f"device events without the call that launched them, which belong to no step: {count}" if count else None


def _touched(trace: Trace, steps: pd.DataFrame, lost: Ints, launched: Ints) -> Mask:
    """Steps in which the lost work may have run: from its launch until work that was launched later starts; in order: `lost`."""
    known = launched >= 0
    order = np.argsort(launched[known], kind="stable")
    later, start = launched[known][order], trace.device.start_ns[known][order]
    first_start = np.append(np.minimum.accumulate(start[::-1])[::-1], trace.window_ns)
    until = np.maximum(first_start[np.searchsorted(later, lost, side="right")], lost + 1)
    return covered(*union(lost, until), steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()) > 0
