"""Measured runs -> their history: step time and memory run by run, what breaks it, and where a mean changes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pandas as pd

from ..capture.errors import MissingData
from .change_points import ChangePoint, Changes, Drift, Floats, Stretch, changes
from .diffs.comparability import DIFFERENT, comparability_of
from .facts import Facts
from .measured import DEVICE_MEMORY, HOST_MEMORY, STEP, UNPROFILED, MeasuredRun, Metric
from .statistics import MIN_STEPS, Interval, mean_intervals

SHOWN_ANYWAY = ("Steps",)  # facts that have a column of their own


@dataclass(frozen=True)
class HistoryRun:
    """One run; means over its counted steps, None where they were not recorded.

    `interval`: 95 % interval of the mean step over its steps, None below MIN_STEPS. `peak_bytes`: of the memory that is told.
    """

    name: str
    captured_at: str | None
    commit: str | None
    steps_count: int
    step_ns: float
    interval: Interval | None
    unprofiled_ns: float | None
    peak_bytes: float | None


@dataclass(frozen=True)
class Break:
    """From run `at` on times do not compare with those before. `facts` that are different, and for each how."""

    at: int
    facts: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class History:
    """Runs in their order; rows of all else count from 0. `by_time`: whether that is the order in which they were captured.

    `memory`: which peak is told, a metric's name; None where none was recorded. `unmarked`: whether the recording of some counts
    as one step. `differences`: by change point, what else differs between the runs on both sides. `spread_share`: one standard
    deviation of the runs' mean steps, of the mean of their segment; None where no segment has two. `repeated`: names of runs that
    were given more than once, and count once.
    """

    runs: tuple[HistoryRun, ...]
    by_time: bool
    memory: str | None
    unmarked: bool
    breaks: tuple[Break, ...]
    changes: Changes
    differences: dict[int, tuple[str, ...]]
    spread_share: float | None
    repeated: tuple[str, ...]

    @property
    def points(self) -> tuple[ChangePoint, ...]:
        """Of the step."""
        return tuple(point for point in self.changes.points if point.metric == STEP)

    @property
    def memory_points(self) -> tuple[ChangePoint, ...]:
        return tuple(point for point in self.changes.points if point.metric == self.memory)

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Of the step."""
        return tuple(drift for drift in self.changes.drifts if drift.metric == STEP)

    @property
    def stretches(self) -> tuple[tuple[int, int], ...]:
        """Between breaks: first run, and the one after the last."""
        return tuple(pairwise([0, *(found.at for found in self.breaks), len(self.runs)]))

    def told(self, metric: str, first: int) -> bool:
        """Whether the stretch from that run on has enough runs to tell a change."""
        return any((stretch.metric, stretch.first) == (metric, first) for stretch in self.changes.told)


def history(measured: Sequence[MeasuredRun]) -> History:
    """In the order in which they were captured where all tell it, else as given. MissingData for a run without step times."""
    given, repeated = _each_once(measured)
    moments = [_moment(run.captured_at) for run in given]
    by_time = all(moment is not None for moment in moments)
    order = (
        sorted(range(len(given)), key=lambda i: moments[i] or datetime.min.replace(tzinfo=UTC)) if by_time else range(len(given))
    )
    ordered = [given[i] for i in order]
    memory = next((name for name in (DEVICE_MEMORY, HOST_MEMORY) if any(name in run.metrics for run in ordered)), None)
    runs = tuple(_run(run, memory) for run in ordered)
    breaks = _breaks([run.facts for run in ordered])
    found = _changes(runs, breaks, memory)
    return History(
        runs=runs, by_time=by_time, memory=memory, unmarked=any(run.facts.get("Steps marked") is False for run in ordered),
        breaks=breaks, changes=found, differences={point.at: _differences(ordered, point.at) for point in found.points},
        spread_share=_spread(runs, found), repeated=repeated,
    )  # fmt: skip


def _each_once(measured: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], tuple[str, ...]]:
    """By the files that were read: the same run twice is no second measurement."""
    seen: set[tuple[str, ...]] = set()
    once, repeated = list[MeasuredRun](), list[str]()
    for run in measured:
        if run.sha256 and run.sha256 in seen:
            repeated.append(run.name)
        else:
            once.append(run)
            seen.add(run.sha256)
    return once, tuple(repeated)


def _moment(captured_at: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(captured_at or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _run(run: MeasuredRun, memory: str | None) -> HistoryRun:
    steps = run.metrics.get(STEP)
    if steps is None or not len(steps.values):
        raise MissingData(f"{run.name} has no step times; name a bundle, a trace of torch.profiler or a baseline made of them.")
    return HistoryRun(
        name=run.name, captured_at=run.captured_at, commit=run.commit,
        steps_count=len(steps.values), step_ns=steps.mean, interval=_interval(steps),
        unprofiled_ns=_mean(run, UNPROFILED), peak_bytes=_mean(run, memory),
    )  # fmt: skip


def _interval(steps: Metric) -> Interval | None:
    return mean_intervals(steps.values[:, None])[0] if len(steps.values) >= MIN_STEPS else None


def _mean(run: MeasuredRun, metric: str | None) -> float | None:
    return run.metrics[metric].mean if metric and metric in run.metrics else None


def _breaks(facts: Sequence[Facts]) -> tuple[Break, ...]:
    """Where a decisive fact is another than the last run of the stretch that tells it had."""
    found: list[Break] = []
    known: Facts = facts[0]
    for at, own in enumerate(facts[1:], 1):
        compared = comparability_of([known], [own])
        if compared.comparable:
            known = {**known, **{name: value for name, value in own.items() if value is not None}}
        else:
            rows = compared.rows[compared.rows["decisive"] & (compared.rows["status"] == DIFFERENT)]
            found.append(Break(at, tuple(rows["fact"]), _told(rows)))
            known = own
    return tuple(found)


def _differences(runs: Sequence[MeasuredRun], at: int) -> tuple[str, ...]:
    rows = comparability_of([runs[at - 1].facts], [runs[at].facts]).differences
    return _told(rows[~rows["fact"].isin(SHOWN_ANYWAY)])


def _told(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(f"{row['fact']} {row['before']} → {row['after']}" for row in rows.to_dict("records"))


def _changes(runs: Sequence[HistoryRun], breaks: Sequence[Break], memory: str | None) -> Changes:
    means = {STEP: np.array([run.step_ns for run in runs])}
    if memory:
        means[memory] = np.array([math.nan if run.peak_bytes is None else run.peak_bytes for run in runs])
    borders = pairwise([0, *(found.at for found in breaks), len(runs)])
    return changes(means, [Stretch(metric, first, after) for first, after in borders for metric in means])


def _spread(runs: Sequence[HistoryRun], found: Changes) -> float | None:
    """Of all segments together."""
    segments = [
        np.array([run.step_ns for run in runs[s.first : s.after]]) for s in found.segments if s.metric == STEP and s.count > 1
    ]
    free = sum(len(values) - 1 for values in segments)
    return math.sqrt(sum(map(_squares, segments)) / free) if free else None


def _squares(values: Floats) -> float:
    """Of deviations from the mean, in shares of it."""
    return float(np.square(values / values.mean() - 1).sum())
