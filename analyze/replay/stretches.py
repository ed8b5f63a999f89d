"""Edges -> the times of all moments: not one by one, but in stretches of a thread or stream that wait for nothing later.

A stretch is timed by two running sums: with `own` what each of its moments takes after the one before it, and `other` when it may
happen at the earliest for all else that it waits for, it happens at the largest, over itself and all before it, of `other` and
what lies between.
"""

from dataclasses import dataclass

import numpy as np

from ..statistics import Floats
from ..trace import Ids, Mask

NEVER = -np.inf  # before all times: what waits for nothing else


@dataclass(frozen=True, eq=False)
class Stretches:
    """Moments in the order in which they are timed. `link`: for each the edge from the one before it in its chain, or -1.

    `first`: where each stretch begins, and the end. `before`: for each stretch the place of the moment that it goes on from, or
    -1. `edge`, `source`, `target`: all other edges, their ends as places in that order, by target; `again`: whether the edge
    before has the same target; `first_edge`: for each stretch its first one, and the end.
    """

    order: Ids
    place: Ids  # of each moment in that order
    link: Ids
    first: Ids
    before: Ids
    edge: Ids
    source: Ids
    target: Ids
    again: Mask
    first_edge: Ids

    @classmethod
    def of(cls, count: int, source: Ids, target: Ids, chains: Mask) -> "Stretches":
        """Edges go from earlier to later moments; `chains`: those between moments of one thread or stream."""
        link = _links(count, source, target, chains)
        head, others = _heads(source, link), np.ones(len(source), bool)
        others[link[link >= 0]] = False
        edge = np.flatnonzero(others)
        edge = edge[np.argsort(target[edge], kind="stable")]
        by_chain = np.argsort(head, kind="stable")
        level = _levels(by_chain, head, source[edge], target[edge])
        order = by_chain[np.argsort(level[by_chain], kind="stable")]
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        new = (np.diff(level[order], prepend=-1) != 0) | (np.diff(head[order], prepend=-1) != 0)
        first = np.append(np.flatnonzero(new), count)
        edge = edge[np.argsort(place[target[edge]], kind="stable")]
        before = link[order[first[:-1]]]
        before = np.where(before >= 0, place[source[before]], -1) if len(source) else before
        ends = place[target[edge]]
        return cls(
            order, place, link[order], first, before, edge, place[source[edge]], ends, np.diff(ends, prepend=-1) == 0,
            np.searchsorted(ends, first),
        )  # fmt: skip

    def times(self, weight: Floats, earliest: Floats) -> Floats:
        """When each moment happens, in `order`: edges × candidates -> moments × candidates.

        `earliest`: for each moment a time before which it does not happen, NEVER where only edges tell. Weights of edges of a
        chain are sums in the end, so that they must be of the size of times.
        """
        found, earliest = np.empty((len(self.order), weight.shape[1])), earliest[self.order]
        if not len(weight):
            found[:] = earliest[:, None]
            return found
        bounds = zip(self.first, self.first[1:], self.first_edge, self.first_edge[1:], self.before.tolist(), strict=False)
        for start, end, low, high, before in bounds:
            happens = found[start:end]
            happens[:] = earliest[start:end, None]
            if high > low:
                arrival = found[self.source[low:high]]
                arrival += weight[self.edge[low:high]]
                _raise_to(found, self.target[low:high], arrival, self.again[low:high])
            own = weight[self.link[start:end]]
            if before >= 0:
                np.maximum(happens[0], found[before] + own[0], out=happens[0])
            own[0] = 0
            passed = np.cumsum(own, axis=0, out=own)
            happens -= passed
            np.maximum.accumulate(happens, axis=0, out=happens)
            happens += passed
        return found


def _raise_to(found: Floats, rows: Ids, values: Floats, again: Mask) -> None:
    """Each of these rows to the largest of its values, if it is below; `again`: few are those of the row before."""
    if again.any():
        more = rows[again]
        starts = np.flatnonzero(np.diff(more, prepend=-1))
        largest, more = np.maximum.reduceat(values[again], starts), more[starts]
        found[more] = np.maximum(found[more], largest)
        rows, values = rows[~again], values[~again]
    found[rows] = np.maximum(found[rows], values)


def _links(count: int, source: Ids, target: Ids, chains: Mask) -> Ids:
    """For each moment the edge from the one before it in its chain, or -1: no moment has two before it or two after it."""
    found, edge = np.full(count, -1), np.flatnonzero(chains)
    for end in (target, source):
        edge = edge[np.unique(end[edge], return_index=True)[1]]
    found[target[edge]] = edge
    return found


def _heads(source: Ids, link: Ids) -> Ids:
    """For each moment the first of its chain."""
    found = np.arange(len(link))
    found[link >= 0] = source[link[link >= 0]]
    while not np.array_equal(farther := found[found], found):
        found = farther
    return found


def _levels(by_chain: Ids, head: Ids, source: Ids, target: Ids) -> Ids:
    """For each moment a number above those of all that it waits for beside its chain; it never falls along a chain.

    Only at the end of another edge can it rise: so it is counted for what lies between such ends. Edges by target.
    """
    begins = head == np.arange(len(head))
    at_head = begins.copy()
    begins[target] = True
    piece = np.empty(len(head), np.int64)
    piece[by_chain] = np.cumsum(begins[by_chain]) - 1
    level = [0] * int(begins.sum())
    ahead = (piece[target] - ~at_head[target]).tolist()
    for own, last, other in zip(piece[target].tolist(), ahead, piece[source].tolist(), strict=True):
        level[own] = max(level[own], level[last], level[other] + 1)
    return np.array(level, np.int64)[piece] if level else piece
