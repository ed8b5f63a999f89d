"""Device work -> when each GPU idles, and whether the file can tell; when a data loader works."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .durations import repaired_work
from .intervals import union
from .launches import clock_offset, hidden_in_graphs, missing_work
from .step_time import phase_ranges
from .trace import Ids, Ints, Mask, Trace

LOADING = "data_loading"


@dataclass(frozen=True, eq=False)
class Gaps:
    """Parts of the window in which no stream of a device works, by device and time."""

    start: Ints
    end: Ints
    device: Ids


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def idle_gaps(trace: Trace) -> Gaps:
    """The window without the union of each device's work; nothing for devices without work."""
    parts = [_gaps(trace, int(device)) for device in np.unique(trace.device.device)]
    columns = zip(*parts, strict=True) if parts else ([np.empty(0, np.int64)],) * 3
    return Gaps(*(np.concatenate(column) for column in columns))


def _gaps(trace: Trace, device: int) -> tuple[Ints, Ints, Ids]:
    work = repaired_work(trace)[trace.device.device == device]
    start, end = union(work.start_ns, work.end_ns)
    low, high = np.append(0, end), np.append(start, trace.window_ns)
    gap = high > low
    return low[gap], high[gap], np.full(int(gap.sum()), device)


def idle_withheld(trace: Trace) -> str | None:
    """Why idle time cannot be told, if it cannot."""
    return clock_offset(trace) or hidden_in_graphs(trace) or missing_work(trace)


def loader_ranges(trace: Trace) -> Mask:
    """Which host ranges fetch a batch: those of torch's DataLoader, and phases called data_loading."""
    return phase_ranges(trace, LOADING)
