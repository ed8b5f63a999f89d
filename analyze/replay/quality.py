"""Graph -> how well the replay knows this trace, and why no point value can be predicted where it does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from ..launches import clock_offset, is_launch, launches_without_record
from ..links import calls_named, launching_call
from ..statistics import Floats
from ..step_marks import marked_steps
from ..step_time import row_at
from ..trace import Ids, Trace
from .critical_path import path_of
from .edges import CALL, GRAPH, HAND, HOST, INFERRED, KERN
from .graph import Graph
from .ranks import Ranks, ranks_of, sweep_of_ranks
from .steps import step_of_work
from .sweep import step_times, sweep

MOST_STRUCTURAL = 0.01  # of a step: the worst of the traces that the rules were made on, and of others, is below
MOST_UNEXPLAINED = 0.02  # of the path: with less, where it is put changes a saving by less than 2 %
MOST_UNRECORDED = 0.10  # of the path: gaps inside graphs may be work that the file lacks
MOST_CROSS_STEP = 0.01  # median error of a step predicted from another; half of that of "no change" will do, too
MOST_TAIL = 0.05  # error that one such prediction in ten may exceed: of steps that work beside each other some are far off
FEWEST_LAUNCHED = 0.5  # of the device work: what nothing is known to launch stays where it was measured
MOST_LOST = 0.01  # of the launches without a record: of more, what they launched may decide the step
FEWEST_STEPS = 3  # marked, for the test across steps
MOST_STEPS = 5  # tested against each other, spread over the recording: 20 pairs; the median changes little with more
EQUAL_SHARE = 0.95  # of the edges of a step that another one has, too: then they are equal enough to be compared


@dataclass(frozen=True, eq=False)
class Quality:
    """`structural`: per kept step the error of a replay with generic weights only, as a share of the step.

    Shares are of the critical path. `inferred_count`: edges on it that no record in the trace states. `trivial`: the path is host
    time alone: any replay is exact. `cross_step`: median error of a step predicted from another one, `cross_step_tail` what one
    in ten exceeds, `no_change` the median of "they are the same"; None without equal steps. `reason`: why no point value can be
    given; None where it can. `steps_count`: of the kept steps; `of_steps_count`: of the recording's where only an excerpt of it
    is replayed, else None. `ranks_count`: replayed together; of several `between_ranks` is the largest structural error of a step
    of any of them. `untied`: why ranks that communicate are not replayed together.
    """

    structural: Sequence[float]
    unexplained_share: float
    unrecorded_share: float
    inferred_count: int
    dropped_count: int
    trivial: bool
    cross_step: float | None
    cross_step_tail: float | None
    no_change: float | None
    reason: str | None
    steps_count: int
    of_steps_count: int | None
    ranks_count: int = 1
    between_ranks: float | None = None
    untied: str = ""

    @property
    def worst_structural(self) -> float:
        return max((abs(error) for error in self.structural), default=float("nan"))


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def quality(trace: Trace) -> Quality:
    """Of the replay of this trace, with its peers where they are tied to it."""
    run = ranks_of(trace)
    own = quality_of(run.alone)
    if run.meetings is None:
        return replace(own, untied=run.untied)
    between = _between_ranks(run)
    reason = own.reason or _reason_of_ranks(run, between)
    return replace(own, ranks_count=len(run.graphs), between_ranks=between, reason=reason)


def _between_ranks(run: Ranks) -> float:
    """The largest error of a step of any rank, if each collective takes its transfer after the last rank has come."""
    done = sweep_of_ranks(run, [one.edges.generic_ns[:, None] for one in run.graphs], np.zeros_like(run.residual_ns))
    return max(
        (float(np.abs(_errors(one, found)).max(initial=0)) for one, found in zip(run.graphs, done, strict=True)), default=0
    )


def _errors(found: Graph, done: pd.DataFrame) -> Floats:
    return step_times(found, done)[:, 0] / np.maximum(found.steps["measured_ns"].to_numpy(), 1) - 1


def _reason_of_ranks(run: Ranks, between: float) -> str | None:
    for one in run.graphs[1:]:
        if why := clock_offset(one.trace) or _lost(one.trace):
            return f"on rank {one.trace.source.rank or 0}: {why}"
    if between > MOST_STRUCTURAL:
        return f"what the ranks wait for explains a step only to {between:.1%}"
    return None


def quality_of(found: Graph) -> Quality:
    """Of any graph, also one with edges left out."""
    pairs = _pairs(found)
    weights = np.stack([found.edges.generic_ns, *(weight for *_, weight in pairs)], axis=1)
    done = sweep(found, weights)
    replayed, structural = step_times(found, done), _errors(found, done).tolist()
    parts = path_of(found)
    total, kind = max(1, int(parts["ns"].sum())), np.append(found.edges.kind, -1)[parts["edge"]]
    unexplained = float(parts["unexplained_ns"].sum() / total)
    unrecorded = float(parts.loc[kind == GRAPH, "ns"].sum() / total)
    across = _across_steps(found, [(a, b) for a, b, _ in pairs], replayed[:, 1:])
    return Quality(
        structural, unexplained, unrecorded, int(np.isin(kind, INFERRED).sum()), found.dropped_count,
        bool(np.isin(kind, (HOST, CALL)).all()), *across, _reason(found, structural, unexplained, unrecorded, across),
        len(found.steps), found.trace.excerpt.of_count if found.trace.excerpt else None,
    )  # fmt: skip


_Across = tuple[float, float, float] | tuple[None, None, None]  # median error, what one in ten exceeds, median of "no change"


def _reason(found: Graph, structural: list[float], unexplained: float, unrecorded: float, across: _Across) -> str | None:
    if not len(found.steps):
        return "no step is whole"
    if found.steps["measured_ns"].min() <= 0:
        return "steps complete in another order than they begin"
    if offset := clock_offset(found.trace):
        return offset
    if lost := _lost(found.trace):
        return lost
    if (worst := max(map(abs, structural))) > MOST_STRUCTURAL:
        return f"what waits for what explains a step only to {worst:.1%}"
    if unexplained > MOST_UNEXPLAINED:
        return f"{unexplained:.1%} of the time that decides the step is not explained by the recording"
    if unrecorded > MOST_UNRECORDED:
        return f"{unrecorded:.0%} of the time that decides the step is gaps inside graphs, where work may not be recorded"
    median, tail, same = across
    if median is None or tail is None or same is None:
        return None
    if median > max(MOST_CROSS_STEP, same / 2):
        return f"one step predicts another no better than to {median:.1%}"
    if tail > MOST_TAIL:
        return f"one step predicts another to {median:.1%}, but one time in ten no better than to {tail:.1%}"
    return None


def _lost(trace: Trace) -> str | None:
    """Launches whose work is not in the file, or work whose launch is not, where they are many."""
    if len(trace.untimed):
        return f"device events without a time: {len(trace.untimed)}"
    known = launching_call(trace) >= 0
    if len(known) and known.mean() < FEWEST_LAUNCHED:
        return f"device work without the call that launched it: {int((~known).sum())} of {len(known)}"
    lost, launches = len(launches_without_record(trace)), int(calls_named(trace, is_launch).sum())
    return f"launch calls without a record of their work: {lost} of {launches}" if lost > MOST_LOST * launches else None


def _pairs(found: Graph) -> list[tuple[int, int, Floats]]:
    """Kept steps a and b (places) that are equal enough, and weights in which step a has the times of step b."""
    count = len(found.steps)
    if count < 2 or len(marked_steps(found.trace)) < FEWEST_STEPS:
        return []
    chosen = range(count) if count <= MOST_STEPS else np.linspace(0, count - 1, MOST_STEPS).astype(int).tolist()
    steps = found.steps["row"].to_numpy()[list(chosen)]
    of_step = dict(zip(chosen, _step_edges(found, steps), strict=True))
    known = [(a, b, _with_times_of(found, of_step[a], of_step[b])) for a in chosen for b in chosen if a != b]
    return [(a, b, weight) for a, b, weight in known if weight is not None]


def _across_steps(found: Graph, pairs: list[tuple[int, int]], replayed: Floats) -> _Across:
    """Errors of steps predicted from the graphs of others with their own durations; `replayed`: kept steps × pairs."""
    if not pairs:
        return None, None, None
    measured = found.steps["measured_ns"].to_numpy()
    errors = [abs(replayed[a, column] / measured[b] - 1) for column, (a, b) in enumerate(pairs)]
    same = [abs(measured[a] / measured[b] - 1) for a, b in pairs]
    return float(np.median(errors)), float(np.quantile(errors, 0.9)), float(np.median(same))


def _step_edges(found: Graph, steps: Ids) -> list[pd.DataFrame]:
    """Of each step the host and kernel edges: edge, key (what it goes from and to), number (how often the key came before)."""
    trace, nodes, kept = found.trace, found.nodes, found.edges
    edge = np.flatnonzero(np.isin(kept.kind, (HOST, CALL, KERN, HAND)))
    marked = marked_steps(trace)
    own = np.flatnonzero(~marked["aside"])
    at = row_at(marked["start_ns"].to_numpy()[own], marked["end_ns"].to_numpy()[own], nodes.time_ns[kept.source[edge]])
    by_time = np.where(at >= 0, own[at], -1)
    step = np.where(kept.kind[edge] == KERN, np.append(step_of_work(trace), -1)[kept.work[edge]], by_time)
    label = _labels(found)
    return [_keys(found, edge[step == one], label) for one in steps.tolist()]


def _keys(found: Graph, edge: Ids, label: Ids) -> pd.DataFrame:
    kept = found.edges[edge]
    keys = pd.DataFrame({"edge": edge, "kind": kept.kind, "a": label[kept.source], "b": label[kept.target]})
    keys["thread"] = found.nodes.thread[kept.source]
    return keys.assign(number=keys.groupby(["kind", "a", "b", "thread"]).cumcount())


def _labels(found: Graph) -> np.ndarray:
    """For each node a number, equal for the same border of the same call or device work."""
    nodes, trace = found.nodes, found.trace
    name = np.full(len(nodes), -1, np.int64)
    calls, works = np.flatnonzero(nodes.kind <= 1), np.flatnonzero(np.isin(nodes.kind, (2, 3)))
    name[calls], name[works] = trace.host.name[nodes.row[calls]], trace.device.name[nodes.row[works]]
    return name * 8 + nodes.kind


def _with_times_of(found: Graph, a: pd.DataFrame, b: pd.DataFrame) -> Floats | None:
    """Weights in which the edges of one step have the times of another step's; None where they are not equal."""
    both = a.merge(b, on=["kind", "a", "b", "thread", "number"], suffixes=("", "_b"))
    if len(both) < EQUAL_SHARE * max(len(a), len(b)):
        return None
    weight = found.weight_ns + found.residual_ns
    weight[both["edge"]] += found.weight_ns[both["edge_b"]] - found.weight_ns[both["edge"]]
    return weight
