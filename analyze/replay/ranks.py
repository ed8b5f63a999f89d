"""Trace and the other ranks of its run -> their graphs, tied where they communicate: no collective ends before all have come.

Of one rank alone the time of a collective is what was measured. Of all ranks it is the transfer (the shortest time that any rank
spends in it) after the last of them has come, so that a change moves what the others wait for.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from ...capture.errors import ChangeError
from ..statistics import Floats
from ..trace import Ids, Ints, Table, Trace
from ..waiting import Calls, calls_of
from .changes import Effect, effect_of, joint
from .edges import CHAINS, KERN
from .excerpt import NotReplayed, excerpts
from .graph import Graph, graph, graph_of
from .steps import completed
from .stretches import NEVER, Stretches
from .sweep import sweep
from .what import WhatIf


@dataclass(frozen=True, eq=False)
class Meetings(Table):
    """One row a rank of each collective: its graph, the row of its KERN edge there, and the number of the call."""

    graph: Ids
    edge: Ids
    call: Ids
    transfer_ns: Ints


@dataclass(frozen=True, eq=False)
class Ranks:
    """`alone`: the graph of the explained rank as it was measured. `graphs`: those of all ranks, its own first, without waiting
    for others; `alone` alone where `untied` says why (empty: there are no other ranks, or they do not communicate). `clock_ns`:
    what to add to the times of each to have those of the first. `meetings`: of what ties them.

    In the order of all moments a collective adds one: that the last of its ranks has come.
    """

    alone: Graph
    graphs: tuple[Graph, ...]
    clock_ns: tuple[int, ...] = (0,)
    meetings: Meetings | None = None
    untied: str = ""

    @property
    def waits_ns(self) -> Ints:
        """For each edge of the first graph the waiting for other ranks that its measured time holds."""
        found = np.zeros(len(self.graphs[0].edges), np.int64)
        if self.meetings is not None:
            own = self.meetings[self.meetings.graph == 0]
            found[own.edge] = self.graphs[0].edges.measured_ns[own.edge] - own.transfer_ns
        return found

    def with_graphs(self, graphs: Sequence[Graph], origins: Sequence[Ids]) -> "Ranks":
        """The same of other graphs, whose edges are these of the own ones, -1: of none."""
        if self.meetings is None:
            return replace(self, graphs=tuple(graphs))
        edge = np.empty(len(self.meetings), np.int64)
        for number, origin in enumerate(origins):
            own = self.meetings.graph == number
            place = np.full(len(self.graphs[number].edges) + 1, -1)
            place[origin] = np.arange(len(origin))
            edge[own] = place[self.meetings.edge[own]]
        return tied(graphs, self.clock_ns, replace(self.meetings, edge=edge))

    @property
    def residual_ns(self) -> Floats:
        """For each row of the meetings what it ends later than the last rank has come and the transfer is over."""
        if self.meetings is None:
            return np.empty(0)
        return np.maximum(0, self.together.over_ns - self.meetings.transfer_ns).astype(np.float64)

    @cached_property
    def together(self) -> "_All":
        """All moments in one order."""
        assert self.meetings is not None
        return _All.of(self.graphs, self.clock_ns, self.meetings)


@dataclass(frozen=True, eq=False)
class _All:
    """All moments: those of each graph one after the other, then those at which the last rank comes to each call.

    `first_node`: where each graph begins; `stretches`, `earliest`: in the order of time; `place`: of each moment among what
    `stretches` gives. `over_ns`: for each row of `meetings` how long after the last rank had come it ended.
    """

    first_node: Ids
    clock_ns: tuple[int, ...]
    stretches: Stretches
    place: Ids
    earliest: Floats
    meetings: Meetings
    over_ns: Ints

    @classmethod
    def of(cls, graphs: Sequence[Graph], clock_ns: tuple[int, ...], meetings: Meetings) -> "_All":
        first = np.cumsum([0, *(len(one.nodes) for one in graphs)])
        time = np.concatenate([one.nodes.time_ns + clock for one, clock in zip(graphs, clock_ns, strict=True)])
        free = np.concatenate([one.binding < 0 for one in graphs])
        source, target = (
            np.concatenate([getattr(one.edges, side) + start for one, start in zip(graphs, first, strict=False)])
            for side in ("source", "target")
        )
        chains = np.concatenate([np.isin(one.edges.kind, CHAINS) for one in graphs])
        begin, end = _ends(graphs, first, meetings)
        last = _last(begin, time, meetings.call)
        count, hub = len(last), meetings.call + len(time)
        order = np.lexsort((
            np.append(np.zeros(len(time)), np.ones(count)), np.append(np.arange(len(time)), last), np.append(time, time[last])
        ))  # fmt: skip
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        both = (np.concatenate((source, begin, hub)), np.concatenate((target, hub, end)))
        own = np.concatenate((chains, np.zeros(2 * len(hub), bool)))
        earliest = np.append(np.where(free, time, NEVER), np.full(count, NEVER))
        stretches = Stretches.of(len(place), place[both[0]], place[both[1]], own)
        over = time[end] - time[last][meetings.call]
        return cls(first, clock_ns, stretches, stretches.place[place], earliest[order], meetings, over)

    def times(self, weights: Sequence[Floats], residual_ns: Floats) -> list[Floats]:
        """For each graph nodes × candidates, in its own time."""
        transfer: Floats = np.empty((len(self.meetings), weights[0].shape[1]))
        for number, weight in enumerate(weights):
            own = self.meetings.graph == number
            transfer[own] = weight[self.meetings.edge[own]]
        ends = np.minimum(transfer, self.over_ns[:, None]) + residual_ns[:, None]
        weight: Floats = np.concatenate([*weights, 0 * ends, ends])
        found = self.stretches.times(weight, self.earliest)
        found = found[self.place]
        return [found[a:b] - clock for a, b, clock in zip(self.first_node[:-1], self.first_node[1:], self.clock_ns, strict=True)]


def sweep_of_ranks(run: Ranks, weights: Sequence[Floats], residual_ns: Floats) -> list[pd.DataFrame]:
    """`weights`: for each graph edges × candidates -> for each when its steps are complete, as `sweep` gives it.

    `residual_ns`: for each row of the meetings what it ends later than the last rank has come and the transfer is over.
    """
    if run.meetings is None:
        return [sweep(run.graphs[0], weights[0])]
    times = run.together.times(weights, residual_ns)
    return [completed(one.completions, found[one.completions["node"]]) for one, found in zip(run.graphs, times, strict=True)]


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def ranks_of(trace: Trace) -> Ranks:
    """Of this trace and its peers."""
    traces = (trace, *trace.peers)
    calls = calls_of(traces) if len(trace.device) and trace.peers else None
    if calls is None:
        return _alone(trace)
    if calls.unmatched:
        return _alone(trace, calls.unmatched)
    try:
        cut = excerpts(traces)
    except NotReplayed as missing:
        return _alone(trace, missing.why)
    graphs = tuple(graph(one) if one is trace else graph_of(one) for one in cut)
    base = trace.origin_ns - calls.ahead_ns[0]
    clock = tuple(one.origin_ns - ahead - base for one, ahead in zip(traces, calls.ahead_ns, strict=True))
    return tied(graphs, clock, _meetings(graphs, traces, calls))


def _alone(trace: Trace, untied: str = "") -> Ranks:
    return Ranks(graph(trace), (graph(trace),), untied=untied)


def tied(graphs: Sequence[Graph], clock_ns: tuple[int, ...], meetings: Meetings) -> Ranks:
    """With the time of each collective cut down to its transfer. A rank that leaves one before the last has come (the root of a
    broadcast may) keeps the time that was measured.
    """
    first = np.cumsum([0, *(len(one.nodes) for one in graphs)])
    time = np.concatenate([one.nodes.time_ns + clock for one, clock in zip(graphs, clock_ns, strict=True)])
    begin, end = _ends(graphs, first, meetings)
    last = _last(begin, time, meetings.call)[meetings.call] if len(meetings) else begin
    stays = (time[end] > time[last]) | ((time[end] == time[last]) & (end > last))
    meetings = meetings[stays]
    if not len(meetings):
        return Ranks(graphs[0], (graphs[0],), untied="no collective ends after all ranks have come")
    call = np.unique(meetings.call, return_inverse=True)[1].ravel()
    meetings = replace(meetings, call=call)
    apart = tuple(_without_waits(one, meetings[meetings.graph == n]) for n, one in enumerate(graphs))
    return Ranks(graphs[0], apart, clock_ns, meetings)


def _without_waits(found: Graph, own: Meetings) -> Graph:
    generic, weight, residual = found.edges.generic_ns.copy(), found.weight_ns.copy(), found.residual_ns.copy()
    generic[own.edge] = weight[own.edge] = own.transfer_ns
    residual[own.edge] = 0
    return replace(found, edges=replace(found.edges, generic_ns=generic), weight_ns=weight, residual_ns=residual)


def _meetings(graphs: Sequence[Graph], traces: Sequence[Trace], calls: Calls) -> Meetings:
    """Of the calls that all their ranks have among what is replayed."""
    rows = calls.rows
    parts = [_edges_of(one, whole, rows[rows["rank"] == n]) for n, (one, whole) in enumerate(zip(graphs, traces, strict=True))]
    edge = pd.concat(parts).reindex(rows.index).to_numpy()
    there = pd.Series(edge >= 0).groupby(rows["call"].to_numpy()).transform("all").to_numpy()
    kept = rows[there]
    call = np.unique(kept["call"], return_inverse=True)[1].ravel()
    return Meetings(kept["rank"].to_numpy(), edge[there], call, kept["transfer_ns"].to_numpy())


def _edges_of(found: Graph, whole: Trace, rows: pd.DataFrame) -> pd.Series:
    """For each row the KERN edge of its device work, -1 where that is not replayed."""
    kern = np.flatnonzero(found.edges.kind == KERN)
    by_work = np.full(len(found.trace.device) + 1, -1)
    by_work[found.edges.work[kern]] = kern
    return pd.Series(by_work[_rows_in(found.trace, whole)[rows["row"].to_numpy()]], rows.index)


def _rows_in(cut: Trace, whole: Trace) -> Ids:
    """For each piece of device work of a trace its row in an excerpt of it, or -1."""
    if cut.excerpt is None:
        return np.arange(len(whole.device))
    keys = ["start_ns", "device", "stream", "name", "end_ns"]
    a, b = (pd.DataFrame({key: getattr(one.device, key) for key in keys}) for one in (whole, cut))
    a, b = (one.assign(number=one.groupby(keys).cumcount()) for one in (a, b))
    found = a.merge(b.assign(row=np.arange(len(b))), how="left", on=[*keys, "number"])["row"]
    return found.fillna(-1).to_numpy(np.int64)


def effects(run: Ranks, changes: Sequence[WhatIf]) -> list[Effect]:
    """What the changes do to each graph: made in the program they are made on all ranks, on each to what it has of them.

    ChangeError where one matches nothing on the first.
    """
    first, *others = run.graphs
    return [joint(first, [effect_of(first, change) for change in changes]), *(_of_peer(one, changes) for one in others)]


def _of_peer(found: Graph, changes: Sequence[WhatIf]) -> Effect:
    known = []
    for change in changes:
        with suppress(ChangeError):
            known.append(effect_of(found, change))
    return joint(found, known)


def _ends(graphs: Sequence[Graph], first: Ids, meetings: Meetings) -> tuple[Ids, Ids]:
    """Nodes at which each rank begins and ends each collective, numbered over all graphs."""
    begin, end = np.empty(len(meetings), np.int64), np.empty(len(meetings), np.int64)
    for number, one in enumerate(graphs):
        own = meetings.graph == number
        edges = one.edges[meetings.edge[own]]
        begin[own], end[own] = edges.source + first[number], edges.target + first[number]
    return begin, end


def _last(begin: Ids, time: Ints, call: Ids) -> Ids:
    """For each call the node of the rank that comes last."""
    found = np.empty(int(call.max()) + 1, np.int64)
    order = np.lexsort((begin, time[begin]))
    found[call[order]] = begin[order]  # of several assignments the last one stays
    return found
