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

from ..capture.bundle import unprofiled_times
from . import trace as t
from .grouping import group_sums
from .intervals import BLOCK_COUNT, Cover, Nest, borders, innermost, outermost, union
from .step_marks import marked_steps, step_ranges
from .trace import Ids, Ints, Mask, Trace

OTHER = "other"
OUTSIDE = ""  # the name of time outside operators and runtime calls: Python, the interpreter, waits
OUTSIDE_LABEL = "(outside operators)"  # what readers see for it
PHASES = (
    "data_loading", "input", "act", "environment", "sampling", "forward", "loss", "backward", "optimizer", "evaluation",
    "output", OTHER,
)  # fmt: skip
ALIASES = {
    "fwd": "forward", "bwd": "backward", "optim": "optimizer", "zero_grad": "optimizer",
}  # fmt: skip
LOADING_NAME = re.compile(  # what training loops call the fetching of a batch: load_batch, get_data, train_dataloader_next
    r"(get|next|load|read|fetch|prefetch|wait)[ _-]?(for[ _-])?((the|next|train|val|new)[ _-]?)?"
    r"(data|batch|batches|minibatch|input|inputs)"
    r"|data|(data|batch)[ _-]?(load|loading|fetch|fetching|read|reading|prep|preparation|preprocessing|generator|time|wait)"
    r"|(.*[^a-z])?(data[ _-]?loader|dataloader)([ _-]?next)?"
)
MARKED_BY_TORCH = {
    "enumerate(DataLoader)#": "data_loading",
    "enumerate(DataPipe)#": "data_loading",
    "Optimizer.step#": "optimizer",
    "Optimizer.zero_grad#": "optimizer",
}
PHASE_PREFIX = "longpole.phase#"
OPTIMIZER_RANGE = "Optimizer.step#"
COLD_FACTOR = 3  # times the median: a first step that sets up caches and threads, not one of a loader's bursts
ENGINE_GAP_NS = 1_000_000  # autograd's own work between two nodes takes microseconds; a longer pause is something else
BACKWARD_NODE = "autograd::engine::evaluate_function"
OTHER_ROW, BACKWARD_ROW, OUTSIDE_ROW = 0, 1, 0  # of _Labels


