"""Trace and changes -> what each would save per step, by replaying all of them together; a range where that cannot be told."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..durations import repaired_work
from ..statistics import Floats
from ..trace import Ints, Trace
from .bounds import least_step_ns
from .careful import pinned
from .changes import Effect
from .edges import CALL, CONT, PIN
from .graph import Graph
from .quality import Quality, quality
from .ranks import Ranks, effects, ranks_of, sweep_of_ranks
from .steps import FIRST_START, measured_completions
from .what import WhatIf, parse

__all__ = ["Prediction", "WhatIf", "parse", "predict"]

AT_ONCE = 8  # candidates: of a million moments the times of so many fill 64 MB, and as many weights more
CUT = -1e18  # the weight of an edge that is gone: earlier than all else


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a candidate saves per step, the mean over the reported steps.

    `point`: whether `saving_ns` is a prediction; otherwise it is what the replay says all the same, `reason` tells why it is not
    to be trusted, and only the range counts. `high_ns` is never more than `removed_ns`: the time that the change takes out and
    the waits that it releases, those for other ranks among them, as if nothing else had to wait.
    """

    changes: tuple[WhatIf, ...]
    saving_ns: float
    low_ns: float
    high_ns: float
    point: bool
    reason: str | None
    removed_ns: float
    step_ns: Floats  # the new time of each kept step
    measured_ns: Floats  # and the old one


def predict(trace: Trace, candidates: Sequence[tuple[WhatIf, ...]]) -> list[Prediction]:
    """One prediction a candidate, which is one change or several at once. ChangeError where a pattern matches nothing."""
    if not candidates:
        return []
    run, known = ranks_of(trace), quality(trace)
    found, made = run.graphs[0], [effects(run, changes) for changes in candidates]
    new = _reported(found, _replayed(run, made))
    careful = _careful_savings(run, made) if known.reason else np.zeros(len(candidates))
    waits_ns = _per_step(found, run.waits_ns)
    return [
        _prediction(found, known, changes, made[n][0], new[:, n], float(careful[n]), waits_ns)
        for n, changes in enumerate(candidates)
    ]  # fmt: skip


def _replayed(run: Ranks, made: Sequence[Sequence[Effect]]) -> pd.DataFrame:
    """When each step of the first rank is complete, a column a candidate; `made`: for each its effect on each rank."""
    blocks = [made[first : first + AT_ONCE] for first in range(0, len(made), AT_ONCE)]
    return pd.concat([_swept(run, block) for block in blocks], axis=1, ignore_index=True)


def _swept(run: Ranks, made: Sequence[Sequence[Effect]]) -> pd.DataFrame:
    weights = [
        np.stack([changed_weights(found, several[n]) for several in made], axis=1) for n, found in enumerate(run.graphs)
    ]  # fmt: skip
    return sweep_of_ranks(run, weights, run.residual_ns)[0]


def _reported(found: Graph, done: pd.DataFrame) -> Floats:
    """Reported steps × candidates, from completion to completion."""
    return done.loc[found.reported["row"]].to_numpy() - done.loc[found.reported["before"]].to_numpy()


def changed_weights(found: Graph, effect: Effect) -> Floats:
    """Weights with residuals after the changes, which concern what happens after the start of the first step."""
    start = measured_completions(found.completions, found.nodes).get(FIRST_START, -1)
    within = found.nodes.time_ns[found.edges.target] > start
    weight = np.maximum(0, found.weight_ns - np.where(within, scalable(found) * (1 - effect.keep), 0)) + found.residual_ns
    return np.where(effect.cut & within, CUT, weight)


def scalable(found: Graph) -> Floats:
    """The part of each generic weight that changes scale: of work beside long work the time of that work."""
    scaled = found.weight_ns.copy()
    beside, work = np.flatnonzero(found.edges.kind == CONT), repaired_work(found.trace)
    row = found.edges.work[beside]
    scaled[beside] = work.end_ns[row] - work.start_ns[row]
    return scaled


def _careful_savings(run: Ranks, made: Sequence[Sequence[Effect]]) -> Floats:
    """With all that is unexplained held where it was measured within its step."""
    held, origins = zip(*map(pinned, run.graphs), strict=True)
    on_held = [[effect.on(origin) for effect, origin in zip(several, origins, strict=True)] for several in made]
    first = held[0]
    new = _reported(first, _replayed(run.with_graphs(held, origins), on_held))
    return first.reported["measured_ns"].to_numpy().mean() - new.mean(axis=0) if len(first.reported) else np.zeros(len(made))


def _prediction(
    found: Graph, known: Quality, changes: tuple[WhatIf, ...], effect: Effect, new: Floats, careful: float, waits_ns: float
) -> Prediction:
    measured = found.reported["measured_ns"].to_numpy().astype(np.float64)
    if not len(measured):
        return Prediction(changes, 0.0, 0.0, 0.0, False, "not predicted, because no step is whole", 0.0, new, measured)
    removed = min(removed_ns(found, effect) + waits_ns, float(measured.mean()))
    saving = float(np.clip((measured - new).mean(), 0, removed))
    if known.reason:
        ceiling = max(saving, min(removed, float(measured.mean()) - least_step_ns(found, effect)))
        low = float(np.clip(careful, 0, saving))
        return Prediction(
            changes, saving, low, ceiling, False, f"not predicted, because {known.reason}", removed, new, measured
        )  # fmt: skip
    margin = (known.worst_structural + known.unexplained_share) * float(measured.mean())
    low = 0.0 if any(change.is_ceiling for change in changes) else max(0.0, saving - margin)
    return Prediction(changes, saving, low, min(removed, saving + margin), True, None, removed, new, measured)


def removed_ns(found: Graph, effect: Effect) -> float:
    """Per kept step: the time that the changes take out of edges that end in kept steps, and the calls whose waits are gone."""
    before, after = found.weight_ns + found.residual_ns, changed_weights(found, effect)
    gone = np.where(after <= CUT, 0, before - after)
    gone[np.isin(found.edges.kind, (CONT, PIN))] = 0
    released = np.zeros(len(found.nodes), bool)
    released[found.edges.target[after <= CUT]] = True
    waits = (found.edges.kind == CALL) & released[found.edges.target]
    gone[waits] = found.edges.measured_ns[waits]
    return _per_step(found, gone)


def _per_step(found: Graph, of_edges: Floats | Ints) -> float:
    """The sum over edges that end in reported steps, per step."""
    if not len(found.reported):
        return 0.0
    until = found.nodes.time_ns[found.edges.target]
    since, last = _kept_span(found)
    return float(of_edges[(until > since) & (until <= last)].sum()) / len(found.reported)


def _kept_span(found: Graph) -> tuple[int, int]:
    done = measured_completions(found.completions, found.nodes)
    return int(done.loc[found.reported["before"]].min()), int(done.loc[found.reported["row"]].max())
