"""A graph and weights for many candidates -> when each step is complete."""

from functools import lru_cache

import numpy as np
import pandas as pd

from ..statistics import Floats
from ..trace import Ids
from .edges import CHAINS
from .graph import Graph
from .steps import completed
from .stretches import NEVER, Stretches


@lru_cache(maxsize=2)  # a report's replays share it; 2: beside a graph the careful one
def _stretches(graph: Graph) -> Stretches:
    return Stretches.of(len(graph.nodes), graph.edges.source, graph.edges.target, np.isin(graph.edges.kind, CHAINS))


def times(graph: Graph, weights: Floats, nodes: Ids) -> Floats:
    """`weights`: edges × candidates -> these nodes × candidates. What waits for nothing happens when it was measured."""
    found, free = _stretches(graph), graph.binding < 0
    return found.times(weights, np.where(free, graph.nodes.time_ns, NEVER))[found.place[nodes]]


def latest(graph: Graph, limit: Floats) -> Floats:
    """For each node the latest time at which it may happen if each is to happen by its `limit`; nothing else is changed."""
    last, edges, weight = len(graph.nodes) - 1, graph.edges, graph.weight_ns + graph.residual_ns
    back = Stretches.of(len(graph.nodes), last - edges.target, last - edges.source, np.isin(edges.kind, CHAINS))
    return -back.times(weight[:, None], -limit[::-1])[back.place, 0][::-1]


def sweep(graph: Graph, weights: Floats) -> pd.DataFrame:
    """When each step is complete (rows: step, FIRST_START for the start of the first), for each candidate (columns)."""
    return completed(graph.completions, times(graph, weights, graph.completions["node"].to_numpy()))


def step_times(graph: Graph, done: pd.DataFrame) -> Floats:
    """Of what `sweep` gives: kept steps × candidates, from completion to completion."""
    return done.loc[graph.steps["row"]].to_numpy() - done.loc[graph.steps["before"]].to_numpy()
