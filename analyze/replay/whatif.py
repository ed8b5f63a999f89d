"""Trace and changes -> what each would save per step, by replaying all of them together; a range where that cannot be told."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..durations import repaired_work
from ..statistics import Floats
from ..trace import Trace
from .bounds import least_step_ns
from .careful import pinned
from .changes import Effect, joint_effect
from .edges import CALL, CONT, PIN
from .graph import Graph, graph
from .quality import Quality, quality
from .steps import FIRST_START, measured_completions
from .sweep import sweep
from .what import WhatIf, parse

__all__ = ["Prediction", "WhatIf", "parse", "predict"]

AT_ONCE = 8  # candidates: of a million moments the times of so many fill 64 MB, and as many weights more
CUT = -1e18  # the weight of an edge that is gone: earlier than all else


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a candidate saves per step, the mean over the reported steps.

    `point`: whether `saving_ns` is a prediction; otherwise it is what the replay says all the same, `reason` tells why it is not
    to be trusted, and only the range counts. `high_ns` is never more than `removed_ns`: the time that the change takes out and
    the waits that it releases, as if nothing else had to wait.
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
    found, known = graph(trace), quality(trace)
    effects = [joint_effect(found, changes) for changes in candidates]
    done = _replayed(found, effects)
    new = _reported(found, done)
    careful = _careful_savings(found, effects) if known.reason else np.zeros(len(candidates))
    return [_prediction(found, known, changes, effects[n], new[:, n], float(careful[n])) for n, changes in enumerate(candidates)]


def _replayed(found: Graph, effects: Sequence[Effect]) -> pd.DataFrame:
    """When each step is complete, a column a candidate."""
    blocks = [effects[first : first + AT_ONCE] for first in range(0, len(effects), AT_ONCE)]
    done = [sweep(found, np.stack([changed_weights(found, effect) for effect in block], axis=1)) for block in blocks]
    return pd.concat(done, axis=1, ignore_index=True)


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


def _careful_savings(found: Graph, effects: Sequence[Effect]) -> Floats:
    """With all that is unexplained held where it was measured within its step."""
    held, origin = pinned(found)
    on_held = [effect.on(origin) for effect in effects]
    new = _reported(held, _replayed(held, on_held))
    return held.reported["measured_ns"].to_numpy().mean() - new.mean(axis=0) if len(held.reported) else np.zeros(len(effects))


def _prediction(
    found: Graph, known: Quality, changes: tuple[WhatIf, ...], effect: Effect, new: Floats, careful: float
) -> Prediction:
    measured = found.reported["measured_ns"].to_numpy().astype(np.float64)
    if not len(measured):
        return Prediction(changes, 0.0, 0.0, 0.0, False, "not predicted, because no step is whole", 0.0, new, measured)
    removed = min(removed_ns(found, effect), float(measured.mean()))
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
    until = found.nodes.time_ns[found.edges.target]
    since, last = _kept_span(found)
    return float(gone[(until > since) & (until <= last)].sum()) / max(1, len(found.reported))


def _kept_span(found: Graph) -> tuple[int, int]:
    done = measured_completions(found.completions, found.nodes)
    return int(done.loc[found.reported["before"]].min()), int(done.loc[found.reported["row"]].max())
