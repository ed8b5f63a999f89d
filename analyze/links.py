"""Device work -> which runtime call launched it, and which operator it belongs to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import trace as t
from .intervals import Peaks, outer_first, packed
from .trace import Ids, Ints, Mask, Trace

LATE_END_NS = 1000  # older files round to microseconds, so that a call may end up to one after its operator
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Links:
    """One row a piece of device work; values are rows of trace.host, or -1.

    `call`: the runtime or driver call with its correlation; one call may own many kernels, as the launch of a graph does.
    `owner`: the operator that carries its external id, else the annotation that does, else the innermost operator around the
    call. An external id that is only the correlation again comes last.
    """

    call: Ids
    owner: Ids


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def links(trace: Trace) -> Links:
    """The call and the operator of each piece of device work."""
    work, call, category = trace.device, launching_call(trace), trace.host.category
    by_op, by_annotation = _carrier(trace, category == t.OP), _carrier(trace, category == t.ANNOTATION)
    by_id = np.where(by_op >= 0, by_op, by_annotation)
    # Where no operator is linked, older Kineto writes the correlation as external id: of another number space, it may hit any op.
    doubtful = work.external_id == work.correlation
    asked = np.flatnonzero((call >= 0) & ((by_id < 0) | doubtful))
    around = np.full(len(work), NOBODY, np.int32)
    around[asked] = _operator_around(trace, call[asked])
    owner = np.where((by_id < 0) | (doubtful & (around >= 0)), around, by_id)
    return Links(call, owner)


@lru_cache(maxsize=2)
def launching_call(trace: Trace) -> Ids:
    """For each piece of device work, the row of the runtime call with its correlation, or -1."""
    return calls_of(trace, trace.device.correlation)


def calls_of(trace: Trace, correlation: Ids) -> Ids:
    """For each correlation, the row of the first runtime call that carries it, or -1."""
    host = trace.host
    return _first_with(np.flatnonzero((host.category == t.RUNTIME) & (host.correlation > 0)), host.correlation, correlation)


def calls_named(trace: Trace, named: Callable[[str], bool]) -> Mask:
    """Runtime calls by name."""
    calls = trace.host.category == t.RUNTIME
    calls[calls] = np.array([named(name) for name in trace.names], bool)[trace.host.name[calls]]
    return calls


def _carrier(trace: Trace, those: Mask) -> Ids:
    """For each piece of device work, the first of those host ranges that carries its external id, or -1."""
    host = trace.host
    return _first_with(np.flatnonzero(those & (host.external_id > 0)), host.external_id, trace.device.external_id)


def _first_with(rows: Ids, number_of: Ids, wanted: Ids) -> Ids:
    """For each wanted number, the first of the rows that has it, or -1."""
    if not len(rows):
        return np.full(len(wanted), NOBODY, np.int32)
    numbers = number_of[rows]
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    place = np.minimum(np.searchsorted(numbers, wanted), len(rows) - 1)
    return np.where(numbers[place] == wanted, rows[order[place]], NOBODY).astype(np.int32)


def _operator_around(trace: Trace, calls: Ids) -> Ids:
    """For each of these calls, the row of the innermost operator around it on its thread, or -1."""
    host, ops = trace.host, np.flatnonzero(trace.host.category == t.OP)
    if not len(ops) or not len(calls):
        return np.full(len(calls), NOBODY, np.int32)
    unique, place = np.unique(calls, return_inverse=True)  # a graph is launched once, however many kernels it holds
    found = enclosing(
        (host.start_ns[ops], host.end_ns[ops], host.thread[ops]),
        (host.start_ns[unique], host.end_ns[unique], host.thread[unique]),
    )
    return np.append(ops, NOBODY).astype(np.int32)[found][place]


def enclosing(outer: tuple[Ints, Ints, Ids], inner: tuple[Ints, Ints, Ids]) -> Ids:
    """For each inner (start, end, thread), the row of the outer range around it that started last, or -1.

    Around: on the same thread, begun by then, and over at most LATE_END_NS before the inner one. Of equal starts the shortest.
    """
    (start, end, thread), (begin, stop, own) = outer, inner
    latest = np.maximum(stop - 1 - LATE_END_NS, begin)
    key = packed(np.concatenate((thread, thread, own, own)), np.concatenate((start, end, begin, latest)))
    starts, ends, begins, limits = np.split(key, np.cumsum((len(start), len(end), len(begin))))
    order = outer_first(start, end, thread)
    begun = np.searchsorted(starts[order], begins, side="right")
    return np.append(order, NOBODY)[Peaks.of(ends[order]).last_above(begun, limits)]
