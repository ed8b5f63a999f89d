"""Measured runs of two sides and limits -> for each metric whether it got worse by more than its limit allows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..capture.errors import ChangeError
from .diffs.comparability import Comparability, comparability_of
from .diffs.step_change import VERDICT_STEPS
from .measured import DEVICE_MEMORY, HOST_MEMORY, MeasuredRun
from .statistics import Interval, mean_change

FAILED, PASSED, UNSURE, TOO_FEW_STEPS, NOT_RECORDED = "failed", "passed", "unsure", "too_few_steps", "not_recorded"
NOT_COMPARABLE, CANNOT_TELL = "not_comparable", "cannot_tell"
MEMORY = (DEVICE_MEMORY, HOST_MEMORY)  # what a limit on memory is about: the first that both sides have
LIMIT = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>%|[a-zA-Zµ]*)")
UNITS = {
    "ns": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "count": {"": 1},
}


@dataclass(frozen=True)
class Limit:
    """How much larger a metric may get: `share` of its mean before, or `amount` in units of `unit`. `asked`: by the user, so that
    a metric that was not recorded leaves the question open.
    """

    metric: str
    text: str
    share: float | None
    amount: float | None
    asked: bool = True

    def of(self, before: float) -> float:
        return before * self.share if self.share is not None else self.amount or 0.0


def limit(metric: str, text: str, asked: bool = True) -> Limit:
    """ChangeError, one sentence, for what is no limit, or not one of this metric."""
    found = LIMIT.fullmatch(text.strip())
    if found is None:
        raise ChangeError(f"{text} is no limit for {metric}; write, for instance, 3%.")
    number, unit = float(found["number"]), found["unit"]
    if unit == "%":
        return Limit(metric, text, number / 100, None, asked)
    of_metric = UNITS[unit_of(metric)]
    if unit not in of_metric:
        units = ", ".join(f"1{name}" for name in of_metric)
        raise ChangeError(f"{text} is no limit for {metric}; write a share as 3%, or an amount as one of {units}.")
    return Limit(metric, text, None, number * of_metric[unit], asked)


def unit_of(metric: str) -> str:
    if ":" in metric or metric.endswith("_us"):
        return "ns"
    return "bytes" if metric.endswith("_bytes") else "count"


@dataclass(frozen=True)
class Row:
    """One metric. Means per step, in units of `unit` (ns, bytes, count), None where a side lacks it; `interval`: 95 %, of the
    change; `outcome`: failed (worse, by more than the limit), passed, unsure (passed, yet the interval reaches beyond the limit),
    too_few_steps, not_recorded.
    """

    metric: str
    unit: str
    limit: Limit
    before: float | None
    after: float | None
    interval: Interval | None
    outcome: str

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def change_share(self) -> float | None:
        """Of the mean before."""
        return self.change / self.before if self.change is not None and self.before else None

    @property
    def open(self) -> bool:
        """Whether the question that was asked has no answer."""
        return self.outcome == TOO_FEW_STEPS or (self.outcome == NOT_RECORDED and self.limit.asked)


@dataclass(frozen=True, eq=False)
class Gate:
    """`outcome`: failed, passed, not_comparable or cannot_tell. `by_runs`: whether runs, not steps, are what varies: so that
    differences between runs of the same program count.
    """

    rows: tuple[Row, ...]
    comparability: Comparability
    anyway: bool
    by_runs: bool
    before: tuple[MeasuredRun, ...]
    after: tuple[MeasuredRun, ...]

    @property
    def outcome(self) -> str:
        if not self.comparability.comparable and not self.anyway:
            return NOT_COMPARABLE
        outcomes = {row.outcome for row in self.rows}
        if FAILED in outcomes:
            return FAILED
        return CANNOT_TELL if any(row.open for row in self.rows) else PASSED


def gate(before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], limits: Sequence[Limit], anyway: bool) -> Gate:
    """Hold the metrics of two sides against limits; of runs that cannot be compared none, unless that is to be done `anyway`."""
    found = comparability_of([run.facts for run in before], [run.facts for run in after])
    told = found.comparable or anyway
    rows = tuple(_row(one, before, after) for one in limits) if told else ()
    return Gate(rows, found, anyway, min(len(before), len(after)) > 1, tuple(before), tuple(after))


def memory_limit(text: str, asked: bool, before: Sequence[MeasuredRun], after: Sequence[MeasuredRun]) -> Limit:
    """On the memory of devices where both sides have it, else on that of the host."""
    has = [name for name in MEMORY if all(name in run.metrics for run in (*before, *after))]
    return limit(has[0] if has else MEMORY[0], text, asked)


def _row(one: Limit, before: Sequence[MeasuredRun], after: Sequence[MeasuredRun]) -> Row:
    sides = [[run.metrics[one.metric].values[:, None] for run in side if one.metric in run.metrics] for side in (before, after)]
    unit = unit_of(one.metric)
    if [*map(len, sides)] != [len(before), len(after)]:
        return Row(one.metric, unit, one, None, None, None, NOT_RECORDED)
    found = mean_change(*sides)
    before_mean, after_mean = float(found.before[0]), float(found.after[0])
    row = Row(one.metric, unit, one, before_mean, after_mean, None, TOO_FEW_STEPS)
    if min(sum(map(len, side)) for side in sides) < VERDICT_STEPS:
        return row
    interval = Interval(float(found.low[0]), float(found.high[0]))
    return replace(row, interval=interval, outcome=_outcome(interval, one.of(before_mean)))


def _outcome(interval: Interval, allowed: float) -> str:
    """Failed where the whole interval is beyond what is allowed: then the change is real, and larger."""
    if interval.low > allowed:
        return FAILED
    return UNSURE if interval.high > allowed else PASSED
