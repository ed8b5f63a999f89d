"""How much of the run is compiled: how many regions has a step, and what runs between them?"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..broken_graphs import breaks, compiling, recompiles
from ..clocks import END_OF_TIME
from ..durations import repaired_work
from ..findings import Finding, notable
from ..grouping import group_sums
from ..host_tree import HostTree, Launches, thread_offsets
from ..intervals import outermost, union
from ..replayed import Replayed, finding
from ..step_time import BACKWARD_NODE, row_at, step_time
from ..trace import Ids, Ints, Mask, Trace

# From the outside in; each name is that of some versions only, and a region with a graph break holds the next region.
REGION_MARKS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
COMPILED = re.compile("|".join(REGION_MARKS))
BACKWARD = re.compile("CompiledFunctionBackward")
AROUND = re.compile(r"TorchDynamo|Pregraph bytecode|AOTDispatcher")  # what torch.compile itself does around them
UNKNOWN_SHARE = 0.01  # of device time; more without a launch call in the file than what was launched before it began
GRAPH_FRAME = re.compile(r"<eval_with_key>")  # Python that dynamo wrote for a graph; seen where stacks were recorded
SCALAR_READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero")  # no graph holds one, as torch.compile is set up
UNMARKED = "this backend of torch.compile does not mark where a graph ends, and eager operators follow it in the same region"
TOLD_OPS = 1000  # in JSON: where little is compiled, most of a model runs between its regions


@dataclass(frozen=True, eq=False)
class CompiledRegions:
    """Device time over the whole file, by the moment and thread of the launching call.

    `rows`: one per name of torch.compile's ranges, by device time: name; count; total_ns; device_ns (launched inside; ranges
    lie in each other, so names share time).
    """

    rows: pd.DataFrame
    regions_per_step: float  # compiled in forward, mean over the counted steps
    nested_per_step: float  # of them, those that run inside another: what follows a graph break there
    eager_ops: Sequence[str]  # between the regions of one step: those of most steps, in order
    unsure_ops: Sequence[str]  # likewise, where the backend marks no graphs: they may stand before a graph break or after it
    compiled_ns: int | None  # device time launched by compiled code; None where the trace holds no device work
    eager_ns: int
    unknown_ns: int  # of device work without a launch call in the file
    findings: tuple[Finding, ...] = ()  # of a CPU run; those of a GPU run stand with its other savings

    @property
    def device_ns(self) -> int:
        return (self.compiled_ns or 0) + self.eager_ns + self.unknown_ns

    @property
    def compiled_share(self) -> float:
        """Of all device time."""
        return (self.compiled_ns or 0) / self.device_ns if self.device_ns else float("nan")

    @property
    def untold(self) -> str | None:
        """Why device time is not told apart."""
        if self.unsure_ops and self.device_ns:
            return UNMARKED
        if self.unknown_ns <= UNKNOWN_SHARE * self.device_ns:
            return None
        return f"{self.unknown_ns / self.device_ns:.0%} of device time has no launch call in the file"

    @property
    def measures(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {
            "compiled_regions_per_step": _whole(self.regions_per_step),
            "nested_regions_per_step": _whole(self.nested_per_step),
            "eager_ops_between_regions": list(self.eager_ops[:TOLD_OPS]),
        }
        if self.compiled_ns is not None:
            found |= {"compiled_gpu_ns": self.compiled_ns, "eager_gpu_ns": self.eager_ns, "compiled_share": self.compiled_share}
        return found

    @property
    def withheld(self) -> Mapping[str, str]:
        names = ("compiled_gpu_ns", "eager_gpu_ns", "compiled_share")
        found = {} if self.untold is None else dict.fromkeys(names, self.untold)
        return found | ({"eager_ops_between_regions": UNMARKED} if self.unsure_ops and not self.eager_ops else {})


def _whole(count: float) -> float:
    return int(count) if count.is_integer() else count


def compiled_regions(trace: Trace) -> CompiledRegions:
    """Regions by the ranges of torch.compile; MissingData where there are none."""
    tree, graphs = _compiled(trace)
    if not len(graphs):
        raise MissingData("The trace holds no regions of torch.compile.")
    launches, work = Launches.of(trace), repaired_work(trace)
    inside = row_at(*union(tree.start[graphs], tree.end[graphs]), launches.moment) >= 0
    compiled_ns = int(launches.ns[inside].sum())
    regions, sure, unsure = _regions(trace, tree), *_eager_ops(trace, tree, graphs)
    found = CompiledRegions(
        rows=_rows(trace, launches),
        regions_per_step=_per_step(trace, tree, regions),
        nested_per_step=_per_step(trace, tree, _nested(trace, tree, regions)),
        eager_ops=sure,
        unsure_ops=unsure,
        compiled_ns=compiled_ns if len(work) else None,
        eager_ns=int(launches.ns.sum()) - compiled_ns,
        unknown_ns=int((work.end_ns - work.start_ns).sum() - launches.ns.sum()),
    )
    return found if len(work) else replace(found, findings=_findings(trace, found))


def _findings(trace: Trace, found: CompiledRegions) -> tuple[Finding, ...]:
    """Without a replay: on the host a step is shorter by what is no longer compiled in it."""
    proposed = [finding(Replayed(proposal, None, None, "")) for proposal in (*breaks(found), *recompiles(trace))]
    step_ns = float(step_time(trace).steps["step_ns"].mean())
    return (*notable((one for one in proposed if one.high_ns), step_ns), *(one for one in proposed if not one.high_ns))


def compiled_ranges(trace: Trace) -> Mask:
    """Which host ranges are compiled code, in forward or backward."""
    return _named(trace, COMPILED)


def _named(trace: Trace, *patterns: re.Pattern[str]) -> Mask:
    """Operators and annotations by name."""
    host = trace.host
    found = (host.category == t.OP) | (host.category == t.ANNOTATION)
    named = np.array([any(pattern.search(name) for pattern in patterns) for name in trace.names], bool)
    found[found] = named[host.name[found]]
    return found


def _compiled(trace: Trace) -> tuple[HostTree, Ids]:
    """The ranges of compiled code, and the places of those that hold no other: the graphs that run."""
    taken = compiled_ranges(trace)
    written = np.array([GRAPH_FRAME.match(name) is not None for name in trace.names], bool)
    frames = (trace.host.category == t.PYTHON) & written[trace.host.name]
    tree = HostTree.of(trace, taken | frames)
    alone = tree.row[frames[tree.row] & ~_inside(trace, tree, taken)]  # of torch.fx, or of compiling
    if len(alone):
        frames[alone] = False
        tree = HostTree.of(trace, taken | frames)
    return tree, np.setdiff1d(np.arange(len(tree)), tree.around)


def _inside(trace: Trace, tree: HostTree, taken: Mask) -> Mask:
    """Which places of the tree lie in one of the ranges taken."""
    own = taken[tree.row]
    return row_at(*union(tree.start[own], tree.end[own]), tree.start) >= 0


def _forward(trace: Trace, tree: HostTree, places: Ids) -> Ids:
    """Those of the places that do not run in backward."""
    named = np.array([BACKWARD.search(name) is not None for name in trace.names], bool)
    back = np.flatnonzero(named[trace.host.name[tree.row]])
    return places[row_at(*union(tree.start[back], tree.end[back]), tree.start[places]) < 0]


def _regions(trace: Trace, tree: HostTree) -> Ids:
    """Places of the regions in forward: the outermost kind of mark that the trace has."""
    forward = _forward(trace, tree, np.arange(len(tree)))
    for mark in REGION_MARKS:
        named = np.array([name.startswith(mark) for name in trace.names], bool)
        regions = forward[named[trace.host.name[tree.row[forward]]]]
        if len(regions):
            return regions
    return forward[:0]


def _nested(trace: Trace, tree: HostTree, regions: Ids) -> Ids:
    """Those that lie in another one."""
    outer = HostTree(tree.row[regions], tree.start[regions], tree.end[regions])
    return regions[outer.around >= 0]


def _per_step(trace: Trace, tree: HostTree, places: Ids) -> float:
    steps = step_time(trace).steps
    return float((_step_of(steps, trace.host.start_ns[tree.row[places]]) >= 0).sum() / max(1, len(steps)))


def _step_of(steps: pd.DataFrame, moment: Ints) -> Ints:
    return row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), moment)


def _eager_ops(trace: Trace, tree: HostTree, graphs: Ids) -> tuple[list[str], list[str]]:
    """Operators of the thread that runs most of the graphs, between the first and the last graph of each step: those that are
    certainly eager, and those that may be.

    Without marks of graphs a region that holds the next one runs its own graph before, and that looks like eager operators.
    """
    host, steps = trace.host, step_time(trace).steps
    places = _forward(trace, tree, graphs)
    if not len(places) or not len(steps):
        return [], []
    thread = int(np.bincount(host.thread[tree.row[places]]).argmax())
    inner = tree.row[places][host.thread[tree.row[places]] == thread]
    unmarked = _unmarked(trace, tree, graphs)
    outer = np.flatnonzero(unmarked)[host.thread[tree.row[unmarked]] == thread]
    first, last = np.full(len(steps) + 1, END_OF_TIME), np.full(len(steps) + 1, -END_OF_TIME)  # the last: of no step, -1
    np.minimum.at(first, _step_of(steps, host.start_ns[inner]), host.end_ns[inner])
    np.minimum.at(first, _step_of(steps, host.start_ns[tree.row[outer]]), host.start_ns[tree.row[outer]])
    np.maximum.at(last, _step_of(steps, host.start_ns[inner]), host.start_ns[inner])
    rows = _outermost_eager(trace, thread, inner)
    step = _step_of(steps, host.start_ns[rows])
    between = (step >= 0) & (host.start_ns[rows] >= first[step]) & (host.start_ns[rows] < last[step])
    rows, step = rows[between], step[between]
    sure = _surely_eager(trace, tree, outer, rows)
    eager, unsure = (_usual(host.name[rows[of]], step[of], len(steps)) for of in (sure, ~sure))
    return [str(trace.names[name]) for name in eager], [str(trace.names[name]) for name in unsure]


def _unmarked(trace: Trace, tree: HostTree, graphs: Ids) -> Mask:
    """Which places are regions that hold others and in which no graph is marked that is their own."""
    region = np.array([name.startswith(REGION_MARKS[0]) for name in trace.names], bool)[trace.host.name[tree.row]]
    with_graph = np.zeros(len(tree) + 1, bool)  # the last: of none, -1
    with_graph[tree.around[np.flatnonzero(~region)]] = True
    holds = np.zeros(len(tree) + 1, bool)
    holds[tree.around[np.flatnonzero(region)]] = True
    return (region & holds[:-1]) & ~with_graph[:-1]


def _surely_eager(trace: Trace, tree: HostTree, unmarked: Ids, rows: Ints) -> Mask:
    """Which operators run outside of regions whose graph is not marked, or there after one that no graph holds."""
    host = trace.host
    place = tree.innermost_at(host.start_ns[rows] + thread_offsets(host)[host.thread[rows]])
    inside = np.isin(place, unmarked)
    reads = np.array([name in SCALAR_READS for name in trace.names], bool)[host.name[rows]]
    return ~inside | (pd.Series(reads).groupby(place).cumsum().to_numpy() > 0)


def _outermost_eager(trace: Trace, thread: int, graphs: Ids) -> Ints:
    """Rows of the operators of a thread in no other operator, in no graph and not in compiling, in order; none of backward."""
    host = trace.host
    rows = np.flatnonzero((host.category == t.OP) & (host.thread == thread) & ~_named(trace, COMPILED, AROUND))
    others = np.concatenate((graphs, compiling(trace)))
    compiled = union(host.start_ns[others], host.end_ns[others])
    rows = rows[row_at(*compiled, host.start_ns[rows]) < 0]
    rows = rows[outermost(host.start_ns[rows], host.end_ns[rows])]
    backward = np.array([name.startswith(BACKWARD_NODE) for name in trace.names], bool)
    return rows[(host.forward_thread[rows] <= 0) & ~backward[host.name[rows]]]


def _usual(name: Ids, step: Ints, count: int) -> Ids:
    """The names of one step: the sequence that most steps have."""
    borders = np.searchsorted(step, np.arange(count + 1))
    sequences = [name[low:high] for low, high in pairwise(borders)]
    usual, _ = Counter(sequence.tobytes() for sequence in sequences).most_common(1)[0]
    return np.frombuffer(usual, name.dtype)


def _rows(trace: Trace, launches: Launches) -> pd.DataFrame:
    tree = HostTree.of(trace, _named(trace, COMPILED, AROUND))
    group, keys = pd.factorize(np.array(trace.names, object)[trace.host.name[tree.row]])
    outer = np.flatnonzero(tree.outermost(group))
    rows = pd.DataFrame({
        "name": keys,
        "count": np.bincount(group, minlength=len(keys)),
        "total_ns": group_sums(group[outer], tree.end[outer] - tree.start[outer], len(keys)),
        "device_ns": group_sums(group[outer], launches.inside(tree.start[outer], tree.end[outer]), len(keys)),
    })  # fmt: skip
    return rows.sort_values(["device_ns", "total_ns", "name"], ascending=[False, False, True], ignore_index=True)
