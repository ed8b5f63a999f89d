"""Allocations and releases in the order of time -> what was held, what was alive at a moment, which operators asked for it."""

from dataclasses import dataclass

import numpy as np

from . import trace as t
from .intervals import Nest, outermost
from .trace import Allocations, Ids, Ints, Trace

HOST = -1  # instead of a device's id
CPU = 0  # c10::DeviceType


def places(events: Allocations) -> Ints:
    """For each, the id of its device, or HOST."""
    on_host = (events.device_type == CPU) | ((events.device_type < 0) & (events.device < 0))
    return np.where(on_host, HOST, np.maximum(events.device.astype(np.int64), 0))


def place_name(device: int) -> str:
    """What tables call it."""
    return "host" if device == HOST else f"GPU {device}"


def levels(events: Allocations) -> tuple[int | None, Ints]:
    """Of one device: bytes held before the first event, and after each; without the allocator's own count None, and from 0 on."""
    if (events.total_bytes == -1).any():
        return None, np.cumsum(events.size_bytes)
    return int(events.total_bytes[0] - events.size_bytes[0]), events.total_bytes


def alive(events: Allocations, last: int) -> Ints | None:
    """Of one device: rows of what was allocated and not yet released after row `last`; None where addresses are missing."""
    if (events.address == -1).any():
        return None
    _, back = np.unique(events.address[: last + 1][::-1], return_index=True)
    latest = np.sort(last - back)
    return latest[events.size_bytes[latest] > 0]


def net_changes(events: Allocations, start: Ints, end: Ints) -> Ints:
    """For each window [start, end), allocations less releases."""
    held = np.concatenate(([0], np.cumsum(events.size_bytes)))
    return held[np.searchsorted(events.time_ns, end)] - held[np.searchsorted(events.time_ns, start)]


@dataclass(frozen=True, eq=False)
class OpenOps(t.Table):
    """Operators that were open on a thread at a moment: rows of Trace.names, -1 for none."""

    inner: Ids
    outer: Ids


def open_ops(trace: Trace, events: Allocations) -> OpenOps:
    """For each, the operators around it: the innermost and the outermost."""
    host = trace.host
    inner, outer = (np.full(len(events), -1, np.int32) for _ in range(2))
    for thread in np.unique(events.thread):
        at = np.flatnonzero(events.thread == thread)
        rows = np.flatnonzero((host.category == t.OP) & (host.thread == thread))
        inner[at] = _open(trace, rows, events.time_ns[at])
        outer[at] = _open(trace, rows[outermost(host.start_ns[rows], host.end_ns[rows])], events.time_ns[at])
    return OpenOps(inner, np.where(outer < 0, inner, outer))


def _open(trace: Trace, rows: Ints, moment: Ints) -> Ids:
    found = Nest.of(trace.host.start_ns[rows], trace.host.end_ns[rows]).innermost_at(moment)
    return np.append(trace.host.name[rows], np.int32(-1))[found]
