"""Host ranges, such as Optimizer.step that torch marks by itself -> their time in the steps, and the work launched in them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import trace as t
from .durations import repaired_work
from .host_tree import thread_offsets
from .intervals import union
from .links import launching_call, links
from .step_marks import marked_steps
from .step_time import row_at
from .trace import DeviceRanges, Ids, Trace


@dataclass(frozen=True, eq=False)
class MarkedWork:
    """`rows`: of trace.host, the ranges that begin in counted steps; `work`: device work launched in them, on their thread, and
    `ops`: the name of the operator of each piece, "" without one.

    `names`: of the ranges; `host_ns`: their union on each thread, added up; `steps`: how many counted steps the trace has.
    """

    rows: Ids
    work: DeviceRanges
    ops: pd.Series
    names: tuple[str, ...]
    host_ns: int
    steps: int

    @property
    def device_ns(self) -> int:
        return int((self.work.end_ns - self.work.start_ns).sum())


def marked_work(trace: Trace, beginning: str) -> MarkedWork:
    """Of the annotations and operators whose names begin so."""
    named = np.array([name.startswith(beginning) for name in trace.names], bool)
    kinds = (trace.host.category == t.ANNOTATION) | (trace.host.category == t.OP)
    return work_in(trace, np.flatnonzero(kinds & named[trace.host.name]))


def work_in(trace: Trace, rows: Ids) -> MarkedWork:
    """Of those of these ranges that begin in counted steps."""
    host, steps = trace.host, marked_steps(trace)
    steps = steps[steps["counted"]]
    rows = rows[row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), host.start_ns[rows]) >= 0]
    offset, call = thread_offsets(host), launching_call(trace)
    start, end = union(host.start_ns[rows] + offset[host.thread[rows]], host.end_ns[rows] + offset[host.thread[rows]])
    known = np.flatnonzero(call >= 0)
    moment = host.start_ns[call[known]] + offset[host.thread[call[known]]]
    inside = known[row_at(start, end, moment) >= 0]
    owner = links(trace).owner[inside]
    text = np.array([*trace.names, ""], object)
    ops = pd.Series(text[np.append(host.name, -1)[owner]], dtype=object)
    names = tuple(sorted({str(trace.names[int(name)]) for name in np.unique(host.name[rows])}))
    return MarkedWork(rows, repaired_work(trace)[inside], ops, names, int((end - start).sum()), len(steps))
