"""Which calls explain the change of the step?

The call paths of both recordings are aligned from the step inwards, by the names of what is called; each path has its time per
step. From the step on the way leads to where the change is: into a call in which most of the change of the calls around it lies,
until it spreads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd

from ..step_paths import ROOT, StepPaths, step_paths
from ..trace import Ids
from .changes import changes
from .matched_changes import was
from .matching import Match, matches, same_kind
from .sides import Side, compared, typical

MOST_SHARE = 0.8  # of what changes in a call: one or two calls inside it that hold so much of it explain it better
NOTABLE_SHARE = 0.05  # of what changes in the step: less is not worth a row
WHOLE_SHARE = 0.9  # of the step in both recordings: such a call is the step by another name, and explains nothing
MOST_ROWS = 12
MOST_INSIDE = 3
LOOK_AHEAD = 8  # calls inwards, for what a call that one recording lacks may only have been put around: DDP puts five
WRAPPED_SHARE = 0.5  # of the time of such a call, at least, is what it was put around
OWN = "(in the step itself)"
REST = "(everything else)"
BEFORE, AFTER = 0, 1


@dataclass(frozen=True, eq=False)
class CallChanges:
    """`rows`: as in `changes`, disjoint; their changes add up to that of the step. And path (tuple of names from the step
    inwards, as the second recording has them, else the first); was (what the first one calls it, where that is another name);
    before_self_ns, after_self_ns, self_change_ns (the time in it and in no call further inside); inside (tuple of (name,
    change_ns): the largest changes of calls inside).

    OWN is time in no call of the step: outside operators, and where frames were recorded in the step's own. REST comes last,
    its self times are NaN.
    """

    rows: pd.DataFrame

    @property
    def stands_out(self) -> bool:
        """Whether any call does."""
        return any(self.rows["path"])


def call_changes(before: Side, after: Side) -> CallChanges:
    """The lowest calls that explain the change of the mean step; of several runs a side between the typical ones."""
    return CallChanges(rows_of(*(step_paths(typical(compared(side))) for side in (before, after))))


def rows_of(before: StepPaths, after: StepPaths) -> pd.DataFrame:
    """The rows of CallChanges, from the paths of both recordings."""
    aligned = Alignment(before, after)
    lowest, split = lowest_calls(aligned)
    found = [*lowest, _joined(OWN, split), _others(aligned, split)]
    rows = changes(*([_per_step(aligned, found, side)] for side in (BEFORE, AFTER)))
    rows = rows[rows["name"] < len(found)]
    is_rest = rows["name"] == len(found) - 1
    rows = pd.concat([rows[~is_rest], rows[is_rest]], ignore_index=True)
    own = [found[place] for place in rows["name"]]
    selves = [(math.nan, math.nan) if call is found[-1] else aligned.self_ns(call) for call in own]
    return rows.assign(
        name=[call.match.name for call in own],
        was=[was(call.match) for call in own],
        path=pd.Series([aligned.path(call) if call in lowest else () for call in own], dtype=object),
        before_self_ns=[a for a, _ in selves],
        after_self_ns=[b for _, b in selves],
        self_change_ns=[b - a for a, b in selves],
        inside=pd.Series([_inside(aligned, call) if call in lowest else () for call in own], dtype=object),
    )


@dataclass(frozen=True, eq=False)
class Call:
    """Nodes of both sides that are one call: those that are reached by paths of matching names. `nodes`: before, after."""

    match: Match
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def nodes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.before, self.after


@dataclass(frozen=True, eq=False)
class Alignment:
    """Paths of two recordings, aligned where it is asked for. `levels`: what was, by the nodes of the call around it."""

    before: StepPaths
    after: StepPaths
    step: Call = Call(Match((REST,), (REST,)), (ROOT,), (ROOT,))
    levels: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Call]] = field(default_factory=dict)

    def times(self, call: Call) -> tuple[float, float]:
        """Mean ns per step, before and after, with all that is inside."""
        return _mean(self.before, self.before.total_ns, call.before), _mean(self.after, self.after.total_ns, call.after)

    def self_ns(self, call: Call) -> tuple[float, float]:
        """The same of what is in no call further inside."""
        return _mean(self.before, self.before.self_ns, call.before), _mean(self.after, self.after.self_ns, call.after)

    def change_ns(self, call: Call) -> float:
        before, after = self.times(call)
        return after - before

    def path(self, call: Call) -> tuple[str, ...]:
        return self.after.path(call.after[0]) if call.after else self.before.path(call.before[0])

    def inside(self, call: Call) -> list[Call]:
        """The calls inside it, the largest change first.

        A call that only one side has, and that was only put around what the other has, is passed over: what is inside it stands
        in its place.
        """
        if call.nodes not in self.levels:
            self.levels[call.nodes] = self._aligned(call)
        return self.levels[call.nodes]

    def _aligned(self, call: Call) -> list[Call]:
        old, new = _Level(self.before, call.before), _Level(self.after, call.after)
        while True:
            found = matches(old.names, new.names)
            lost = [name for match in found if not match.after for name in match.before]
            come = [name for match in found if not match.before for name in match.after]
            if not (new.unwrapped(come, lost) or old.unwrapped(lost, come)):
                break
        calls = [Call(match, old.nodes_of(match.before), new.nodes_of(match.after)) for match in found]
        return sorted(calls, key=lambda one: (-abs(self.change_ns(one)), one.match.name))


class _Level:
    """Nodes next to each other in one recording, by name."""

    def __init__(self, paths: StepPaths, around: Sequence[int]) -> None:
        self.paths = paths
        self.nodes: dict[str, list[int]] = {}
        self._add(around)

    @property
    def names(self) -> list[str]:
        """The most time first."""
        return sorted(self.nodes, key=lambda name: -self._ns(self.nodes[name]))

    def nodes_of(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(node for name in names for node in self.nodes[name])

    def unwrapped(self, wrappers: Sequence[str], wanted: Sequence[str]) -> bool:
        """Whether any of these was put around something wanted; then what is inside stands in its place."""
        kinds = {*wanted, *map(_kind, wanted)}
        opened = [name for name in wrappers if wanted and self._holds(self.nodes[name], kinds)]
        for name in opened:
            self._add(self.nodes.pop(name))
        return bool(opened)

    def _holds(self, nodes: Sequence[int], kinds: set[object]) -> bool:
        least = WRAPPED_SHARE * self._ns(nodes)
        for _ in range(LOOK_AHEAD):
            nodes = [child for node in nodes for child in self.paths.children(node)]
            alike = [node for node in nodes if self.paths.name[node] in kinds or _kind(self.paths.name[node]) in kinds]
            if alike and self._ns(alike) >= least:
                return True
        return False

    def _add(self, around: Sequence[int]) -> None:
        for node in around:
            for child in self.paths.children(node):
                self.nodes.setdefault(self.paths.name[child], []).append(child)

    def _ns(self, nodes: Sequence[int]) -> int:
        return int(self.paths.total_ns[list(nodes)].sum())


@lru_cache(maxsize=2**14)  # the same few names, again and again
def _kind(name: str) -> object:
    return same_kind(name) or name


def lowest_calls(aligned: Alignment) -> tuple[list[Call], list[Call]]:
    """The calls that explain the change, the largest first; and the step with the calls around all of these."""
    whole, found, split = aligned.times(aligned.step), [], []
    notable_ns = NOTABLE_SHARE * _gross_ns(aligned, aligned.step)
    waiting = [(aligned.step, 0.0)]
    while waiting:
        call, left_ns = waiting.pop()
        if call is aligned.step or _is_step(aligned.times(call), whole):
            split.append(call)
            parts = [one for one in aligned.inside(call) if abs(aligned.change_ns(one)) > notable_ns]
            waiting += [(one, (1 - MOST_SHARE) * abs(aligned.change_ns(one))) for one in parts]
        elif better := list(_better(aligned, call, left_ns)):
            waiting += better
        else:
            found.append(call)
    found.sort(key=lambda call: (-abs(aligned.change_ns(call)), aligned.path(call)))
    return found[:MOST_ROWS], split


def _better(aligned: Alignment, call: Call, left_ns: float) -> Iterator[tuple[Call, float]]:
    """The one or two calls inside that explain it better, each with what may still be left out; none where it is the lowest.

    `left_ns`: what may be left out. Of a call that one side lacks, or in which one call took another's place, it is itself.
    """
    if not call.before or not call.after:
        return
    inside = aligned.inside(call)
    for best in (inside[:1], inside[:2]):
        held_ns = sum(abs(aligned.change_ns(one)) for one in best)
        out_ns = _gross_ns(aligned, call) - held_ns
        if best and out_ns <= left_ns and not (any(not one.before for one in best) and any(not one.after for one in best)):
            yield from ((one, (left_ns - out_ns) * abs(aligned.change_ns(one)) / held_ns) for one in best if held_ns)
            return


def _gross_ns(aligned: Alignment, call: Call) -> float:
    """What changes in it, whether more or less: its own time and each of the calls inside."""
    before, after = aligned.self_ns(call)
    return abs(after - before) + sum(abs(aligned.change_ns(one)) for one in aligned.inside(call))


def _is_step(times: tuple[float, float], whole: tuple[float, float]) -> bool:
    return all(ns >= WHOLE_SHARE * all_ns > 0 for ns, all_ns in zip(times, whole, strict=True))


def _inside(aligned: Alignment, call: Call) -> tuple[tuple[str, float], ...]:
    changed = [(one.match.name, aligned.change_ns(one)) for one in aligned.inside(call)[:MOST_INSIDE]]
    return tuple((name, ns) for name, ns in changed if ns)


def _joined(name: str, calls: Sequence[Call]) -> Call:
    """All of them as one."""
    sides = zip(*(call.nodes for call in calls), strict=True)
    return Call(Match((name,), (name,)), *(tuple(node for nodes in side for node in nodes) for side in sides))


def _others(aligned: Alignment, split: Sequence[Call]) -> Call:
    """What the calls that were split hold beside each other: what of it is in no row is everything else."""
    sides = []
    for paths, nodes in zip((aligned.before, aligned.after), _joined(OWN, split).nodes, strict=True):
        sides.append(tuple({child for node in nodes for child in paths.children(node)} - set(nodes)))
    return Call(Match((REST,), (REST,)), *sides)


def _mean(paths: StepPaths, ns: Ids, nodes: Sequence[int]) -> float:
    return int(ns[list(nodes)].sum()) / paths.steps_count


def _per_step(aligned: Alignment, calls: Sequence[Call], side: int) -> pd.DataFrame:
    """A row for each step, a column for each call that it has, by its place: ns of its nodes that are in no call before it.

    Behind them a column for each other call that was looked at: the calls were chosen among these by how much they changed, so
    they are judged among these.
    """
    paths = (aligned.before, aligned.after)[side]
    nodes = [call.nodes[side] for call in calls]
    part = np.full(len(paths.name), -1)
    for place in reversed(range(len(nodes))):
        part[list(nodes[place])] = place
    table = paths.per_step(part, len(nodes))[[place for place, own in enumerate(nodes) if own]]
    beside = {
        len(nodes) + place: paths.total_per_step[:, list(call.nodes[side])].sum(1) for place, call in _beside(aligned, calls)
    }
    return pd.concat([table, pd.DataFrame(beside, index=table.index)], axis=1)


def _beside(aligned: Alignment, calls: Sequence[Call]) -> Iterator[tuple[int, Call]]:
    """The calls that were looked at and not taken, with their place."""
    taken = {call.nodes for call in calls}
    yield from enumerate(call for level in aligned.levels.values() for call in level if call.nodes not in taken)
