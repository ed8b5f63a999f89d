"""Idle gaps and host ranges -> what prepares the input that a GPU waits for, where nothing marks it as data loading."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from . import trace as t
from .analyses.copies import FROM_HOST
from .gpu_gaps import idle_gaps, loader_ranges
from .intervals import covered, union
from .launches import is_launch
from .links import calls_named, launching_call
from .step_marks import step_ranges
from .trace import Ids, Ints, Mask, Trace

SHORTEST_GAP_NS = 1_000_000  # the way to a copy takes the host less than that; what takes longer is making the data
ABOUT = 0.8  # of a range in such gaps, and of the gaps in it: then the range is what the GPU waits for


@dataclass(frozen=True, eq=False)
class UnmarkedInput:
    """`start_ns`, `end_ns`: of the long gaps of all devices that end with a copy to the device and in which no data loader works.

    `rows`: of trace.host, the outermost ranges of one name that launch nothing and fill these gaps, on the thread that copies.
    """

    start_ns: Ints
    end_ns: Ints
    rows: Ids


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def unmarked_input_of(trace: Trace) -> UnmarkedInput:
    """No rows where no single name speaks for the gaps."""
    gaps, copies = idle_gaps(trace), _copies(trace)
    loads = trace.host[loader_ranges(trace)]
    loaded = covered(*union(loads.start_ns, loads.end_ns), gaps.start, gaps.end) > 0
    mine = np.isin(gaps.end, trace.device.start_ns[copies]) & ~loaded & (gaps.end - gaps.start >= SHORTEST_GAP_NS)
    start, end = union(gaps.start[mine], gaps.end[mine])
    call = launching_call(trace)[copies[np.isin(trace.device.start_ns[copies], gaps.end[mine])]]
    return UnmarkedInput(
        start, end, _preparing(trace, start, end, np.isin(trace.host.thread, trace.host.thread[call[call >= 0]]))
    )


def input_ranges(trace: Trace) -> Mask:
    """Which host ranges make or fetch input: those of data loaders, and those that prepare it without a mark."""
    found = loader_ranges(trace)
    found[unmarked_input_of(trace).rows] = True
    return found


def _copies(trace: Trace) -> Ids:
    """Rows of device work: copies to the device."""
    from_host = np.array([FROM_HOST.match(name) is not None for name in trace.names], bool)
    return np.flatnonzero((trace.device.category == t.MEMCPY) & from_host[trace.device.name])


def _preparing(trace: Trace, start: Ints, end: Ints, on_thread: Mask) -> Ids:
    """Of several names the one that takes longest."""
    host = trace.host
    named = np.isin(host.category, (t.PYTHON, t.ANNOTATION)) & (host.end_ns - host.start_ns >= ABOUT * SHORTEST_GAP_NS)
    rows = np.flatnonzero(named & on_thread & ~step_ranges(trace))
    launches = np.sort(host.start_ns[calls_named(trace, is_launch)])
    rows = rows[np.searchsorted(launches, host.start_ns[rows]) == np.searchsorted(launches, host.end_ns[rows])]
    inside = covered(start, end, host.start_ns[rows], host.end_ns[rows])
    rows = rows[inside >= ABOUT * (host.end_ns[rows] - host.start_ns[rows])]
    sums = pd.Series(host.end_ns[rows] - host.start_ns[rows]).groupby(host.name[rows]).sum()
    sums = sums[sums >= ABOUT * (end - start).sum()]
    return rows[host.name[rows] == sums.idxmax()] if len(sums) else rows[:0]
