"""Trace -> the part of it that is replayed: all, or of a long recording steps in a row around the median one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..links import launching_call
from ..loading.merged import kept
from ..step_marks import WHOLE_TRACE, marked_steps
from ..step_time import row_at
from ..trace import DeviceRanges, Excerpt, Ints, Mask, Trace
from .points import relevant_calls
from .steps import step_of_work

MOST_MOMENTS = 100_000  # starts and ends of calls and device work: to build their graph and to replay it takes about a second
MOST_OF_FEW = 1_000_000  # for the fewest steps that tell one from another, or a recording without: about five seconds
FEWEST_STEPS = 4  # three of them replayed: the first only completes what was begun before it


class NotReplayed(MissingData):
    """A trace is too large; `why`: half a sentence."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Not replayed: {why}.")
        self.why = why


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def excerpt(trace: Trace) -> Trace:
    """Around the counted step of median length, the one before it first and then in turn on both sides, as many as fit.

    NotReplayed where not even one step does. A trace that fits as a whole is given back as it is.
    """
    if _moments(trace) <= MOST_MOMENTS:
        return trace
    steps = _own_steps(trace)
    first, last = _around_median(steps, _moments_of_steps(trace))
    return trace if _unmarked(steps) else _cut(trace, steps.iloc[first : last + 1])


def excerpts(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """The same of each rank of a run, the explained one first, by the moments of all of them: the same steps, by their order.

    NotReplayed where not even one step fits, or where steps do not tell which are the same.
    """
    if sum(map(_moments, traces)) <= MOST_MOMENTS:
        return tuple(traces)
    steps = [_own_steps(trace) for trace in traces]
    if len({len(one) for one in steps}) > 1 or any(map(_unmarked, steps)):
        raise NotReplayed("the ranks hold more than is replayed at once, and not all of them mark the same number of steps")
    moments = np.sum([_moments_of_steps(trace) for trace in traces], axis=0)
    first, last = _around_median(steps[0], moments)
    return tuple(_cut(trace, own.iloc[first : last + 1]) for trace, own in zip(traces, steps, strict=True))


def refusal(trace: Trace) -> str | None:
    """Why nothing can be replayed, half a sentence."""
    try:
        excerpt(trace)
    except NotReplayed as missing:
        return missing.why
    return None


def _moments(trace: Trace) -> int:
    return 2 * (int(relevant_calls(trace).sum()) + len(trace.device))


def _own_steps(trace: Trace) -> pd.DataFrame:
    steps = marked_steps(trace)
    return steps[~steps["aside"]]


def _unmarked(steps: pd.DataFrame) -> bool:
    return steps["name"].iloc[0] == WHOLE_TRACE


def _moments_of_steps(trace: Trace) -> Ints:
    """How many each of its own steps has."""
    steps, calls = marked_steps(trace), relevant_calls(trace)
    own = np.flatnonzero(~steps["aside"])
    start, end = steps["start_ns"].to_numpy()[own], steps["end_ns"].to_numpy()[own]
    called = row_at(start, end, trace.host.start_ns[calls])
    work = step_of_work(trace)
    return 2 * (np.bincount(called[called >= 0], minlength=len(own)) + np.bincount(work[work >= 0], minlength=len(steps))[own])


def _around_median(steps: pd.DataFrame, moments: Ints) -> tuple[int, int]:
    """Places of the first and the last step to be replayed."""
    counted = np.flatnonzero(steps["counted"]) if steps["counted"].any() else np.arange(len(steps))
    length = steps["step_ns"].to_numpy()[counted]
    middle = np.lexsort((np.abs(counted - len(steps) // 2), np.abs(length - np.median(length))))[0]
    first = last = int(counted[middle])
    before = np.append(0, np.cumsum(moments))
    if moments[first] > MOST_OF_FEW:
        raise NotReplayed(
            f"one step holds {moments[first] // 2:,} launches, waits and pieces of GPU work, and a replay at most "
            f"{MOST_OF_FEW // 2:,}; mark shorter steps with prof.step()"
        )
    sides = [-1, 1]
    while sides:
        side = sides.pop(0)
        low, high = first + min(side, 0), last + max(side, 0)
        most = MOST_MOMENTS if last - first + 1 >= FEWEST_STEPS else MOST_OF_FEW
        if low >= 0 and high < len(steps) and before[high + 1] - before[low] <= most:
            first, last = low, high
            sides.append(side)
    return first, last


def _cut(trace: Trace, steps: pd.DataFrame) -> Trace:
    """All that overlaps these steps, and the device work that is launched in it; times stay as they are."""
    since, until = int(steps["start_ns"].min()), int(steps["end_ns"].max())
    on_host = (trace.host.start_ns < until) & (trace.host.end_ns > since)
    call = launching_call(trace)
    launched, elsewhere = np.append(on_host, False)[call], np.append(trace.host.start_ns >= until, False)[call]
    host, host_arguments = kept(trace.host, trace.host_arguments, on_host)
    device, device_arguments = kept(
        trace.device, trace.device_arguments, launched | (_overlaps(trace.device, since, until) & ~elsewhere)
    )
    marks, mark_arguments = kept(trace.device_marks, trace.mark_arguments, _overlaps(trace.device_marks, since, until))
    return replace(
        trace,
        host=host,
        device=device,
        device_marks=marks,
        host_arguments=host_arguments,
        device_arguments=device_arguments,
        mark_arguments=mark_arguments,
        excerpt=Excerpt(steps.reset_index(drop=True), int(marked_steps(trace)["counted"].sum())),
    )


def _overlaps(ranges: DeviceRanges, since: int, until: int) -> Mask:
    return (ranges.start_ns < until) & (ranges.end_ns > since)
