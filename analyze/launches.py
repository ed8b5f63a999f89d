"""Runtime calls and device work -> which call launched what, and what makes device times hard to trust."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from . import trace as t
from .trace import Ints, Mask, Trace

CLOCK_TOLERANCE_NS = 1000  # host and device clocks are aligned to about a microsecond
END_OF_TIME = np.iinfo(np.int64).max // 2


def launch_start(trace: Trace) -> Ints:
    """For each piece of device work, the start of the runtime call with its correlation, or -1."""
    call = launching_call(trace)
    return np.where(call >= 0, trace.host.start_ns[np.maximum(call, 0)], -1) if len(trace.host) else call


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def launching_call(trace: Trace) -> Ints:
    """For each piece of device work, the row of the runtime call with its correlation, or -1."""
    host, work = trace.host, trace.device
    calls = np.flatnonzero((host.category == t.RUNTIME) & (host.correlation > 0))
    if not len(calls):
        return np.full(len(work), -1)
    calls = calls[np.argsort(host.correlation[calls], kind="stable")]
    place = np.minimum(np.searchsorted(host.correlation[calls], work.correlation), len(calls) - 1)
    return np.where(host.correlation[calls[place]] == work.correlation, calls[place], -1)


def missing_work(trace: Trace) -> str | None:
    """Launch calls without a record of their work, or records without a time: the GPU did more than the file tells."""
    if trace.untimed_work:
        return f"device events without a time: {trace.untimed_work}"
    recorded = _recorded(trace, calls_named(trace, is_launch))
    if lost := int((~recorded).sum()):
        return f"launch calls without a record of their work: {lost} of {len(recorded)}"
    return None


def launches_without_record(trace: Trace) -> Ints:
    """Rows of the host ranges that launch something of which the file holds no record."""
    calls = np.flatnonzero(calls_named(trace, is_launch))
    correlation = trace.host.correlation[calls]
    return calls[(correlation > 0) & ~np.isin(correlation, trace.device.correlation)]


def hidden_in_graphs(trace: Trace) -> str | None:
    """Launches of CUDA graphs without a record: one can hold any number of kernels."""
    recorded = _recorded(trace, calls_named(trace, is_graph_launch))
    if lost := int((~recorded).sum()):
        return f"graph launches without a record of the kernels inside: {lost} of {len(recorded)}"
    return None


def calls_named(trace: Trace, named: Callable[[str], bool]) -> Mask:
    """Runtime calls by name."""
    calls = trace.host.category == t.RUNTIME
    calls[calls] = np.array([named(name) for name in trace.names], bool)[trace.host.name[calls]]
    return calls


def _recorded(trace: Trace, calls: Mask) -> Mask:
    correlation = trace.host.correlation[calls]
    return np.isin(correlation[correlation > 0], trace.device.correlation)


def is_launch(name: str) -> bool:
    return ("Launch" in name and "LaunchHostFunc" not in name) or name.startswith("urEnqueueKernel")


def is_graph_launch(name: str) -> bool:
    return "GraphLaunch" in name


def is_device_wait(name: str) -> bool:
    return name.endswith(("DeviceSynchronize", "CtxSynchronize"))


def clock_offset(trace: Trace) -> str | None:
    """Work before its launch, or after a wait for it: host and device do not share one clock."""
    if early := started_early(trace):
        return f"the two clocks disagree: device events that start before the call that launched them, {early}"
    if late := ended_late(trace):
        return f"the two clocks disagree: device events that end after a wait for them returned, {late}"
    return None


def started_early(trace: Trace) -> int:
    """Device events that start before the call that launched them."""
    launched = launch_start(trace)
    return int(((launched >= 0) & (trace.device.start_ns < launched - CLOCK_TOLERANCE_NS)).sum())


def ended_late(trace: Trace) -> int:
    """Device events that end after a wait for them returned."""
    return int((trace.device.end_ns > _waited_until(trace) + CLOCK_TOLERANCE_NS).sum())


def _waited_until(trace: Trace) -> Ints:
    """For each piece of device work, the first end of a wait for its whole device that began after its launch.

    The end of time where there is none, and where several devices work: the file does not say which of them a call waits for.
    """
    never = np.full(len(trace.device), END_OF_TIME)
    call, waits = launching_call(trace), trace.host[calls_named(trace, is_device_wait)]
    if not len(waits) or len(np.unique(trace.device.device)) > 1:
        return never
    waits = waits[np.argsort(waits.start_ns)]
    first_end = np.append(np.minimum.accumulate(waits.end_ns[::-1])[::-1], END_OF_TIME)
    return np.where(call >= 0, first_end[np.searchsorted(waits.start_ns, trace.host.end_ns[np.maximum(call, 0)])], never)
