"""Ranges in which the profiler itself worked -> how much of the launch calls that was."""

from dataclasses import dataclass

from . import trace as t
from .intervals import covered, length, union
from .trace import Ids, Trace


@dataclass(frozen=True)
class Overhead:
    """`overhead_ns`: time in which the profiler worked. Its ranges name no thread, so a call is overlapped by time alone."""

    overhead_ns: int
    launch_ns: int  # all launch calls
    launch_overhead_ns: int  # the part of them in which the profiler worked
    overlapping_count: int  # launch calls


def profiler_overhead(trace: Trace, launches: Ids) -> Overhead | None:
    """Of these launch calls, rows of trace.host; None where the file tells of no overhead."""
    host = trace.host
    own = host.category == t.OVERHEAD
    if not own.any():
        return None
    start, end = union(host.start_ns[own], host.end_ns[own])
    low, high = host.start_ns[launches], host.end_ns[launches]
    inside = covered(start, end, low, high)
    return Overhead(length(start, end), int((high - low).sum()), int(inside.sum()), int((inside > 0).sum()))
