"""Runtime calls and device work -> which calls launch work, and what makes device times hard to trust."""

from functools import lru_cache

import numpy as np

from . import trace as t
from .clocks import CLOCK_TOLERANCE_NS, clocks
from .links import calls_named, calls_of, launching_call
from .trace import Ids, Ints, Trace


def launch_start(trace: Trace) -> Ints:
    """For each piece of device work, the start of the runtime call with its correlation, or -1."""
    call = launching_call(trace)
    return np.where(call >= 0, trace.host.start_ns[np.maximum(call, 0)], -1) if len(trace.host) else call.astype(np.int64)


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def missing_work(trace: Trace) -> str | None:
    """Launch calls without a record of their work, or records without a time: the GPU did more than the file tells."""
    if len(trace.untimed):
        return f"device events without a time: {len(trace.untimed)}"
    if lost := len(launches_without_record(trace)):
        linked = trace.host.correlation[calls_named(trace, is_launch)] > 0
        return f"launch calls without a record of their work: {lost} of {int(linked.sum())}"
    return None


def launches_without_record(trace: Trace) -> Ids:
    """Rows of the host ranges that launch something of which the file holds no record."""
    calls = np.flatnonzero(calls_named(trace, is_launch))
    correlation = trace.host.correlation[calls]
    lost = (correlation > 0) & ~np.isin(correlation, trace.device.correlation)
    return calls[lost & ~np.isin(correlation, trace.untimed.correlation)]


def launches_of_missing_work(trace: Trace) -> tuple[Ids, int]:
    """Rows of the host ranges whose work has no record, or one without a time; and how many such records have no call."""
    call = calls_of(trace, trace.untimed.correlation)
    return np.union1d(launches_without_record(trace), call[call >= 0]), int((call < 0).sum())


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def hidden_in_graphs(trace: Trace) -> str | None:
    """Launches of CUDA graphs without a record: one can hold any number of kernels."""
    lost, launched = graphs_without_kernels(trace)
    return f"graph launches without a record of the kernels inside: {lost} of {launched}" if lost else None


def graphs_without_kernels(trace: Trace) -> tuple[int, int]:
    """How many graph launches have no kernel in the file, of how many."""
    correlation = trace.host.correlation[calls_named(trace, is_graph_launch)]
    return len(hidden_graphs(trace)), int((correlation > 0).sum())


def hidden_graphs(trace: Trace) -> Ids:
    """Rows of the host ranges that launch a graph of which the file holds no kernel."""
    calls = np.flatnonzero(calls_named(trace, is_graph_launch))
    correlation = trace.host.correlation[calls]
    kernels = [work.correlation[work.category == t.KERNEL] for work in (trace.device, trace.untimed)]
    return calls[(correlation > 0) & ~np.isin(correlation, np.concatenate(kernels))]


def is_launch(name: str) -> bool:
    return ("Launch" in name and "LaunchHostFunc" not in name) or name.startswith("urEnqueueKernel")


def is_graph_launch(name: str) -> bool:
    return "GraphLaunch" in name


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def clock_offset(trace: Trace) -> str | None:
    """Work before its launch, or after a wait for it: host and device do not share one clock."""
    found = clocks(trace)
    if early := int((found.early_ns > CLOCK_TOLERANCE_NS).sum()):
        return f"the two clocks disagree: device events that start before the call that launched them, {early}"
    if late := int((found.late_ns > CLOCK_TOLERANCE_NS).sum()):
        return f"the two clocks disagree: device events that end after a wait for them returned, {late}"
    return None
