"""How long does each module take, forward and backward?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..backward_ops import forward_ops
from ..callstack import depths, tree_sum
from ..grouping import group_sums
from ..host_tree import HostTree, Launches, thread_offsets
from ..trace import Ids, Ints, Trace

MODULE_FRAME = "nn.Module: "  # and the class with a number for each module of it: Linear_0
TOLD_MODULES = 1000  # in JSON: as many as the call tree tells names


@dataclass(frozen=True, eq=False)
class Modules:
    """Of all calls in the file; each time with that of the modules inside.

    `rows`: one per module, by its time on devices, else on the host: module (the modules around its deepest call and itself:
    MLP_0.Linear_1); calls_count (in forward); forward_ns, backward_ns (on the host); forward_gpu_ns,
    backward_gpu_ns (device work launched there).

    Backward is what the backward nodes of the operators that ran in a module's forward take. A forward that runs again
    within backward, as activation checkpoints do, is forward.
    """

    rows: pd.DataFrame
    has_device: bool
    has_backward: bool

    @property
    def measures(self) -> Mapping[str, Any]:
        """Of the first TOLD_MODULES modules."""
        told = self.rows.head(TOLD_MODULES)
        found = {"module_host_ns": _by_module(told, "forward_ns", "backward_ns")}
        return found | ({"module_gpu_ns": _by_module(told, "forward_gpu_ns", "backward_gpu_ns")} if self.has_device else {})


def _by_module(rows: pd.DataFrame, forward: str, backward: str) -> dict[str, dict[str, int]]:
    columns = (rows["module"], rows[forward].tolist(), rows[backward].tolist())
    return {module: {"forward": there, "backward": back} for module, there, back in zip(*columns, strict=True)}


@dataclass(frozen=True, eq=False)
class ModuleCalls:
    """`rows`: one per call that is in no other call of its module: module (row of `names`), start_ns, and the times of Modules.

    `names`: as in Modules; `calls_count`: of each, with those inside its own calls.
    """

    rows: pd.DataFrame
    names: list[str]
    calls_count: Ints
    has_backward: bool


def modules(trace: Trace) -> Modules:
    """Time by module; MissingData where no frames of modules were recorded."""
    found = module_calls(trace)
    rows = found.rows.drop(columns="start_ns").groupby("module").sum()
    rows = rows.assign(module=found.names, calls_count=found.calls_count)
    weight = rows[["forward_gpu_ns", "backward_gpu_ns"] if len(trace.device) else ["forward_ns", "backward_ns"]].sum(axis=1)
    rows = rows.loc[weight.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)
    return Modules(rows, has_device=bool(len(trace.device)), has_backward=found.has_backward)


def module_calls(trace: Trace) -> ModuleCalls:
    """The calls behind these times."""
    is_module = np.array([name.startswith(MODULE_FRAME) for name in trace.names], bool)[trace.host.name]
    frames = HostTree.of(trace, is_module)
    if not len(frames):
        raise MissingData("The trace holds no frames of modules; capture with with_stack=True (record(stacks=True)).")
    backward, frame = _backward(trace, frames)
    module, _ = pd.factorize(np.array(trace.names, object)[trace.host.name[frames.row]])
    start = trace.host.start_ns[frames.row]
    rows = pd.DataFrame({"module": module, "start_ns": start, **_times(trace, frames, backward, frame)})
    names, count = _paths(trace, frames, module), np.bincount(module)
    return ModuleCalls(rows[frames.outermost(module)], names, count, has_backward=bool(len(backward)))


def _backward(trace: Trace, frames: HostTree) -> tuple[Ints, Ids]:
    """Rows of the backward operators, and the place of the frame in which the forward operator of each ran."""
    host = trace.host
    backward, forward = forward_ops(trace)
    frame = frames.innermost_at(host.start_ns[forward] + thread_offsets(host)[host.thread[forward]])
    return backward[frame >= 0], frame[frame >= 0]


def _times(trace: Trace, frames: HostTree, backward: Ints, frame: Ids) -> dict[str, Ints]:
    """For each frame forward and backward times, with those of the frames inside."""
    taken = np.zeros(len(trace.host), bool)
    taken[backward] = taken[frames.row] = True
    both = HostTree.of(trace, taken)  # where frames and backward operators lie in each other, the innermost has the time
    of_row = np.full(len(trace.host), -1, np.int32)
    of_row[frames.row], of_row[backward] = np.arange(len(frames)), frame
    group = of_row[both.row]
    is_backward = np.isin(both.row, backward)
    launches = Launches.of(trace)
    place = both.innermost_at(launches.moment)
    gpu_ns = group_sums(place, launches.ns, len(both))

    def summed(ns: Ints) -> Ints:
        return tree_sum(frames.around, group_sums(group, ns, len(frames)))

    return {
        "forward_ns": frames.end - frames.start,
        "backward_ns": summed(np.where(is_backward, both.self_ns(), 0)),
        "forward_gpu_ns": summed(np.where(is_backward, 0, gpu_ns)),
        "backward_gpu_ns": summed(np.where(is_backward, gpu_ns, 0)),
    }


def _paths(trace: Trace, frames: HostTree, module: Ids) -> list[str]:
    """For each module the names of those around its deepest call, and its own."""
    names = [str(trace.names[name]).removeprefix(MODULE_FRAME) for name in trace.host.name[frames.row]]
    depth = pd.Series(depths(frames.around)).groupby(module)
    paths = [[names[place] for place in _upward(frames.around, deepest)] for deepest in depth.idxmax()]
    return [".".join(dict.fromkeys(reversed(path))) for path in paths]  # a module inside itself is named once


def _upward(around: Ids, place: int) -> list[int]:
    """A place and those around it."""
    path = []
    while place >= 0:
        path.append(place)
        place = int(around[place])
    return path
