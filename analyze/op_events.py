"""Trace -> the host events that torch's key_averages() counts: who is inside whom, and what device work each of them launched.

The rules are those of torch.autograd.profiler_util (torch 2.13). Ids join device work and runtime calls with operators.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import trace as t
from .callstack import REMOVED, parents, without_duplicates
from .grouping import group_sums
from .intervals import outer_first
from .trace import HostRanges, Ids, Ints, Mask, Trace

SKIPPED = {
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}  # torch.autograd.profiler_util._filter_name


@dataclass(frozen=True, eq=False)
class OpEvents:
    """Columns of equal length, one row an event, by start, the longest first."""

    row: Ids  # of trace.host
    start_ns: Ints
    end_ns: Ints
    synchronous: Mask  # only these are inside others, hold others and have self time
    kept: Mask  # False for an only child that has its parent's name
    inside: Ids  # the event around it, -1 for none
    stands_for: Ids  # the event whose device work it has: the last of the removed ones inside it, or itself

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class Carriers:
    """Operators and annotations by the id that they carry as their own."""

    id: Ids  # in order
    place: Ids

    def of(self, external_id: Ids) -> Ids:
        """For each id, the place of the first one that carries it, or -1."""
        if not len(self.id):
            return np.full(len(external_id), -1)
        found = np.minimum(np.searchsorted(self.id, external_id), len(self.id) - 1)
        return np.where(self.id[found] == external_id, self.place[found], -1)


def op_events(trace: Trace, categories: tuple[int, ...], same_name: Ids) -> OpEvents:
    """Events of these categories. `same_name`: for each row of Trace.names a number, equal for names that count as one."""
    host = trace.host
    skipped = np.array([name in SKIPPED for name in trace.names], bool)
    rows = np.flatnonzero(np.isin(host.category, categories) & ~skipped[host.name]).astype(np.int32)
    rows = rows[outer_first(host.start_ns[rows], host.end_ns[rows])]
    parent, stands_for = _nested(host, rows, same_name)
    kept = parent != REMOVED
    inside = np.where(kept, parent, np.int32(-1))
    return OpEvents(rows, host.start_ns[rows], host.end_ns[rows], host.finished[rows], kept, inside, stands_for)


def _nested(host: HostRanges, rows: Ids, same_name: Ids) -> tuple[Ids, Ids]:
    """Parents, as in `without_duplicates`, and what each event stands for; an unfinished one is alone."""
    parent, stands_for = np.full(len(rows), -1, np.int32), np.arange(len(rows), dtype=np.int32)
    place = np.flatnonzero(host.finished[rows]).astype(np.int32)
    thread, nest = _home_threads(host, rows)[place], rows[place]
    nested, last = without_duplicates(parents(host.start_ns[nest], host.end_ns[nest], thread), same_name[host.name[nest]])
    parent[place] = np.where(nested >= 0, place[nested], nested)
    stands_for[place] = place[last]
    return parent, stands_for


def _home_threads(host: HostRanges, rows: Ids) -> Ids:
    """A runtime call belongs to the thread of the op that made it, where that is known."""
    thread = host.thread[rows]
    calls = np.flatnonzero(~_carries(host, rows) & (host.external_id[rows] > 0))
    owner = carriers(host, rows).of(host.external_id[rows[calls]])
    thread[calls] = np.where(owner >= 0, thread[owner], thread[calls])
    return thread


def _carries(host: HostRanges, rows: Ids) -> Mask:
    category = host.category[rows]
    return (category == t.OP) | (category == t.ANNOTATION)


def carriers(host: HostRanges, rows: Ids) -> Carriers:
    """By place among `rows`; of several with one id the first."""
    external_id = host.external_id[rows]
    place = np.flatnonzero(_carries(host, rows) & host.finished[rows] & (external_id > 0))
    place = place[np.argsort(external_id[place], kind="stable")]
    return Carriers(external_id[place], place)


def kernel_ns(trace: Trace, owners: Carriers, count: int) -> Ints:
    """For each of `count` places, the time of the device work that carries the id of the op there."""
    return group_sums(owners.of(trace.device.external_id), trace.device.end_ns - trace.device.start_ns, count)


def collision_ns(trace: Trace, rows: Ids, owners: Carriers) -> Ints:
    """For each row, the device time that torch gives it too much: that of the op for which torch takes it."""
    extra = np.zeros(len(rows), np.int64)
    calls, taken_for = _collided(trace.host, rows, owners)
    extra[calls] = kernel_ns(trace, owners, len(rows))[taken_for]
    return extra


def collisions(trace: Trace) -> tuple[dict[str, int], int]:
    """By name the device time that such calls get too much, and the time of the runtime calls that the ops really made."""
    host = trace.host
    rows = np.flatnonzero(np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME)))
    owners = carriers(host, rows)
    calls, taken_for = _collided(host, rows, owners)
    extra_ns = kernel_ns(trace, owners, len(rows))[taken_for]
    felt = extra_ns != 0
    extra = pd.Series(extra_ns[felt]).groupby([str(trace.names[n]) for n in host.name[rows[calls[felt]]]]).sum()
    made = rows[host.category[rows] == t.RUNTIME] if felt.any() else rows[:0]
    made = made[np.isin(owners.of(host.external_id[made]), taken_for[felt])]
    return {str(name): int(ns) for name, ns in extra.items()}, int((host.end_ns[made] - host.start_ns[made]).sum())


def _collided(host: HostRanges, rows: Ids, owners: Carriers) -> tuple[Ids, Ids]:
    """Places of runtime calls without an op whose own number equals an op's id, and of that op, for which torch takes them."""
    calls = np.flatnonzero((host.category[rows] == t.RUNTIME) & (host.external_id[rows] <= 0))
    owner = owners.of(host.correlation[rows[calls]])
    return calls[owner >= 0], owner[owner >= 0]
