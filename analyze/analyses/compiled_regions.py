"""How much of the run is compiled: how many regions has a step, and what runs between them?"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..clocks import END_OF_TIME
from ..durations import repaired_work
from ..grouping import group_sums
from ..host_tree import HostTree, Launches
from ..intervals import outermost, union
from ..step_time import BACKWARD_NODE, row_at, step_time
from ..trace import Ids, Ints, Mask, Trace

# From the outside in; each name is that of some versions only, and a region with a graph break holds the next region.
REGION_MARKS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
COMPILED = re.compile("|".join(REGION_MARKS))
BACKWARD = re.compile("CompiledFunctionBackward")
AROUND = re.compile(r"TorchDynamo|Pregraph bytecode|AOTDispatcher")  # what torch.compile itself does around them
UNKNOWN_SHARE = 0.01  # of device time; more without a launch call in the file than what was launched before it began
TOLD_OPS = 1000  # in JSON: where little is compiled, most of a model runs between its regions


@dataclass(frozen=True, eq=False)
class CompiledRegions:
    """Device time over the whole file, by the moment and thread of the launching call.

    `rows`: one per name of torch.compile's ranges, by device time: name; count; total_ns; device_ns (launched inside; ranges
    lie in each other, so names share time).
    """

    rows: pd.DataFrame
    regions_per_step: float  # compiled in forward, mean over the counted steps
    eager_ops: Sequence[str]  # between the regions of one step: those of most steps, in order
    compiled_ns: int | None  # device time launched by compiled code; None where the trace holds no device work
    eager_ns: int
    unknown_ns: int  # of device work without a launch call in the file

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
        if self.unknown_ns <= UNKNOWN_SHARE * self.device_ns:
            return None
        return f"{self.unknown_ns / self.device_ns:.0%} of device time has no launch call in the file"

    @property
    def measures(self) -> Mapping[str, Any]:
        count = self.regions_per_step
        found: dict[str, Any] = {
            "compiled_regions_per_step": int(count) if count.is_integer() else count,
            "eager_ops_between_regions": list(self.eager_ops[:TOLD_OPS]),
        }
        if self.compiled_ns is not None:
            found |= {"compiled_gpu_ns": self.compiled_ns, "eager_gpu_ns": self.eager_ns, "compiled_share": self.compiled_share}
        return found

    @property
    def withheld(self) -> Mapping[str, str]:
        names = ("compiled_gpu_ns", "eager_gpu_ns", "compiled_share")
        return {} if self.untold is None else dict.fromkeys(names, self.untold)


def compiled_regions(trace: Trace) -> CompiledRegions:
    """Regions by the ranges of torch.compile; MissingData where there are none."""
    tree, graphs = _compiled(trace)
    if not len(graphs):
        raise MissingData("The trace holds no regions of torch.compile.")
    launches, work = Launches.of(trace), repaired_work(trace)
    inside = row_at(*union(tree.start[graphs], tree.end[graphs]), launches.moment) >= 0
    compiled_ns = int(launches.ns[inside].sum())
    return CompiledRegions(
        rows=_rows(trace, launches),
        regions_per_step=_regions_per_step(trace, tree),
        eager_ops=_eager_ops(trace, tree.row[_forward(trace, tree, graphs)]),
        compiled_ns=compiled_ns if len(work) else None,
        eager_ns=int(launches.ns.sum()) - compiled_ns,
        unknown_ns=int((work.end_ns - work.start_ns).sum() - launches.ns.sum()),
    )


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
    tree = HostTree.of(trace, compiled_ranges(trace))
    return tree, np.setdiff1d(np.arange(len(tree)), tree.around)


def _forward(trace: Trace, tree: HostTree, places: Ids) -> Ids:
    """Those of the places that do not run in backward."""
    named = np.array([BACKWARD.search(name) is not None for name in trace.names], bool)
    back = np.flatnonzero(named[trace.host.name[tree.row]])
    return places[row_at(*union(tree.start[back], tree.end[back]), tree.start[places]) < 0]


def _regions_per_step(trace: Trace, tree: HostTree) -> float:
    """By the outermost kind of mark that the trace has."""
    forward, steps = tree.row[_forward(trace, tree, np.arange(len(tree)))], step_time(trace).steps
    for mark in REGION_MARKS:
        named = np.array([name.startswith(mark) for name in trace.names], bool)
        regions = forward[named[trace.host.name[forward]]]
        if len(regions):
            return float((_step_of(steps, trace.host.start_ns[regions]) >= 0).sum() / max(1, len(steps)))
    return 0.0


def _step_of(steps: pd.DataFrame, moment: Ints) -> Ints:
    return row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), moment)


def _eager_ops(trace: Trace, graphs: Ids) -> list[str]:
    """Operators of the thread that runs most of the graphs, between the first and the last graph of each step."""
    host, steps = trace.host, step_time(trace).steps
    if not len(graphs) or not len(steps):
        return []
    thread = int(np.bincount(host.thread[graphs]).argmax())
    graphs = graphs[host.thread[graphs] == thread]
    step = _step_of(steps, host.start_ns[graphs])
    first, last = np.full(len(steps) + 1, END_OF_TIME), np.full(len(steps) + 1, -END_OF_TIME)  # the last: of no step, -1
    np.minimum.at(first, step, host.end_ns[graphs])
    np.maximum.at(last, step, host.start_ns[graphs])
    rows = _outermost_eager(trace, thread, graphs)
    step = _step_of(steps, host.start_ns[rows])
    between = (step >= 0) & (host.start_ns[rows] >= first[step]) & (host.start_ns[rows] < last[step])
    return [str(trace.names[name]) for name in _usual(host.name[rows[between]], step[between], len(steps))]


def _outermost_eager(trace: Trace, thread: int, graphs: Ids) -> Ints:
    """Rows of the operators of a thread that lie in no other operator and in no graph, in order; not those of backward."""
    host = trace.host
    rows = np.flatnonzero((host.category == t.OP) & (host.thread == thread) & ~_named(trace, COMPILED, AROUND))
    compiled = union(host.start_ns[graphs], host.end_ns[graphs])
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
