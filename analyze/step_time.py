"""Trace -> where the time of each counted step goes: (step, phase, operator), adding up to the step exactly.

At each instant of a step's thread, the time belongs to the innermost range (an operator, a runtime call, an annotation) and to
the innermost phase. Time outside operators and runtime calls is the user's Python, the interpreter, or a wait for another thread.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from . import trace as t
from .intervals import Cover, innermost, union
from .step_marks import marked_steps, step_ranges
from .trace import Ints, Mask, Trace

OTHER = "other"
OUTSIDE = ""  # the name of time outside operators and runtime calls: Python, the interpreter, waits
OUTSIDE_LABEL = "(outside operators)"  # what readers see for it
PHASES = (
    "data_loading", "input", "act", "environment", "sampling", "forward", "loss", "backward", "optimizer", "evaluation",
    "output", OTHER,
)  # fmt: skip
ALIASES = {
    "dataloader": "data_loading", "data loading": "data_loading", "dataloading": "data_loading", "fwd": "forward",
    "bwd": "backward", "optim": "optimizer", "zero_grad": "optimizer",
}  # fmt: skip
MARKED_BY_TORCH = {
    "enumerate(DataLoader)#": "data_loading",
    "Optimizer.step#": "optimizer",
    "Optimizer.zero_grad#": "optimizer",
}
PHASE_PREFIX = "longpole.phase#"
OPTIMIZER_RANGE = "Optimizer.step#"
ENGINE_GAP_NS = 1_000_000  # autograd's own work between two nodes takes microseconds; a longer pause is something else
BACKWARD_NODE = "autograd::engine::evaluate_function"


@dataclass(frozen=True, eq=False)
class StepTime:
    """`rows`: one per (step, phase, name). Columns: step (row of `steps`); phase; name (operator or runtime call, OUTSIDE
    for the rest); self_ns; total_ns (whole durations of the calls) and calls, of operators that have no operator around them:
    what the phase's own code calls.

    `steps`: the counted rows of marked_steps. `phases`: those that occur, known ones in the order of a training step, then the
    user's own, then other.
    """

    steps: pd.DataFrame
    rows: pd.DataFrame
    phases: Sequence[str]

    @property
    def count(self) -> int:
        """Number of counted steps."""
        return len(self.steps)

    @property
    def step_ns(self) -> float:
        """Mean of the counted steps."""
        return float(self.steps["step_ns"].mean())

    def per_step(self, by: list[str], value: str = "self_ns") -> pd.DataFrame:
        """A row for each counted step, a column for each key that occurs; 0 where a step lacks it. int64."""
        counted = self.steps.index
        table = self.rows.groupby(["step", *by], sort=False)[value].sum().unstack(by, fill_value=0)
        return table.reindex(counted, fill_value=0).astype(np.int64)


def phase_of(name: str) -> str | None:
    """The phase that an annotation marks, or None."""
    if name.startswith(PHASE_PREFIX):
        own = name.removeprefix(PHASE_PREFIX)
        return _known(own) or own
    for start, phase in MARKED_BY_TORCH.items():
        if name.startswith(start):
            return phase
    plain = re.sub(r"^[#\s]+|[#:\s]+$", "", name).lower()  # "## forward ##" is a habit of older training loops
    return _known(plain)


def _known(name: str) -> str | None:
    plain = ALIASES.get(name.lower(), name.lower())
    return plain if plain in PHASES and plain != OTHER else None


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def step_time(trace: Trace) -> StepTime:
    """Cut every counted step into pieces and sum them."""
    marked = marked_steps(trace)
    counted = marked[marked["counted"]]
    ops, phases, phase_names = _op_cover(trace, counted), *_phase_cover(trace, counted)
    pieces = _pieces(trace, counted, ops, phases, phase_names)
    pieces = pd.concat([pieces, _calls(trace, counted, phases, phase_names)], ignore_index=True)
    sums = pieces.groupby(["step", "phase", "name"], sort=False)[["self_ns", "total_ns", "calls"]].sum().reset_index()
    seen = set(sums["phase"])
    own = sorted(seen - set(PHASES))
    return StepTime(counted, sums, [*[p for p in PHASES[:-1] if p in seen], *own, *[OTHER] * (OTHER in seen)])


def _on_step_threads(trace: Trace, counted: pd.DataFrame) -> Mask:
    return np.isin(trace.host.thread, counted["thread"].unique())


def _op_cover(trace: Trace, counted: pd.DataFrame) -> Cover:
    """Innermost ranges on the steps' threads; `owner` is a row of trace.host. Python frames take no part."""
    host = trace.host
    taken = np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME)) & _on_step_threads(trace, counted) & ~step_ranges(trace)
    rows = np.flatnonzero(taken)
    cover = innermost(host.start_ns[rows], host.end_ns[rows])
    return Cover(cover.start, cover.end, rows[cover.owner])


def _phase_cover(trace: Trace, counted: pd.DataFrame) -> tuple[Cover, np.ndarray]:
    """Innermost phases on the steps' threads; `owner` is a row of the phase names."""
    host = trace.host
    phase_by_name = np.array([phase_of(name) or OTHER for name in trace.names], object)
    marked = (host.category == t.ANNOTATION) & _on_step_threads(trace, counted) & (phase_by_name[host.name] != OTHER)
    back_start, back_end = _backward_spans(trace, counted, marked)
    names = np.concatenate((phase_by_name[host.name[marked]], np.full(len(back_start), "backward", object)))
    begun = update_start(trace, host.name[marked], host.start_ns[marked], host.end_ns[marked])
    start = np.concatenate((begun, back_start))
    end = np.concatenate((host.end_ns[marked], back_end))
    return innermost(start, end), names