@dataclass(frozen=True, eq=False)
class StepTime:
    """`rows`: one per (step, phase, name). Columns: step (row of `steps`); phase; name (operator or runtime call, OUTSIDE
    for the rest); self_ns; total_ns (whole durations of the calls) and calls, of operators that have no operator around them:
    what the phase's own code calls.

    Phase and name are categorical: there can be a row for every operator call.

    `steps`: the counted rows of marked_steps. `phases`: those that occur, known ones in the order of a training step, then the
    user's own, then other. `marks`: where phases lie. `unprofiled_share`: unprofiled ÷ profiled mean step, None where the
    recording has no step without the profiler.
    """

    steps: pd.DataFrame
    rows: pd.DataFrame
    phases: Sequence[str]
    marks: Cover  # `owner`: row of `marked`
    marked: np.ndarray  # phases as text
    unprofiled_share: float | None

    @property
    def count(self) -> int:
        """Number of counted steps."""
        return len(self.steps)

    @property
    def step_ns(self) -> float:
        """Mean of the counted steps."""
        return float(self.steps["step_ns"].mean())

    def per_step(self, by: str, value: str = "self_ns") -> pd.DataFrame:
        """A row for each counted step, a column for each phase or name that occurs; 0 where a step lacks it. int64."""
        column, kinds = pd.factorize(self.rows[by].cat.codes)
        cell = self.steps.index.get_indexer(pd.Index(self.rows["step"])) * len(kinds) + column
        table = group_sums(cell, self.rows[value].to_numpy(), self.count * len(kinds)).reshape(self.count, len(kinds))
        return pd.DataFrame(table, index=self.steps.index, columns=self.rows[by].cat.categories[kinds].rename(by))

    def sums(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Of some of `rows`, over all steps: phase, name (as text), self_ns, total_ns, calls."""
        sums = rows.groupby(["phase", "name"], sort=False, observed=True)[["self_ns", "total_ns", "calls"]].sum().reset_index()
        return sums.astype({"phase": str, "name": str})


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


def phase_ranges(trace: Trace, only: str | None = None) -> Mask:
    """Which host ranges mark phases, or that one. Before 2021-06 what torch marks itself was an operator in its traces."""
    host, found = trace.host, [phase_of(name) for name in trace.names]
    wanted = np.array([phase not in (None, OTHER) and phase == (only or phase) for phase in found], bool)
    by_torch = np.array([name.startswith((*MARKED_BY_TORCH, PHASE_PREFIX)) for name in trace.names], bool)
    marks = (host.category == t.ANNOTATION) | (host.category == t.OP)
    marks[marks] = wanted[host.name[marks]] & ((host.category[marks] == t.ANNOTATION) | by_torch[host.name[marks]])
    return marks


def _known(name: str) -> str | None:
    plain = ALIASES.get(name.lower(), name.lower())
    plain = "data_loading" if LOADING_NAME.fullmatch(plain) else plain
    return plain if plain in PHASES and plain != OTHER else None


@dataclass(frozen=True, eq=False)
class _Labels:
    """Phases and names as text; `phase_of` and `name_of`: for each row of Trace.names, its row in them."""

    phases: np.ndarray
    names: np.ndarray
    phase_of: Ids
    name_of: Ids

    def keys(self, step: Ints, phase: Ids, name: Ids) -> Ints:
        """One number for each (step, phase, name)."""
        return (step * len(self.phases) + phase) * len(self.names) + name


@dataclass(frozen=True, eq=False)
class _Parts:
    """Pieces or calls, by _Labels.keys; their times."""

    key: Ints
    ns: Ints


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def step_time(trace: Trace) -> StepTime:
    """Cut every counted step into pieces and sum them."""
    counted, labels, phases = _counted(trace), _labels(trace), _phase_cover(trace)
    rows = _summed(_pieces(trace, counted, labels, phases), _calls(trace, counted, labels, phases), labels, counted)
    seen = set(rows["phase"].unique())
    own = sorted(seen - set(PHASES))
    named = [*[p for p in PHASES[:-1] if p in seen], *own, *[OTHER] * (OTHER in seen)]
    return StepTime(counted, rows, named, phases, labels.phases, _unprofiled_share(trace, counted))


def _unprofiled_share(trace: Trace, counted: pd.DataFrame) -> float | None:
    """Of means: that of workers' bursts is no step's time, and what stalls the profiled steps is in their parts as well."""
    unprofiled = np.array(unprofiled_times(trace.manifest))
    if not len(unprofiled):
        return None
    warm = unprofiled[unprofiled <= COLD_FACTOR * np.median(unprofiled)]
    return float(warm.mean()) / float(counted["step_ns"].mean())


def phases_at(trace: Trace, moment: Ints) -> tuple[Ids, np.ndarray]:
    """For each moment the row of the phase in which the steps' threads are then; and the phases, OTHER in row OTHER_ROW."""
    return _phase_at(_phase_cover(trace), moment), _labels(trace).phases


def _counted(trace: Trace) -> pd.DataFrame:
    marked = marked_steps(trace)
    return marked[marked["counted"]]


@lru_cache(maxsize=2)
def _labels(trace: Trace) -> _Labels:
    marked = [OTHER, "backward", *(phase_of(name) or OTHER for name in trace.names)]
    phases_of, phases = pd.factorize(np.array(marked, object))
    names_of, names = pd.factorize(np.array([OUTSIDE, *trace.names], object))
    return _Labels(phases, names, phases_of[2:].astype(np.int32), names_of[1:].astype(np.int32))


def _summed(pieces: _Parts, calls: _Parts, labels: _Labels, counted: pd.DataFrame) -> pd.DataFrame:
    """The rows of StepTime, in the order of their first piece."""
    group, key = pd.factorize(np.concatenate((pieces.key, calls.key)))
    of_pieces, of_calls = np.split(group, [len(pieces.key)])
    step, phase, name = np.unravel_index(key, (len(counted), len(labels.phases), len(labels.names)))
    return pd.DataFrame({
        "step": counted.index.to_numpy()[step],
        "phase": pd.Categorical.from_codes(phase, pd.Index(labels.phases)),
        "name": pd.Categorical.from_codes(name, pd.Index(labels.names)),
        "self_ns": group_sums(of_pieces, pieces.ns, len(key)),
        "total_ns": group_sums(of_calls, calls.ns, len(key)),
        "calls": np.bincount(of_calls, minlength=len(key)),
    })  # fmt: skip


def _on_step_threads(trace: Trace, counted: pd.DataFrame) -> Mask:
    return np.isin(trace.host.thread, counted["thread"].unique())


@lru_cache(maxsize=2)
def _phase_cover(trace: Trace) -> Cover:
    """Innermost phases on the steps' threads; `owner` is a row of the labels' phases."""
    host, counted, labels = trace.host, _counted(trace), _labels(trace)
    marks = phase_ranges(trace) & _on_step_threads(trace, counted)
    back_start, back_end = _backward_spans(trace, counted, marks)
    phase = np.concatenate((labels.phase_of[host.name[marks]], np.full(len(back_start), BACKWARD_ROW)))
    begun = update_start(trace, host.name[marks], host.start_ns[marks], host.end_ns[marks])
    cover = innermost(np.concatenate((begun, back_start)), np.concatenate((host.end_ns[marks], back_end)))
    return Cover(cover.start, cover.end, phase[cover.owner])


def runs_backward(trace: Trace) -> Mask:
    """Which host ranges are operators that autograd runs backward."""
    host = trace.host
    nodes = np.array([name.startswith(BACKWARD_NODE) for name in trace.names], bool)
    found = host.category == t.OP
    found[found] = (host.forward_thread[found] > 0) | nodes[host.name[found]]
    return found


def _backward_spans(trace: Trace, counted: pd.DataFrame, marked: Mask) -> tuple[Ints, Ints]:
    """Backward ops of any thread, joined over short gaps where the step's thread calls no other op and nothing begins or ends."""
    host, is_backward = trace.host, runs_backward(trace)
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
    host, is_backward = trace.host, runs_backward(trace)
    last = np.sort(host.end_ns[is_backward])
    if not len(last):
        return start
    optimizer = np.array([n.startswith(OPTIMIZER_RANGE) for n in trace.names], bool)[name]
    inside = last[np.maximum(np.searchsorted(last, end, side="right") - 1, 0)]
    return np.where(optimizer & (inside > start) & (inside <= end), inside, start)


def _pieces(trace: Trace, counted: pd.DataFrame, labels: _Labels, phases: Cover) -> _Parts:
    """The steps cut at every border of an operator or phase, summed block by block. Python frames take no part."""
    host = trace.host
    taken = np.isin(host.category, (t.OP, t.ANNOTATION, t.RUNTIME)) & _on_step_threads(trace, counted) & ~step_ranges(trace)
    rows = np.flatnonzero(taken).astype(np.int32)
    begin, stop = counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy()
    moment = borders(begin, stop, host.start_ns[rows], host.end_ns[rows], phases.start, phases.end)
    ranges = Nest.of(host.start_ns[rows], host.end_ns[rows])
    name = np.where(host.category[rows] == t.ANNOTATION, np.int32(OUTSIDE_ROW), labels.name_of[host.name[rows]])
    name = np.append(name, np.int32(OUTSIDE_ROW))  # where no range is open

    def block(first: int) -> _Parts:
        stretch = moment[first : first + BLOCK_COUNT + 1]
        step = row_at(begin, stop, stretch[:-1])
        inside = step >= 0
        start, ns, step = stretch[:-1][inside], np.diff(stretch)[inside], step[inside]
        return _by_key(labels.keys(step, _phase_at(phases, start), name[ranges.innermost_at(start)]), ns)

    return _joined([block(first) for first in range(0, len(moment), BLOCK_COUNT)])


def _by_key(key: Ints, ns: Ints) -> _Parts:
    group, keys = pd.factorize(key)
    return _Parts(keys, group_sums(group, ns, len(keys)))


def _joined(parts: list[_Parts]) -> _Parts:
    return _Parts(np.concatenate([part.key for part in parts]), np.concatenate([part.ns for part in parts]))


def _calls(trace: Trace, counted: pd.DataFrame, labels: _Labels, phases: Cover) -> _Parts:
    """The outermost operators of the steps' threads, each in the phase in which it starts."""
    host = trace.host
    rows = outermost_ops(trace, counted)
    step = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), host.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    key = labels.keys(step, _phase_at(phases, host.start_ns[rows]), labels.name_of[host.name[rows]])
    return _Parts(key, host.end_ns[rows] - host.start_ns[rows])


def outermost_ops(trace: Trace, counted: pd.DataFrame) -> Ints:
    """Rows of trace.host, by start: the operators of the steps' threads that lie in no other operator."""
    host = trace.host
    rows = np.flatnonzero((host.category == t.OP) & _on_step_threads(trace, counted))
    return rows[outermost(host.start_ns[rows], host.end_ns[rows])]


def row_at(start: Ints, end: Ints, moment: Ints) -> Ints:
    """The row of the disjoint, sorted interval that holds each moment, or -1."""
    if not len(start):
        return np.full(len(moment), -1)
    row = np.searchsorted(start, moment, side="right") - 1
    return np.where((row >= 0) & (moment < end[row]), row, -1)


def _phase_at(phases: Cover, moment: Ints) -> Ids:
    return np.append(phases.owner, OTHER_ROW)[row_at(phases.start, phases.end, moment)]
