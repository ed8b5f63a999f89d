"""Calls that wait for the GPU -> how long, and the idle time after them that the host could have filled had it not waited."""

from dataclasses import dataclass

import numpy as np

from . import trace as t
from .durations import repaired_work
from .host_tree import thread_offsets
from .intervals import covered, union
from .launches import is_graph_launch, is_launch
from .links import calls_named, launching_call
from .trace import Ids, Ints, Mask, Table, Trace

SHORTEST_WAIT_NS = 10_000  # a call that finds nothing to wait for takes up to that


@dataclass(frozen=True, eq=False)
class HostWaits(Table):
    """One row a wait, by thread and time: calls of a thread that wait while nothing is launched between them are one wait.

    Of several devices the times are of the one that could gain most.
    """

    start_ns: Ints
    end_ns: Ints
    thread: Ids
    call: Ids  # row of trace.host: the call that took longest
    launched: Ids  # launch calls before it in the file
    waited_ns: Ints  # how long the device works during the calls; 0 below SHORTEST_WAIT_NS
    idle_ns: Ints  # how long it idles from there to the thread's next wait, or to the end of its work

    def filled_ns(self, gone: Mask) -> Ints:
        """For each wait, the idle time after it that is filled if those waits are gone, all together.

        The host is ahead by what it did not wait, less what it has filled, until the next wait that is left.
        """
        first = np.concatenate(([True], self.thread[1:] != self.thread[:-1]))[: len(self)]
        most = int(self.waited_ns.sum()) + 1
        moves = np.stack((np.where(first | ~gone, -most, 0), np.where(gone, self.waited_ns - self.idle_ns, 0)), axis=1)
        walk = np.cumsum(moves.ravel())
        lead = (walk - np.minimum.accumulate(np.minimum(walk, 0)))[::2]
        return np.where(gone, np.minimum(lead + self.waited_ns, self.idle_ns), 0)


def host_waits(trace: Trace) -> HostWaits:
    """Synchronisations, and copies that end before their call returns."""
    host, rows = trace.host, waiting_calls(trace)
    if not len(rows):
        return HostWaits(*np.empty((7, 0), np.int64))
    rows = rows[np.argsort(host.start_ns[rows] + thread_offsets(host)[host.thread[rows]], kind="stable")]
    launches = np.sort(host.start_ns[calls_named(trace, is_launch)])
    launched, thread = np.searchsorted(launches, host.start_ns[rows]), host.thread[rows]
    first = np.flatnonzero(np.concatenate(([True], (launched[1:] != launched[:-1]) | (thread[1:] != thread[:-1]))))
    start, end = host.start_ns[rows[first]], np.maximum.reduceat(host.end_ns[rows], first)
    follows = np.append(thread[first[1:]] == thread[first[:-1]], False)
    until = np.where(follows, np.append(start[1:], 0), trace.window_ns)
    waited, idle = _times(trace, rows, first, end, until)
    return HostWaits(start, end, thread[first], _longest(trace, rows, first), launched[first], waited, idle)


def waiting_calls(trace: Trace) -> Ids:
    """Rows of trace.host."""
    host, work, call = trace.host, repaired_work(trace), launching_call(trace)
    copies = np.flatnonzero((work.category == t.MEMCPY) & (call >= 0))
    inside = (work.end_ns[copies] > host.start_ns[call[copies]]) & (work.end_ns[copies] <= host.end_ns[call[copies]])
    waits = calls_named(trace, lambda name: "Synchronize" in name)
    waits[call[copies[inside]]] = True
    return np.flatnonzero(waits)


def _times(trace: Trace, rows: Ids, first: Ids, end: Ints, until: Ints) -> tuple[Ints, Ints]:
    """`waited_ns` and `idle_ns` of HostWaits."""
    waited, idle = np.zeros(len(first), np.int64), np.full(len(first), -1)
    for device in np.unique(trace.device.device):
        busy = _busy(trace, np.flatnonzero(trace.device.device == device))
        during = np.add.reduceat(covered(*busy, trace.host.start_ns[rows], trace.host.end_ns[rows]), first)
        during = np.where(during >= SHORTEST_WAIT_NS, during, 0)
        high = np.maximum(end, np.minimum(until, busy[1].max(initial=0)))
        after = high - end - covered(*busy, end, high)
        gain, best = np.minimum(during, after), np.minimum(waited, idle)
        better = (gain > best) | (gain == best) & (after > idle)
        waited, idle = np.where(better, during, waited), np.where(better, after, idle)
    return waited, np.maximum(idle, 0)


def _busy(trace: Trace, rows: Ids) -> tuple[Ints, Ints]:
    """When a device works, the gaps inside of a graph included: a host that is ahead fills none of them."""
    work, call = repaired_work(trace), launching_call(trace)[rows]
    in_graph = np.append(calls_named(trace, is_graph_launch), False)[call]
    graph, place = np.unique(call[in_graph], return_inverse=True)
    first, last = np.full(len(graph), trace.window_ns), np.zeros(len(graph), np.int64)
    np.minimum.at(first, place, work.start_ns[rows[in_graph]])
    np.maximum.at(last, place, work.end_ns[rows[in_graph]])
    return union(np.append(work.start_ns[rows], first), np.append(work.end_ns[rows], last))


def _longest(trace: Trace, rows: Ids, first: Ids) -> Ids:
    """The call of each wait that took longest."""
    took = trace.host.end_ns[rows] - trace.host.start_ns[rows]
    wait = np.searchsorted(first, np.arange(len(rows)), side="right") - 1
    order = np.lexsort((-took, wait))
    return rows[order[first]]
