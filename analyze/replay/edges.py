"""The tables of a replay: moments of a trace (nodes) and what each of them waits for (edges).

The time of a node is the largest, over the edges that end there, of the time of where the edge begins and the edge's weight.
"""

from dataclasses import dataclass, fields

import numpy as np

from ..statistics import Floats
from ..trace import Ids, Ints, Table

CALL_START, CALL_END, WORK_START, WORK_END, STEP_START, STEP_END, BURST_START, BURST_END = range(8)  # Nodes.kind
(
    HOST,  # a thread goes on from one moment to the next
    CALL,  # a call from its start to its end
    LAUNCH,  # from the start of a launch to the start of its work
    STREAM,  # a stream goes on with its next work
    KERN,  # device work from its start to its end
    SYNC,  # work that a call waits for, to the end of the call
    QUEUE,  # a launch returns once the queue has room
    HAND,  # one thread hands over to another, and back
    XS,  # work waits for work of another stream: inferred where no row says so
    CONT,  # work cannot start beside long work of another stream: inferred; begins at the start of that work and holds its time
    GRAPH,  # work inside one launch of a graph, or a graph behind other work: part of the gap may be work that is not recorded
    PIN,  # holds late work at its measured distance from the start of its step: for careful predictions only
    EVENT,  # work waits for work of another stream, as a cuda_sync row says
) = range(13)  # Edges.kind
KINDS = ("HOST", "CALL", "LAUNCH", "STREAM", "KERN", "SYNC", "QUEUE", "HAND", "XS", "CONT", "GRAPH", "PIN", "EVENT")
CHAINS = (HOST, CALL, KERN, STREAM, GRAPH)  # along one thread or stream; no change cuts one
INFERRED = (HAND, XS, CONT)  # the trace does not say that these edges exist


@dataclass(frozen=True, eq=False)
class Nodes(Table):
    """Moments, in an order in which every edge goes forward."""

    time_ns: Ints  # measured
    kind: Ids
    row: Ids  # of calls that of Trace.host, of work that of Trace.device, of steps that of marked_steps; -1 for bursts
    thread: Ids  # row of Trace.threads; -1 for device work


@dataclass(frozen=True, eq=False)
class Edges(Table):
    """What each moment waits for, by `target`; the columns from `weight_ns` on are filled by `graph`."""

    kind: Ids
    source: Ids
    target: Ids
    generic_ns: Floats  # by the same rule in all traces
    measured_ns: Ints  # time of the target less that of the source
    work: Ids  # row of Trace.device whose duration the weight holds, else -1


def edges(kind: int, source: Ids, target: Ids, generic: Ints | Floats | float, measured: Ints, work: Ids | int = -1) -> Edges:
    """Edges of one kind."""
    count = len(source)
    return Edges(
        np.full(count, kind, np.int8), source, target,
        np.broadcast_to(np.asarray(generic, np.float64), count), measured, np.broadcast_to(np.asarray(work), count),
    )  # fmt: skip


def joined(parts: list[Edges]) -> Edges:
    return Edges(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Edges)))
