"""Calls on the host -> the operator and the line of the program that made each of them."""

import re
from dataclasses import dataclass

import numpy as np

from . import trace as t
from .intervals import Nest
from .trace import Ids, Ints, Mask, Table, Trace

FRAME = re.compile(r".+\(\d+\): .+")  # path(line): function; calls of built-in functions and of modules have no line
OF_TORCH = re.compile(r"(.*(site|dist)-packages[/\\])?torch[/\\]")


@dataclass(frozen=True, eq=False)
class Calls(Table):
    """When, where and, if the file says so, for which operator something was called."""

    start_ns: Ints
    thread: Ids  # row of Trace.threads, -1 where it is not known
    external_id: Ids  # of the operator, -1 where it is not known


def calling_op(trace: Trace, calls: Calls) -> Ids:
    """For each call the row of Trace.names of the innermost operator around it, or -1.

    The only operator that has the call's external id, on whatever thread, if it runs at that time: some versions of Kineto write
    the call's own number there. Else the innermost on its thread.
    """
    found = _innermost(trace, trace.host.category == t.OP, calls)
    carrying = _op_with_id(trace, calls.external_id)
    known = np.flatnonzero(carrying >= 0)
    row, start = carrying[known], calls.start_ns[known]
    runs = (trace.host.start_ns[row] <= start) & (start < trace.host.end_ns[row])
    found[known[runs]] = row[runs]
    return _name(trace, found)


def calling_line(trace: Trace, calls: Calls) -> Ids:
    """For each call the row of Trace.names of the innermost Python function around it, or -1; torch's own come last."""
    frames = trace.host.category == t.PYTHON
    if not frames.any():
        return np.full(len(calls), -1)
    has_line = np.array([FRAME.fullmatch(name) is not None for name in trace.names], bool)
    own = has_line & ~np.array([OF_TORCH.match(name) is not None for name in trace.names], bool)
    found = _innermost(trace, frames & own[trace.host.name], calls)
    if (found < 0).any():
        found = np.where(found >= 0, found, _innermost(trace, frames & has_line[trace.host.name], calls))
    return _name(trace, found)


def _op_with_id(trace: Trace, external_id: Ids) -> Ids:
    """For each id the row of the only operator that carries it, or -1."""
    found, carried = np.full(len(external_id), -1), trace.host.external_id
    rows = np.flatnonzero((trace.host.category == t.OP) & np.isin(carried, external_id[external_id > 0]))
    ids, first, count = np.unique(carried[rows], return_index=True, return_counts=True)
    ids, rows = ids[count == 1], rows[first[count == 1]]
    known = np.isin(external_id, ids)
    found[known] = rows[np.searchsorted(ids, external_id[known])]
    return found


def _innermost(trace: Trace, candidates: Mask, calls: Calls) -> Ids:
    """For each call the row of the candidate that is innermost on its thread when it begins, or -1."""
    host, moments = trace.host, np.sort(calls.start_ns)
    rows = np.flatnonzero(candidates)
    holds_any = np.searchsorted(moments, host.start_ns[rows]) < np.searchsorted(moments, host.end_ns[rows])
    rows, found = rows[holds_any], np.full(len(calls), -1)  # few are left, and sorting them costs little
    for thread in np.unique(calls.thread):
        asked, row = calls.thread == thread, rows[host.thread[rows] == thread]
        inner = Nest.of(host.start_ns[row], host.end_ns[row]).innermost_at(calls.start_ns[asked])
        found[asked] = np.append(row, -1)[inner]
    return found


def _name(trace: Trace, row: Ids) -> Ids:
    name = np.full(len(row), -1)
    name[row >= 0] = trace.host.name[row[row >= 0]]
    return name
