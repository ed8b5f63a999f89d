"""Trace -> the graph of a replay: moments, what each waits for, how long, and when each step is complete."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from ..statistics import Floats
from ..step_marks import marked_steps
from ..trace import Ids, Mask, Trace
from .edges import CALL, QUEUE, SYNC, WORK_END, WORK_START, Edges, Nodes, joined
from .excerpt import excerpt
from .points import host_side
from .steps import completions_of, kept_steps, reported_steps
from .streams import work_edges
from .sync_rows import with_waiting_calls
from .waits import Waits, waits_of
from .work import work_of

NOTABLE_NS = 20_000  # a residual above it is something the model does not know; below, launches and events vary as much
MOST_ROUNDS = 1000  # of ordering moments at the same time


@dataclass(frozen=True, eq=False)
class Graph:
    """`edges` by target. Their weights: `weight_ns` is the generic one, at most what was measured; `residual_ns` is what a node
    was later than all its edges say, put on the edge that binds it: weights and residuals together give every measured time.

    `first_edge`: for each node the row of its first edge, and one more. `binding`: for each node the edge that decides its time
    (-1: none, its time is fixed). `steps` and `completions`: as in module `steps`. `dropped_count`: edges that would go back in
    time. `waiting`: for each node whether it is the end of a call that waits for device work.
    """

    trace: Trace
    nodes: Nodes
    edges: Edges
    weight_ns: Floats
    residual_ns: Floats
    first_edge: Ids
    binding: Ids
    steps: pd.DataFrame
    reported: pd.DataFrame
    completions: pd.DataFrame
    dropped_count: int
    waiting: Mask


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def graph(trace: Trace) -> Graph:
    """Of all of the trace that is replayed."""
    return graph_of(excerpt(trace))


def graph_of(trace: Trace) -> Graph:
    """Of the whole trace, whatever its size."""
    trace = with_waiting_calls(trace)
    marked = marked_steps(trace)
    side = host_side(trace, marked)
    work, first = work_of(trace, side), len(side.points)
    waits = waits_of(trace, side, work, first)
    found = joined([_with_own(side.edges, side.calls.end, waits), waits.edges, *work_edges(trace, work, side, first)])
    nodes = Nodes(*(
        np.concatenate(columns)
        for columns in (
            (side.points.time_ns, work.start, work.end),
            (side.points.kind, np.repeat((WORK_START, WORK_END), len(work))),
            (side.points.row, np.tile(np.arange(len(work)), 2)),
            (side.points.thread, np.full(2 * len(work), -1)),
        )
    ))  # fmt: skip
    waiting = np.zeros(len(nodes), bool)
    waiting[side.calls.end[waits.waiting]] = True
    return weighted(trace, nodes, found, waiting)


def _with_own(found: Edges, call_end: Ids, waits: Waits) -> Edges:
    """What calls take by themselves as the weight of CALL edges."""
    number = np.full(int(found.target.max(initial=-1)) + 1, -1)
    number[call_end] = np.arange(len(call_end))
    calls = np.flatnonzero(found.kind == CALL)
    generic = found.generic_ns.copy()
    generic[calls] = waits.own_ns[number[found.target[calls]]]
    return replace(found, generic_ns=generic)


def weighted(trace: Trace, nodes: Nodes, found: Edges, waiting: Mask) -> Graph:
    """The graph of these edges, in order, with residuals."""
    kept = (found.measured_ns >= 0) & (found.source >= 0)
    dropped = int((~kept).sum())
    found = found[kept]
    order, found = _ordered(nodes, found)
    place = np.empty(len(nodes), np.int64)
    place[order] = np.arange(len(nodes))
    found = replace(found, source=place[found.source], target=place[found.target])
    forward = found.source < found.target
    dropped += int((~forward).sum())
    found = found[forward]
    found = found[np.lexsort((found.source, found.target))]
    nodes, waiting = nodes[order], waiting[order]
    weight = np.minimum(found.generic_ns, found.measured_ns)
    first = np.searchsorted(found.target, np.arange(len(nodes) + 1))
    residual, binding = _residuals(nodes, found, weight, first)
    completions = completions_of(trace, nodes)
    steps = kept_steps(trace, nodes, completions)
    reported = reported_steps(trace, nodes, completions, steps)
    return Graph(trace, nodes, found, weight, residual, first, binding, steps, reported, completions, dropped, waiting)


def without(found: Graph, kinds: tuple[int, ...]) -> Graph:
    """The same trace with edges of these kinds left out: what they are good for."""
    taken = ~np.isin(found.edges.kind, kinds)
    return weighted(found.trace, found.nodes, found.edges[taken], found.waiting)


def _ordered(nodes: Nodes, found: Edges) -> tuple[Ids, Edges]:
    """Nodes by time; of equal times each after what it waits for."""
    level = np.zeros(len(nodes), np.int64)
    tied = np.flatnonzero(found.measured_ns == 0)
    source, target = found.source[tied], found.target[tied]
    for _ in range(MOST_ROUNDS):
        behind = level[target] <= level[source]
        if not behind.any():
            break
        np.maximum.at(level, target[behind], level[source[behind]] + 1)
    return np.lexsort((level, nodes.time_ns)), found


def _residuals(nodes: Nodes, found: Edges, weight: Floats, first: Ids) -> tuple[Floats, Ids]:
    """What each node is later than its edges say, on the edge that binds it; of a call that waits on that from what it awaits."""
    count = len(nodes)
    binding, residual = np.full(count, -1), np.zeros(len(found))
    if not len(found):
        return residual, binding
    arrival = nodes.time_ns[found.source] + weight
    has = first[1:] > first[:-1]
    latest = np.full(count, -np.inf)
    latest[has] = np.maximum.reduceat(arrival, first[:-1][has])
    late = np.where(has, nodes.time_ns - latest, 0)
    awaited = np.isin(found.kind, (SYNC, QUEUE)) & (late[found.target] > NOTABLE_NS)
    rank = np.lexsort((arrival, awaited, found.target))
    binding[has] = rank[first[1:][has] - 1]
    behind = nodes.time_ns[has] - arrival[binding[has]]
    residual[binding[has]] = behind
    return residual, binding
