"""Device work beside the calls that launched it and waited for it -> do host and device share one clock?"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .durations import possible_end
from .links import launching_call
from .syncs import ALL_STREAMS, NOT_TOLD, Syncs, syncs
from .trace import Ids, Ints, Mask, Trace

CLOCK_TOLERANCE_NS = 1000  # host and device clocks are aligned to about a microsecond
END_OF_TIME = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, eq=False)
class Clocks:
    """One row a piece of device work; far below 0 where no call in the file tells.

    `early_ns`: how long before the start of its launch it starts. `late_ns`: how long it ends after the return of a wait for its
    device or its stream that began after its launch had ended.
    """

    early_ns: Ints
    late_ns: Ints

    @property
    def offset(self) -> Mask:
        """Work whose times cannot be compared with those of the host."""
        return (self.early_ns > CLOCK_TOLERANCE_NS) | (self.late_ns > CLOCK_TOLERANCE_NS)


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def clocks(trace: Trace) -> Clocks:
    """Each piece of device work against its launch, and against the waits for it."""
    host, work, call = trace.host, trace.device, launching_call(trace)
    end = possible_end(work)
    early, late = np.full(len(work), -END_OF_TIME), np.full(len(work), -END_OF_TIME)
    rows = np.flatnonzero(call >= 0)
    early[rows] = host.start_ns[call[rows]] - work.start_ns[rows]
    process = np.unique([pid for pid, _ in trace.threads], return_inverse=True)[1]
    own = np.full(len(work), -1)
    own[rows] = process[host.thread[call[rows]]]
    for mine, waits in _waited_for(trace, process, own):
        rows = np.flatnonzero(mine)
        returned = _first_return(waits, host.end_ns[call[rows]])
        late[rows] = np.maximum(late[rows], end[rows] - returned)
    return Clocks(early, late)


def _first_return(waits: Syncs, moment: Ints) -> Ints:
    """For each moment, the first end of a wait that begins at it or later; the end of time where none does."""
    order = np.argsort(waits.start_ns, kind="stable")
    first = np.append(np.minimum.accumulate(waits.end_ns[order][::-1])[::-1], END_OF_TIME)
    return first[np.searchsorted(waits.start_ns[order], moment)]


def _waited_for(trace: Trace, process: Ids, own: Ids) -> Iterator[tuple[Mask, Syncs]]:
    """Work of known calls, and the waits for it: those of its process for its device or its stream; `own`: the process of work.

    What a wait does not tell is known where there is one choice: all work that may be of its process is on one device, all
    known work of its device is of one process.
    """
    found, work = syncs(trace), trace.device
    found = found[found.stream != NOT_TOLD]
    keys = np.stack((np.append(process, NOT_TOLD)[found.thread], found.device, found.stream), axis=1)
    for key in np.unique(keys, axis=0):
        one, device, stream = key.tolist()
        processes = [one] if one != NOT_TOLD else np.unique(own[(work.device == device) & (own >= 0)]).tolist()
        devices = [device] if device != NOT_TOLD else np.unique(work.device[(own == one) | (own < 0)]).tolist()
        if len(processes) == len(devices) == 1:
            mine = (own == processes[0]) & (work.device == devices[0])
            yield mine if stream == ALL_STREAMS else mine & (work.stream == stream), found[(keys == key).all(axis=1)]
