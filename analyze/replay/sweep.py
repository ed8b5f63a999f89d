"""A graph and weights for many candidates -> when each moment happens, by one pass over the moments in order."""

import numpy as np
import pandas as pd

from ..statistics import Floats
from .graph import Graph
from .steps import completed


def times(graph: Graph, weights: Floats) -> Floats:
    """`weights`: edges × candidates -> nodes × candidates. What waits for nothing happens when it was measured."""
    found = np.empty((len(graph.nodes), weights.shape[1]))
    found[:] = graph.nodes.time_ns[:, None]
    at, weight, other = list(found), list(weights), np.empty(weights.shape[1])
    source, first = graph.edges.source.tolist(), graph.first_edge.tolist()
    add, maximum = np.add, np.maximum
    for node, start, end in zip(range(len(at)), first, first[1:], strict=False):
        if start == end:
            continue
        own = at[node]
        add(at[source[start]], weight[start], own)
        for edge in range(start + 1, end):
            add(at[source[edge]], weight[edge], other)
            maximum(own, other, out=own)
    return found


def sweep(graph: Graph, weights: Floats) -> pd.DataFrame:
    """When each step is complete (rows: step, FIRST_START for the start of the first), for each candidate (columns)."""
    return completed(graph.completions, times(graph, weights))


def step_times(graph: Graph, done: pd.DataFrame) -> Floats:
    """Of what `sweep` gives: kept steps × candidates, from completion to completion."""
    return done.loc[graph.steps["row"]].to_numpy() - done.loc[graph.steps["before"]].to_numpy()
