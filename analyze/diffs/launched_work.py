"""Trace -> the device work that its counted steps launched: time and count per step by name, and by the operator it is for."""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .. import trace as t
from ..durations import repaired_work
from ..grouping import group_sums
from ..host_tree import HostTree
from ..launches import launch_start
from ..links import links
from ..step_marks import WHOLE_TRACE
from ..step_time import row_at, step_time
from ..trace import Ids, Ints, Trace

NO_OP = "(no operator)"


@dataclass(frozen=True, eq=False)
class LaunchedWork:
    """Columns of equal length, one row a piece of work: step (0 for the first counted one); name; ns; owner (row of trace.host,
    or -1). `outside_count`, `outside_ns`: work that no counted step launched, or of which the file does not tell what did.
    """

    trace: Trace
    steps_count: int
    step: Ids
    name: Ids  # row of trace.names
    ns: Ints
    owner: Ids
    outside_count: int
    outside_ns: int

    @property
    def names(self) -> np.ndarray:
        """For each row, as text."""
        return np.array(self.trace.names, object)[self.name]

    @property
    def times(self) -> pd.DataFrame:
        """A row for each counted step, a column for each name: ns."""
        return self._table(self.names, self.ns)

    @property
    def counts(self) -> pd.DataFrame:
        """The same: how often."""
        return self._table(self.names, np.ones_like(self.ns))

    @property
    def op_names(self) -> set[str]:
        """Of all operators of the recording."""
        host = self.trace.host
        return {str(self.trace.names[name]) for name in np.unique(host.name[host.category == t.OP]).tolist()}

    def ops(self, known: Set[str]) -> np.ndarray:
        """For each row the name of the innermost operator around its launch that is one of the known, else of its owner."""
        host, names = self.trace.host, np.array([*self.trace.names, NO_OP], object)
        tree = HostTree.of(self.trace, host.category == t.OP)
        place = np.full(len(host) + 1, -1, np.int32)
        place[tree.row] = np.arange(len(tree))
        is_known = np.array([name in known for name in self.trace.names], bool)[host.name[tree.row]]
        nearest = np.append(_nearest(tree.around, is_known), -1)[place[self.owner]]
        row = np.where(nearest >= 0, np.append(tree.row, -1)[nearest], self.owner)
        return names[np.append(host.name, -1)[row]]

    def op_times(self, ops: np.ndarray) -> pd.DataFrame:
        """A row for each counted step, a column for each operator, as `ops` gave them: ns of the work that is for it."""
        return self._table(ops, self.ns)

    def kernels_of(self, ops: np.ndarray) -> dict[str, dict[str, int]]:
        """For each operator, as `ops` gave them, ns by name of the work that is for it."""
        sums = pd.Series(self.ns).groupby([ops, self.names], sort=False).sum()
        found: dict[str, dict[str, int]] = {}
        for (op, name), ns in sums.items():  # type: ignore[misc]
            found.setdefault(op, {})[name] = ns
        return found

    def _table(self, name: np.ndarray, value: Ints) -> pd.DataFrame:
        column, names = pd.factorize(name)
        sums = group_sums(self.step * len(names) + column, value, self.steps_count * len(names))
        return pd.DataFrame(sums.reshape(self.steps_count, len(names)), columns=pd.Index(names, dtype=object))


def launched_work(trace: Trace) -> LaunchedWork:
    """Work by the step in which its launch starts; of a recording that marks no steps all of it is the one step's."""
    counted, work, launched = step_time(trace).steps, repaired_work(trace), launch_start(trace)
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), launched)
    if counted["name"].tolist() == [WHOLE_TRACE]:
        step = np.zeros(len(work), np.int64)
    inside, ns = step >= 0, work.end_ns - work.start_ns
    return LaunchedWork(
        trace=trace,
        steps_count=len(counted),
        step=step[inside],
        name=work.name[inside],
        ns=ns[inside],
        owner=links(trace).owner[inside],
        outside_count=int((~inside).sum()),
        outside_ns=int(ns[~inside].sum()),
    )


def _nearest(around: Ids, wanted: t.Mask) -> Ids:
    """For each range itself or the nearest around it that is wanted, or -1. Ranges come after those around them."""
    found = np.where(wanted, np.arange(len(around)), around)
    settled = wanted.copy()
    while len(rows := np.flatnonzero(~settled & (found >= 0))):
        ahead = found[rows]
        found[rows] = np.where(wanted[ahead], ahead, found[ahead])
        settled[rows] = wanted[found[rows]] & (found[rows] >= 0)
    return found
