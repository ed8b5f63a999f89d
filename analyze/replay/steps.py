"""Trace and nodes -> when each step is complete, and which steps a replay tells of."""

import numpy as np
import pandas as pd

from ..links import launching_call
from ..statistics import Floats
from ..step_marks import WHOLE_TRACE, marked_steps
from ..step_time import row_at
from ..step_work import step_work
from ..trace import Ids, Ints, Trace
from .edges import STEP_END, STEP_START, WORK_END, Nodes

FIRST_START = -1  # Completions.step of the moment from which the first step is measured


def step_of_work(trace: Trace) -> Ids:
    """For each piece of device work the row of the step that launched it, or -1; of a window that is one step all is its own.

    Where no call in the file launched any of it, the row of the step in which it starts.
    """
    marked = marked_steps(trace)
    if len(marked) == 1 and marked["name"].iloc[0] == WHOLE_TRACE:
        return np.zeros(len(trace.device), np.int64)
    if host_is_known(trace):
        return step_work(trace).step
    own = np.flatnonzero(~marked["aside"])
    row = row_at(marked["start_ns"].to_numpy()[own], marked["end_ns"].to_numpy()[own], trace.device.start_ns)
    return np.append(own, -1)[row]


def host_is_known(trace: Trace) -> bool:
    """Whether the file tells how the host and the device wait for each other: which calls launched what."""
    return not len(trace.device) or bool((launching_call(trace) >= 0).any())


def completions_of(trace: Trace, nodes: Nodes) -> pd.DataFrame:
    """step, node: a step is complete when its end on the host and the last work it launched on each stream are behind it.

    Where the file does not tell what the host waits for, its end is when the step's work is done.
    """
    works = np.flatnonzero(nodes.kind == WORK_END)
    row = nodes.row[works]
    last = pd.DataFrame({
        "step": step_of_work(trace)[row], "node": works,
        "device": trace.device.device[row], "stream": trace.device.stream[row],
    })  # fmt: skip
    last = last[last["step"] >= 0].groupby(["step", "device", "stream"], as_index=False)["node"].max()
    ends, starts = np.flatnonzero(nodes.kind == STEP_END), np.flatnonzero(nodes.kind == STEP_START)[:1]
    if not host_is_known(trace):
        ends = ends[~np.isin(nodes.row[ends], last["step"])]
    return pd.DataFrame({
        "step": np.concatenate((np.full(len(starts), FIRST_START), nodes.row[ends], last["step"])),
        "node": np.concatenate((starts, ends, last["node"])),
    })  # fmt: skip


def kept_steps(trace: Trace, nodes: Nodes, completions: pd.DataFrame) -> pd.DataFrame:
    """Counted steps, each from the completion of the one before; the first fills the pipeline and is kept only if alone.

    row (of marked_steps), name, before (the step from whose completion it is measured, FIRST_START: from its start), measured_ns.
    """
    marked = marked_steps(trace)
    done = measured_completions(completions, nodes)
    own = np.flatnonzero(~marked["aside"])
    before = np.full(len(marked), FIRST_START)
    before[own[1:]] = own[:-1]
    counted = np.flatnonzero(marked["counted"])
    kept = counted if len(counted) == 1 else counted[counted != own[0]]
    since = before[kept]
    took = done.reindex(kept).to_numpy() - done.reindex(since).to_numpy()
    return pd.DataFrame({"row": kept, "name": marked["name"].to_numpy()[kept], "before": since, "measured_ns": took})


def reported_steps(trace: Trace, nodes: Nodes, completions: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """The steps over which savings are told, as in kept_steps: with the first one, from its start, for then the time that all of
    them take falls with every weight. Where steps of other kinds lie between them, and of an excerpt, the kept ones alone.
    """
    marked = marked_steps(trace)
    counted, own = np.flatnonzero(marked["counted"]), np.flatnonzero(~marked["aside"])
    if not len(kept) or trace.excerpt or not np.array_equal(own[own <= counted[-1]], counted):
        return kept
    done, since = measured_completions(completions, nodes), np.append(FIRST_START, counted[:-1])
    took = done.reindex(counted).to_numpy() - done.reindex(since).to_numpy()
    found = pd.DataFrame({"row": counted, "name": marked["name"].to_numpy()[counted], "before": since, "measured_ns": took})
    return kept if found["measured_ns"].isna().any() else found


def completed(completions: pd.DataFrame, times: Ints | Floats) -> pd.DataFrame:
    """For each step a row, for each column of `times` (rows of completions × candidates) when it is complete."""
    return pd.DataFrame(times).groupby(completions["step"].to_numpy()).max()


def measured_completions(completions: pd.DataFrame, nodes: Nodes) -> pd.Series:
    """For each step when it was complete."""
    return completed(completions, nodes.time_ns[completions["node"]][:, None])[0]