def _is_backward(trace: Trace) -> Mask:
    nodes = np.array([name.startswith(BACKWARD_NODE) for name in trace.names], bool)
    return (trace.host.category == t.OP) & ((trace.host.forward_thread > 0) | nodes[trace.host.name])


def _backward_spans(trace: Trace, counted: pd.DataFrame, marked: Mask) -> tuple[Ints, Ints]:
    """Backward ops of any thread, joined over short gaps where the step's thread calls no other op and nothing begins or ends."""
    host, is_backward = trace.host, _is_backward(trace)
    start, end = union(host.start_ns[is_backward], host.end_ns[is_backward])
    if len(start) < 2:
        return start, end
    others = (host.category == t.OP) & ~is_backward & _on_step_threads(trace, counted)
    borders = (host.start_ns[others], host.start_ns[marked], host.end_ns[marked], counted["start_ns"], counted["end_ns"])
    cuts = np.sort(np.concatenate(borders))
    joined = (np.searchsorted(cuts, end[:-1]) == np.searchsorted(cuts, start[1:])) & (start[1:] - end[:-1] <= ENGINE_GAP_NS)
    first = np.concatenate(([True], ~joined))
    last = np.concatenate((~joined, [True]))
    return start[first], end[last]


def update_start(trace: Trace, name: Ints, start: Ints, end: Ints) -> Ints:
    """Where the update in each range begins; `name`: rows of Trace.names.

    An optimizer that is given a closure runs forward and backward inside its step: there it is after the last backward op. For
    every other range it is the range's own start.
    """
    host, is_backward = trace.host, _is_backward(trace)
    last = np.sort(host.end_ns[is_backward])
    if not len(last):
        return start
    optimizer = np.array([n.startswith(OPTIMIZER_RANGE) for n in trace.names], bool)[name]
    inside = last[np.maximum(np.searchsorted(last, end, side="right") - 1, 0)]
    return np.where(optimizer & (inside > start) & (inside <= end), inside, start)


def _pieces(trace: Trace, counted: pd.DataFrame, ops: Cover, phases: Cover, phase_names: np.ndarray) -> pd.DataFrame:
    """The steps cut at every border of an operator or phase."""
    begin, stop = counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy()
    borders = np.unique(np.concatenate((begin, stop, ops.start, ops.end, phases.start, phases.end)))
    start, length = borders[:-1], np.diff(borders)
    step = row_at(begin, stop, start)
    inside = step >= 0
    start, length, step = start[inside], length[inside], step[inside]
    owner = row_at(ops.start, ops.end, start)
    owner = np.where(owner >= 0, ops.owner[owner], -1) if len(ops.owner) else owner
    return pd.DataFrame({
        "step": counted.index.to_numpy()[step],
        "phase": _phase_at(phases, phase_names, start),
        "name": _names(trace, owner),
        "self_ns": length,
        "total_ns": 0,
        "calls": 0,
    })  # fmt: skip


def _calls(trace: Trace, counted: pd.DataFrame, phases: Cover, phase_names: np.ndarray) -> pd.DataFrame:
    """The outermost operators of the steps' threads, each in the phase in which it starts."""
    host = trace.host
    rows = outermost_ops(trace, counted)
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), host.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    return pd.DataFrame({
        "step": counted.index.to_numpy()[step],
        "phase": _phase_at(phases, phase_names, host.start_ns[rows]),
        "name": _names(trace, rows),
        "self_ns": 0,
        "total_ns": host.end_ns[rows] - host.start_ns[rows],
        "calls": 1,
    })  # fmt: skip


def outermost_ops(trace: Trace, counted: pd.DataFrame) -> Ints:
    """Rows of trace.host, by start: the operators of the steps' threads that lie in no other operator."""
    host = trace.host
    rows = np.flatnonzero((host.category == t.OP) & _on_step_threads(trace, counted))
    rows = rows[np.lexsort((-host.end_ns[rows], host.start_ns[rows]))]
    if not len(rows):
        return rows
    reach = np.maximum.accumulate(host.end_ns[rows])
    return rows[np.concatenate(([True], host.start_ns[rows[1:]] >= reach[:-1]))]


def row_at(start: Ints, end: Ints, moment: Ints) -> Ints:
    """The row of the disjoint, sorted interval that holds each moment, or -1."""
    if not len(start):
        return np.full(len(moment), -1)
    row = np.searchsorted(start, moment, side="right") - 1
    return np.where((row >= 0) & (moment < end[row]), row, -1)


def _phase_at(phases: Cover, names: np.ndarray, moment: Ints) -> np.ndarray:
    row = row_at(phases.start, phases.end, moment)
    if not len(phases.owner):
        return np.full(len(moment), OTHER, object)
    return np.where(row >= 0, names[phases.owner[row]], OTHER)


def _names(trace: Trace, owner: Ints) -> np.ndarray:
    """Name of the op or runtime call; OUTSIDE for annotations and where no range is open."""
    if not len(trace.host):
        return np.full(len(owner), OUTSIDE, object)
    names = np.array([*trace.names, OUTSIDE], object)
    is_code = (owner >= 0) & (trace.host.category[np.maximum(owner, 0)] != t.ANNOTATION)
    return names[np.where(is_code, trace.host.name[np.maximum(owner, 0)], -1)]
