"""Graph -> a more careful one, in which what no rule explains stays where it was measured within its step."""

import numpy as np

from ..trace import Ids
from .edges import CONT, PIN, STEP_START, edges, joined
from .graph import NOTABLE_NS, Graph, weighted


def pinned(found: Graph) -> tuple[Graph, Ids]:
    """Late moments also wait for the start of their step; and for each edge of it the row in the graph given, or -1."""
    nodes, kept = found.nodes, found.edges
    late = np.zeros(len(nodes), bool)
    late[kept.target[(found.residual_ns > NOTABLE_NS) | (kept.kind == CONT)]] = True
    late = np.flatnonzero(late)
    starts = np.flatnonzero(nodes.kind == STEP_START)
    place = np.searchsorted(nodes.time_ns[starts], nodes.time_ns[late], side="right") - 1
    late, source = late[place >= 0], starts[place[place >= 0]]
    distance = nodes.time_ns[late] - nodes.time_ns[source]
    both = joined([kept, edges(PIN, source, late, distance, distance)])
    order = np.lexsort((both.source, both.target))
    return weighted(found.trace, nodes, both, found.waiting), np.where(order < len(kept), order, -1)
