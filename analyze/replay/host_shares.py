"""Graph -> what runs inside its host edges: pieces of time, each with the innermost host range there."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .. import trace as t
from ..host_tree import HostTree, thread_offsets
from ..intervals import borders
from ..statistics import Floats
from ..step_marks import step_ranges
from ..step_time import row_at
from ..trace import Ids, Ints, Table
from .edges import CALL, HOST
from .graph import Graph


@dataclass(frozen=True, eq=False)
class HostShares(Table):
    """One row a piece of a HOST or CALL edge; the pieces of an edge add up to its measured time."""

    edge: Ids  # row of Graph.edges
    row: Ids  # of Trace.host: the operator, annotation or call that is innermost; -1 outside of all
    start_ns: Ints
    moment: Ints  # the same on HostTree's line of all threads
    ns: Ints


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def host_shares(graph: Graph) -> HostShares:
    """Of all threads. Python frames and steps take no time from the ranges around them."""
    trace, nodes = graph.trace, graph.nodes
    host = trace.host
    chain = np.flatnonzero(np.isin(graph.edges.kind, (HOST, CALL)) & (graph.edges.measured_ns > 0))
    thread = nodes.thread[graph.edges.source[chain]]
    offset = thread_offsets(host)[thread] if len(host) else np.zeros(len(chain), np.int64)
    low, high = (nodes.time_ns[side[chain]] + offset for side in (graph.edges.source, graph.edges.target))
    order = np.argsort(low, kind="stable")
    chain, low, high = chain[order], low[order], high[order]
    tree = HostTree.of(trace, np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME)) & ~step_ranges(trace))
    moment = borders(low, high, tree.start, tree.end)
    edge = row_at(low, high, moment[:-1])
    inside = edge >= 0
    start, ns, edge = moment[:-1][inside], np.diff(moment)[inside], edge[inside]
    row = np.append(tree.row, -1)[tree.innermost_at(start)]
    return HostShares(chain[edge], row, start - (low - nodes.time_ns[graph.edges.source[chain]])[edge], start, ns)


def kept_of_edges(graph: Graph, left: Floats) -> Floats:
    """`left`: for each piece how much of it; -> for each edge how much of its time, all of it where it has no pieces."""
    pieces, count = host_shares(graph), len(graph.edges)
    gone = np.bincount(pieces.edge, weights=pieces.ns * (1 - left), minlength=count)
    whole = np.bincount(pieces.edge, weights=pieces.ns, minlength=count)
    return 1 - np.divide(gone, whole, out=np.zeros(count), where=whole > 0)
