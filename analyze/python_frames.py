"""Python frames whose return torch missed: it lets them last until the profiler stops."""

import numpy as np

from . import trace as t
from .trace import HostRanges, Ids, Ints, Mask, Trace

C_CALL = "<built-in "
LATE_NS = 1000  # a range may end that much after the one around it and still be inside


def clamped_frames(trace: Trace) -> Ids:
    """Rows of the host: frames that end with the profiler, though what called them ended before, or they cannot call each other.

    What stood on the stack when the profiler stopped ends then too, each frame inside the one before; that is no fault. But a
    frame outlives no range around it, and a C call makes another C call only through a Python frame. Frames of the same name
    that end then share the fate of the first.
    """
    host = trace.host
    frames = host.category == t.PYTHON
    if not frames.any():
        return np.empty(0, np.int64)
    stop = int(host.end_ns[frames].max())
    last = np.flatnonzero(frames & (host.end_ns == stop))
    last = last[np.lexsort((host.start_ns[last], host.thread[last]))]
    faulty = _outlives(host, last, stop) | _in_a_row(trace, last)
    return last[np.isin(host.name[last], host.name[last[faulty]])]


def _outlives(host: HostRanges, last: Ids, stop: int) -> Mask:
    """Whether an operator or frame of the same thread was open when it began and ended before the profiler stopped."""
    found = np.zeros(len(last), bool)
    around = ((host.category == t.PYTHON) | (host.category == t.OP)) & (host.end_ns < stop - LATE_NS)
    for thread in np.unique(host.thread[last]).tolist():
        own = np.flatnonzero(host.thread[last] == thread)
        rows = np.flatnonzero(around & (host.thread == thread))
        found[own] = _strictly_inside(host.start_ns[last[own]], host.start_ns[rows], host.end_ns[rows])
    return found


def _strictly_inside(moment: Ints, start: Ints, end: Ints) -> Mask:
    """For each of few moments in order, whether one of many ranges holds it."""
    first = np.searchsorted(moment, start, side="right")
    behind = np.searchsorted(moment, end, side="left")
    holds = behind > first
    change = np.bincount(first[holds], minlength=len(moment) + 1) - np.bincount(behind[holds], minlength=len(moment) + 1)
    return np.cumsum(change)[:-1] > 0


def _in_a_row(trace: Trace, last: Ids) -> Mask:
    """C calls directly inside another C call, and those around them."""
    host = trace.host
    of_c = np.array([str(trace.names[name]).startswith(C_CALL) for name in host.name[last]], bool)
    pair = of_c[1:] & of_c[:-1] & (host.thread[last][1:] == host.thread[last][:-1])
    return np.append(pair, False) | np.concatenate(([False], pair))
