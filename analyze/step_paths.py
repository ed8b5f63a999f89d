"""Trace -> the call paths of the counted steps: at each instant of a step the ranges around it, adding up to the step exactly.

The path of an instant leads from the step inwards over the ranges that began in it, Python frames and annotations among them, by
the rule of host_tree. While the step's thread is inside no operator or runtime call and another thread runs backward operators,
the path goes on with theirs.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from . import trace as t
from .callstack import depths, tree_sum
from .grouping import group_sums
from .host_tree import HostTree, thread_offsets
from .intervals import BLOCK_COUNT, borders
from .step_marks import step_ranges
from .step_time import row_at, runs_backward, step_time
from .trace import Ids, Ints, Trace

ROOT = 0  # the step itself
NOWHERE = -2


@dataclass(frozen=True, eq=False)
class StepPaths:
    """Nodes, one for each path that occurs: `name`; `parent` (of ROOT -1), which comes before its children.

    Cells, one for each (step, node) in which a path is innermost for some time: step (0 for the first counted one); node; ns.
    """

    steps_count: int
    name: list[str]
    parent: Ids
    step: Ids
    node: Ids
    ns: Ints

    @cached_property
    def self_ns(self) -> Ints:
        """Of each node, over all steps."""
        return group_sums(self.node, self.ns, len(self.name))

    @cached_property
    def total_ns(self) -> Ints:
        """Of each node with all inside it, over all steps."""
        return tree_sum(self.parent, self.self_ns)

    @cached_property
    def total_per_step(self) -> Ints:
        """(steps, nodes): the same in each step."""
        cells = group_sums(self.step.astype(np.int64) * len(self.name) + self.node, self.ns, self.steps_count * len(self.name))
        return np.array([tree_sum(self.parent, own) for own in cells.reshape(self.steps_count, -1)])

    @cached_property
    def _by_parent(self) -> tuple[Ids, Ids]:
        order = np.argsort(self.parent, kind="stable")
        return order, self.parent[order]

    def children(self, node: int) -> list[int]:
        """In the order in which they first appear."""
        order, parent = self._by_parent
        first, stop = np.searchsorted(parent, (node, node + 1))
        return order[first:stop].tolist()

    def path(self, node: int) -> tuple[str, ...]:
        """Names from the step inwards; of the step itself none."""
        names = []
        while node != ROOT:
            names.append(self.name[node])
            node = int(self.parent[node])
        return tuple(reversed(names))

    def per_step(self, part: Ids, count: int) -> pd.DataFrame:
        """A row for each step, a column for each of `count` parts: ns of the nodes in it.

        `part`: for each node its part, or -1 for that of the nearest node around it that has one.
        """
        own = self._inherited(part)
        cells = group_sums(self.step.astype(np.int64) * count + own[self.node], self.ns, self.steps_count * count)
        return pd.DataFrame(cells.reshape(self.steps_count, count))

    def _inherited(self, part: Ids) -> Ids:
        own = part.copy()
        for node in np.flatnonzero(part < 0).tolist():  # parents come first
            own[node] = own[self.parent[node]]
        return own


@lru_cache(maxsize=2)  # 2: a diff has two traces
def step_paths(trace: Trace) -> StepPaths:
    """Cut the counted steps at every border of a range, and sum the pieces by their path."""
    counted = step_time(trace).steps
    ranges = _ranges(trace, counted)
    name, parent, node = _nodes(trace, ranges)
    key, ns = _pieces(trace, counted, ranges, np.append(node, ROOT), len(name))
    return StepPaths(len(counted), name, parent, key // len(name), key % len(name), ns)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """Ranges of the steps' thread, and of the threads that run backward; one row a place of the tree.

    `step`: in which each begins, -1 for none. `parent`: the place of the range around it, of the same step, or -1; that of an
    outermost range of another thread is what the steps' thread is in when it begins. `hangs_on`: of ranges of other threads the
    place, or -1, of the steps' thread on which they and all around them hang; NOWHERE of the others.
    """

    tree: HostTree
    main: int  # the steps' thread
    others: list[int]
    step: Ids
    parent: Ids
    hangs_on: Ids


def _ranges(trace: Trace, counted: pd.DataFrame) -> _Ranges:
    host, main = trace.host, int(counted["thread"].iloc[0])
    others = [thread for thread in np.unique(host.thread[runs_backward(trace)]).tolist() if thread != main]
    tree = HostTree.of(trace, np.isin(host.thread, [main, *others]) & ~step_ranges(trace))
    start, thread = host.start_ns[tree.row], host.thread[tree.row]
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), start)
    hung = np.flatnonzero((tree.around < 0) & (thread != main))
    parent = tree.around.copy()
    parent[hung] = _inside(trace, tree, main, start[hung])
    parent[(parent >= 0) & (step[parent] != step)] = -1
    outermost = np.arange(len(tree))
    while len(inner := np.flatnonzero(tree.around[outermost] >= 0)):
        outermost[inner] = tree.around[outermost[inner]]
    return _Ranges(tree, main, others, step, parent, np.where(thread == main, NOWHERE, parent[outermost]))


def _inside(trace: Trace, tree: HostTree, thread: int, moment: Ints) -> Ids:
    """For each moment the place of the range that is innermost on that thread, or -1."""
    if not len(tree):
        return np.full(len(moment), -1)
    place = tree.innermost_at(moment + thread_offsets(trace.host)[thread])
    return np.where(trace.host.thread[tree.row[place]] == thread, place, -1)  # beyond its ends the line is another thread's


def _nodes(trace: Trace, ranges: _Ranges) -> tuple[list[str], Ids, Ids]:
    """Names and parents of the nodes, and the node of each place; of places outside the steps ROOT."""
    name_of, names = pd.factorize(np.array(trace.names, object))
    name = name_of[trace.host.name[ranges.tree.row]]
    node, found, parents = np.full(len(name) + 1, ROOT), [-1], [-1]
    depth = np.where(ranges.step >= 0, depths(ranges.parent), -1)
    by_depth = np.argsort(depth, kind="stable")
    for places in np.split(by_depth, np.cumsum(np.bincount(depth + 1)))[1:]:
        code, keys = pd.factorize(node[ranges.parent[places]] * len(names) + name[places])
        node[places] = len(found) + code
        found += (keys % len(names)).tolist()
        parents += (keys // len(names)).tolist()
    return ["", *(str(names[i]) for i in found[1:])], np.array(parents), node[:-1]


def _pieces(trace: Trace, counted: pd.DataFrame, ranges: _Ranges, node: Ids, count: int) -> tuple[Ints, Ints]:
    """For each cell step * count + node, and its ns."""
    tree, begin, stop = ranges.tree, counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy()
    moment = borders(begin, stop, trace.host.start_ns[tree.row], trace.host.end_ns[tree.row])
    takes = np.append(~np.isin(trace.host.category[tree.row], (t.OP, t.RUNTIME)), True)  # what runs meanwhile elsewhere
    owner_step, hangs_on = np.append(ranges.step, -1), np.append(ranges.hangs_on, NOWHERE)

    def block(first: int) -> tuple[Ints, Ints]:
        stretch = moment[first : first + BLOCK_COUNT + 1]
        step = row_at(begin, stop, stretch[:-1])
        inside = step >= 0
        start, ns, step = stretch[:-1][inside], np.diff(stretch)[inside], step[inside]
        own = _inside(trace, tree, ranges.main, start)
        own[owner_step[own] != step] = -1
        place, free = own.copy(), takes[own]
        for thread in ranges.others:
            there = _inside(trace, tree, thread, start)
            joins = free & (owner_step[there] == step) & (hangs_on[there] == own)
            place[joins], free[joins] = there[joins], False
        return _summed(step * count + node[place], ns)

    blocks = [block(first) for first in range(0, len(moment), BLOCK_COUNT)]
    return _summed(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def _summed(key: Ints, ns: Ints) -> tuple[Ints, Ints]:
    group, keys = pd.factorize(key)
    return keys, group_sums(group, ns, len(keys))
