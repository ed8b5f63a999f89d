"""A Trace whose synchronisations are cuda_sync rows alone -> the same with a call for each of them, on the thread that waits."""

from dataclasses import fields, replace

import numpy as np

from .. import trace as t
from ..links import calls_of
from ..step_marks import marked_steps
from ..syncs import DEVICE_SIDE, are_calls
from ..trace import DeviceRanges, HostRanges, Ids, Mask, Trace
from .points import main_thread, relevant_calls


def with_waiting_calls(trace: Trace) -> Trace:
    """The Trace itself where calls synchronise. A row's thread is that of its operator, else that of the steps; a row during
    which that thread makes other calls is none of its waits, and left out.
    """
    rows = _rows(trace)
    if not len(rows):
        return trace
    thread = _threads(trace, trace.device_marks[rows])
    alone = _alone(trace, trace.device_marks[rows], thread)
    rows, thread = rows[alone], thread[alone]
    marks, host = trace.device_marks, trace.host
    # Ids of their own: what carries the row's may be a call around the wait.
    first = 1 + max(int(column.max(initial=0)) for column in (host.correlation, marks.correlation, trace.device.correlation))
    correlation = marks.correlation.astype(np.int64)
    correlation[rows] = first + np.arange(len(rows))
    return replace(
        trace,
        host=_joined(host, _calls(marks[rows], thread, correlation[rows])),
        device_marks=replace(marks, correlation=correlation),
    )


def _rows(trace: Trace) -> Ids:
    """Of device_marks, those in which the host waits; none where calls say so, or nothing runs on the host."""
    if are_calls(trace) or not len(trace.host):
        return np.empty(0, np.int64)
    on_device = np.array([name.startswith(DEVICE_SIDE) for name in trace.names], bool)
    return np.flatnonzero((trace.device_marks.category == t.SYNC) & ~on_device[trace.device_marks.name])


def _threads(trace: Trace, marks: DeviceRanges) -> Ids:
    """For each row that of the call around the wait, else of the operator that waits, else of the steps."""
    host, main = trace.host, main_thread(trace, marked_steps(trace))
    call = calls_of(trace, marks.correlation)
    ops = np.flatnonzero((host.category == t.OP) & (host.external_id > 0))
    by_id = ops[np.argsort(host.external_id[ops], kind="stable")]
    place = np.searchsorted(host.external_id[by_id], marks.external_id)
    op = np.append(by_id, -1)[place]
    # Where no operator is linked, older Kineto writes the correlation as external id.
    linked = (op >= 0) & (host.external_id[op] == marks.external_id) & (marks.external_id != marks.correlation)
    return np.where(call >= 0, host.thread[call], np.where(linked, host.thread[op], main))


def _alone(trace: Trace, marks: DeviceRanges, thread: Ids) -> Mask:
    """Whether no call of the thread begins or ends during the wait."""
    host, calls = trace.host, relevant_calls(trace)
    found = np.ones(len(marks), bool)
    for one in np.unique(thread):
        rows, own = np.flatnonzero(thread == one), host[calls & (host.thread == one)]
        border = np.sort(np.concatenate((own.start_ns, own.end_ns)))
        first = np.searchsorted(border, marks.start_ns[rows], side="right")
        found[rows] = first == np.searchsorted(border, marks.end_ns[rows], side="left")
    return found


def _calls(marks: DeviceRanges, thread: Ids, correlation: Ids) -> HostRanges:
    nothing = dict.fromkeys(("sequence", "forward_thread", "shapes"), np.full(len(marks), -1))
    return HostRanges(
        start_ns=marks.start_ns, end_ns=marks.end_ns, name=marks.name, category=np.full(len(marks), t.RUNTIME, np.int8),
        thread=thread, external_id=marks.external_id, correlation=correlation, finished=np.ones(len(marks), bool), **nothing,
    )  # fmt: skip


def _joined(first: HostRanges, second: HostRanges) -> HostRanges:
    return HostRanges(**{f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)]) for f in fields(first)})
