"""Where does the step go on the GPU: what does it do for how long, and why does it idle?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...capture.errors import MissingData
from ..device_measures import of_devices
from ..step_buckets import COMMUNICATING, COMPUTING, COPYING, IDLE, UNLINKED, StepBuckets, step_buckets
from ..step_marks import WHOLE_TRACE
from ..step_time import OTHER
from ..trace import Mask, Trace

CAUSE_LABELS = {
    "input_pipeline": "idle: waiting for data", "h2d_wait": "idle: in copy calls", "synchronization": "idle: after a wait",
    "launch": "idle: while launching", "host": "idle: in other host work", "other": "idle: other",
}  # fmt: skip
KIND_LABELS = {COMPUTING: "computing", COMMUNICATING: "exposed communication", COPYING: "exposed copies"}
MOST_SLOW = 10  # steps
APART_SHARE = 0.05  # of the steps: then what passes between them makes another figure of a step


@dataclass(frozen=True, eq=False)
class Buckets:
    """Disjoint parts of the step on each GPU, in the order of a step.

    `rows`: one per (device, bucket), over the counted steps that can be told: device; kind (compute, comm_exposed, copy_exposed,
    idle); of (phase or cause); bucket (both in one word); label; mean_ns; p95_ns. The means of a device add up to `step_ns`.
    `whole`: the mean of all devices, with step_share (of the mean step) in place of device and p95_ns.
    `per_step`: a row for each of those steps, a column for each bucket, ns, the mean of all devices.
    `slow`: of the outliers among them, the slowest: name; step_ns; then against the median of all those steps change_ns, and the
    label of the bucket that grew most with its lead_change_ns.

    `periods`: what the verdict weighs: of each device the buckets of a step with the time before it, which is part of no step,
    idle time by what it is blamed on (gap_causes): device; kind; of; bucket; label; mean_ns; period_share (of `period_ns`, the
    mean from the end of one step to the end of the next; where that time is a small part, the mean step). `turns_share`: by
    device, of that the idle time of cause `other` in which another GPU computes.

    `counted`: how many steps count; `gaps`: why those that cannot be told are left out. `after_ns`: as in StepBuckets.
    """

    rows: pd.DataFrame
    whole: pd.DataFrame
    per_step: pd.DataFrame
    slow: pd.DataFrame
    step_ns: float
    periods: pd.DataFrame
    period_ns: float
    turns_share: Mapping[int, float]
    counted: int
    gaps: str | None
    after_ns: Mapping[int, int]
    marked: bool  # whether the trace marks steps
    all_steps: StepBuckets  # also of steps that do not count

    @property
    def told(self) -> bool:
        """Whether any counted step can be told."""
        return len(self.rows) > 0

    @property
    def phased(self) -> bool:
        """Whether computing is told by phase: the trace marks some."""
        return not {OTHER}.issuperset(self.whole.loc[self.whole["kind"] == COMPUTING, "of"])

    @property
    def between_ns(self) -> float:
        """From the end of one step to the start of the next; 0 where that is a small part."""
        return self.period_ns - self.step_ns if self.told and self.period_ns > self.step_ns * (1 + APART_SHARE) else 0.0

    @property
    def idle_share(self) -> float:
        """Of the mean step, the mean of all devices."""
        return float(self.whole.loc[self.whole["kind"] == IDLE, "step_share"].sum())

    @property
    def measures(self) -> Mapping[str, Any]:
        if not self.told:
            return {}
        by_bucket = {device: dict(zip(r["bucket"], r["mean_ns"], strict=True)) for device, r in self.rows.groupby("device")}
        turns = {"gpu_turns_share": of_devices(self.turns_share)} if any(self.turns_share.values()) else {}
        blamed = {device: dict(zip(r["bucket"], r["mean_ns"], strict=True)) for device, r in self.periods.groupby("device")}
        return {
            "step_buckets_ns": of_devices(by_bucket), "between_steps_ns": self.between_ns, "step_period_ns": self.period_ns,
            "period_buckets_ns": of_devices(blamed), **turns,
        }  # fmt: skip

    @property
    def withheld(self) -> Mapping[str, str]:
        return {} if self.told else {"step_buckets_ns": str(self.gaps)}


def buckets(trace: Trace) -> Buckets:
    """Mean of the counted steps; one step where the trace marks none."""
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work; on a GPU machine capture with CUDA activity on.")
    found = step_buckets(trace)
    steps = found.work.steps[found.work.steps["counted"]]
    counted = found.rows.index.get_level_values("step").isin(steps.index)
    both = _with_time_before(found, counted)
    period_ns = both.sum(axis=1).mean() if len(both) else float("nan")
    of_counted = found.rows[counted]
    of_counted = of_counted.loc[:, (of_counted > 0).any()]
    names = _labels(of_counted)
    devices = [int(device) for device in of_counted.index.unique("device")]
    per_step = of_counted.groupby(level="step").mean().set_axis([bucket_name(*column) for column in names], axis=1)
    told = steps.loc[per_step.index]
    rows, step_ns = _rows(of_counted, names), float(told["step_ns"].mean())
    return Buckets(
        rows=rows,
        whole=_whole(rows, step_ns),
        per_step=per_step,
        slow=_slow(told, per_step.set_axis(list(names.values()), axis=1)),
        step_ns=step_ns,
        periods=_periods(both.loc[:, (both > 0).any()], period_ns),
        period_ns=float(period_ns),
        turns_share={d: float(found.turns[both.index].xs(d, level="device").mean() / period_ns) for d in devices},
        counted=len(steps),
        gaps=found.work.offset or found.work.gaps if len(told) < len(steps) else None,
        after_ns=found.after_ns,
        marked=steps["name"].iloc[0] != WHOLE_TRACE,
        all_steps=found,
    )


def bucket_name(kind: str, of: str) -> str:
    """`compute:forward`, `idle:launch`, `comm_exposed`."""
    return f"{kind}:{of}" if of else kind


def _labels(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What readers see for each column."""
    phased = any(kind == COMPUTING and of != OTHER for kind, of in table.columns)
    computing = {OTHER: "computing, no phase" if phased else "computing", UNLINKED: "computing, no launch"}

    def label(kind: str, of: str) -> str:
        if kind == COMPUTING:
            return computing.get(of, of.replace("_", " "))
        return CAUSE_LABELS[of] if kind == IDLE else KIND_LABELS[kind]

    return {(kind, of): label(kind, of) for kind, of in table.columns}


def _rows(table: pd.DataFrame, names: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    columns = ["device", "kind", "of", "bucket", "label", "mean_ns", "p95_ns"]
    return pd.DataFrame(
        [
            (device, kind, of, bucket_name(kind, of), label, rows[kind, of].mean(), rows[kind, of].quantile(0.95))
            for device, rows in table.groupby(level="device")
            for (kind, of), label in names.items()
        ],
        columns=columns,
    )


def _with_time_before(found: StepBuckets, counted: Mask) -> pd.DataFrame:
    """The counted steps, where it is no small part with the time before them; of the first one that is not known."""
    rows, before = found.blamed[counted], found.before[counted]
    if before.to_numpy().sum() <= APART_SHARE * rows.to_numpy().sum():
        return rows
    first = found.work.steps.index[~found.work.steps["aside"]][0]
    known = rows.index.get_level_values("step") != first
    return rows[known] + before[known]


def _periods(table: pd.DataFrame, period_ns: float) -> pd.DataFrame:
    means, labels = table.groupby(level="device").mean(), _labels(table)
    rows = [(device, *of, bucket_name(*of), name, means.at[device, of]) for device in means.index for of, name in labels.items()]
    found = pd.DataFrame(rows, columns=["device", "kind", "of", "bucket", "label", "mean_ns"])
    return found.assign(period_share=found["mean_ns"] / period_ns)


def _whole(rows: pd.DataFrame, step_ns: float) -> pd.DataFrame:
    means = rows.groupby(["kind", "of", "bucket", "label"], sort=False)["mean_ns"].mean().reset_index()
    return means.assign(step_share=means["mean_ns"] / step_ns)


def _slow(steps: pd.DataFrame, per_step: pd.DataFrame) -> pd.DataFrame:
    slow = steps[steps["outlier"]].sort_values("step_ns", ascending=False, kind="stable").head(MOST_SLOW)
    more = (per_step - per_step.median()).loc[slow.index]
    lead = more.to_numpy().argmax(axis=1) if len(slow) else []
    return pd.DataFrame({
        "name": slow["name"], "step_ns": slow["step_ns"], "change_ns": slow["step_ns"] - steps["step_ns"].median(),
        "label": per_step.columns[lead], "lead_change_ns": more.max(axis=1),
    })  # fmt: skip
