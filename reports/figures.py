"""Report -> its charts and their captions, which state the finding in computed numbers."""

import pandas as pd

from ..analyze.analyses.bottlenecks import Bottlenecks
from ..analyze.analyses.gpu_kernels import GpuKernels
from ..analyze.analyses.op_table import STEP_NAME, OpTable
from ..analyze.analyses.phases import Phases
from ..analyze.analyses.slices import SliceTimes
from ..analyze.analyses.steps import Steps
from ..analyze.diffs.op_changes import OpChanges
from ..analyze.diffs.phase_changes import PhaseChanges
from ..analyze.diffs.step_change import StepChange
from ..analyze.diffs.total_changes import TotalChanges
from ..analyze.short_names import short_name
from . import formats as f
from .bucket_figures import MOST_NOTES, bucket_figures, step_label
from .charts import (
    Change,
    Chart,
    Dots,
    OpChange,
    Part,
    StepColumn,
    diverging,
    dots,
    step_bar,
    step_bars_pair,
    step_columns,
    waterfall,
)
from .model import Report
from .palette import phase_fill
from .svg import Medium
from .time_figures import memory_figures, queue_figures

MOST_OPS = 12  # rows of the operator chart; more do not fit beside the text
MOST_KERNELS = 5  # kernels in the bar of GPU work: their names are long
BRIEF_LENGTH = 28  # of a kernel's name in that bar
MOST_PARTS = 5  # operators in the step bar of a run without phases: as many as there are spare colours
FEW_SHARE = 0.1  # of the steps: what `a few` may mean
OUTSIDE_LABEL = "outside operators"

Figures = tuple[dict[str, Chart], dict[str, str]]  # charts and captions by name


def figures(report: Report, medium: Medium) -> Figures:
    """The charts of a report in one medium."""
    if ranges := report.result("slices"):
        return _range_figures(ranges, medium)
    if totals := report.result("total_changes"):
        return _total_change_figures(totals, medium)
    if report.kind == "diff":
        return _diff_figures(report, medium) if report.told and report.result("step_change") else ({}, {})
    if report.result("steps") is None or report.result("phases") is None:
        return _total_figures(report.result("op_table"), medium)
    charts, captions = _run_figures(report, medium)
    more_charts, more_captions = memory_figures(report.detail, medium) if report.detail else ({}, {})
    return charts | more_charts, captions | more_captions


def phase_label(phase: str) -> str:
    """`data_loading` -> `data loading`."""
    return phase.replace("_", " ")


def _run_figures(report: Report, medium: Medium) -> Figures:
    steps, phases, rows = report.result("steps"), report.result("phases"), report.result("bottlenecks")
    gpu, on_gpu = report.result("gpu_kernels"), report.result("buckets")
    charts, captions = bucket_figures(on_gpu, steps, medium) if on_gpu and on_gpu.told else ({}, {})
    if phases.marked or not gpu or (rows is not None and rows.ops_count):  # a GPU-only recording says nothing about the host
        parts = _phase_parts(phases.per_step.mean()) if phases.marked or rows is None else _op_parts(rows)
        charts["step"] = step_bar(medium, parts, steps.mean_ns, id="step")
        captions["step"] = _step_caption(parts, steps, on_host=gpu is not None)
    if gpu:
        kernels = _kernel_parts(gpu)
        charts["gpu"] = step_bar(medium, kernels, sum(part.ns for part in kernels), id="gpu", whole="all kernels and copies")
        captions["gpu"] = _gpu_caption(kernels, str(gpu.kernels["short_name"].iloc[0]))
    if not charts.get("buckets") and phases.marked and steps.window == "steps" and steps.count > 1:
        charts["steps"] = _columns(medium, steps, phases)
        captions["steps"] = _columns_caption(steps)
    for more_charts, more_captions in (memory_figures(report, medium), queue_figures(report, medium)):
        charts |= more_charts
        captions |= more_captions
    return charts, captions


def _range_figures(found: SliceTimes, medium: Medium) -> Figures:
    """Of another tool's trace: time by name, on devices, on threads and beside them."""
    return _bars(medium, {
        "device": ("device time", _pairs(found.device, "total_ns")),
        "host": ("host time", _pairs(found.host, "self_ns")),
        "asynchronous": ("asynchronous time", _pairs(found.asynchronous, "total_ns")),
    })  # fmt: skip


def _total_figures(table: OpTable | None, medium: Medium) -> Figures:
    """Of a snapshot: device time and self CPU time by name."""
    if table is None:
        return {}, {}
    on_host = table.rows.assign(name=table.rows["name"].replace(STEP_NAME, OUTSIDE_LABEL))
    kernels = [(short_name(name), ns) for name, ns in _pairs(table.kernels, "self_device_ns")]
    return _bars(medium, {
        "device": ("device time", kernels),
        "ops": ("self CPU time", _pairs(on_host, "self_cpu_ns")),
    })  # fmt: skip


def _pairs(rows: pd.DataFrame, column: str) -> list[tuple[str, float]]:
    """Names and their ns, the largest first."""
    by_name = rows.groupby("name", sort=False)[column].sum().sort_values(ascending=False, kind="stable")
    return [(str(name), float(ns)) for name, ns in by_name.items() if ns > 0]


def _bars(medium: Medium, times: dict[str, tuple[str, list[tuple[str, float]]]]) -> Figures:
    """A bar for each kind of time, made of the names that take most of it; none where one name has all."""
    charts, captions = {}, {}
    for id, (of, pairs) in times.items():
        if len(pairs) > 1:
            total_ns, (name, ns) = sum(ns for _, ns in pairs), pairs[0]
            parts = _largest([(_brief(name) if of == "device time" else name, ns) for name, ns in pairs])
            charts[id] = step_bar(medium, parts, total_ns, id=id, whole=f"all {of}")
            captions[id] = f"Of {f.time(total_ns)} of {of}, {f.time(ns)} is {name}."
    return charts, captions


def _phase_parts(means: pd.Series) -> list[Part]:
    return [Part(phase_label(str(p)), phase_fill(str(p), i), float(ns)) for i, (p, ns) in enumerate(means.items()) if ns > 0]


def _op_parts(rows: Bottlenecks) -> list[Part]:
    """The largest operators of a step without phases, then time outside operators, then the rest."""
    by_name = rows.rows.groupby("name", sort=False)["self_ns"].sum().sort_values(ascending=False, kind="stable")
    named = by_name[by_name.index != ""]
    shown = named.head(MOST_PARTS)
    parts = [Part(str(name), phase_fill(f"op {i}", i), float(ns)) for i, (name, ns) in enumerate(shown.items()) if ns > 0]
    if (rest := float(named.iloc[MOST_PARTS:].sum())) > 0:
        parts.append(Part("other operators", phase_fill("sampling", 0), rest))
    return [*parts, Part(OUTSIDE_LABEL, phase_fill("other", 0), rows.outside_ns)] if rows.outside_ns > 0 else parts


def _kernel_parts(gpu: GpuKernels) -> list[Part]:
    """The kernels and copies that take most, over all streams, and the rest."""
    by_name = gpu.kernels.groupby("name", sort=False)[["short_name", "total_ns"]].agg({"short_name": "first", "total_ns": "sum"})
    by_name = by_name.sort_values("total_ns", ascending=False, kind="stable")
    return _largest([(_brief(str(name)), float(ns)) for name, ns in by_name.itertuples(index=False)])


def _largest(times: list[tuple[str, float]]) -> list[Part]:
    """Names and their ns, the largest first, as parts of a bar: those that take most, and the rest as one."""
    parts = [Part(name, phase_fill(f"op {i}", i), ns) for i, (name, ns) in enumerate(times[:MOST_KERNELS]) if ns > 0]
    rest = sum(ns for _, ns in times[MOST_KERNELS:])
    return [*parts, Part("other", phase_fill("other", 0), rest)] if rest else parts


def _gpu_caption(kernels: list[Part], name: str) -> str:
    return f"Of {f.time(sum(part.ns for part in kernels))} of kernels and copies, {f.time(kernels[0].ns)} is {name}."


def _brief(name: str) -> str:
    """The end of a kernel's name says more than its namespaces."""
    last = (
        name.rsplit("::", 1)[-1] if "<" not in name else name.partition("<")[0].rsplit("::", 1)[-1] + "<" + name.partition("<")[2]
    )
    return last if len(last) <= BRIEF_LENGTH else last[: BRIEF_LENGTH - 1] + "…"


def _step_caption(parts: list[Part], steps: Steps, on_host: bool) -> str:
    largest = max(parts, key=lambda part: part.ns)
    step = "step" if steps.window == "steps" else "recording"
    where = " on the host" if on_host else ""
    return f"Of a {f.time(steps.mean_ns)} {step}{where}, {f.time(largest.ns)} is {largest.label}."


def _columns(medium: Medium, steps: Steps, phases: Phases) -> Chart:
    counted = steps.rows[steps.rows["counted"]]
    labels = [step_label(str(name)) for name in counted["name"]]
    columns = [
        StepColumn(label, tuple(_phase_parts(phases.per_step.loc[index])))
        for label, index in zip(labels, counted.index, strict=True)
    ]
    slow = counted["step_ns"].reset_index(drop=True).sort_values(ascending=False, kind="stable").head(MOST_NOTES)
    outliers = counted["outlier"].tolist()
    notes = [(int(i), f"step {labels[int(i)]}: {f.time(float(ns))}") for i, ns in slow.items() if outliers[int(i)]]  # type: ignore[call-overload]
    return step_columns(medium, columns, steps.median_ns, sorted(notes), id="steps")


def _columns_caption(steps: Steps) -> str:
    outliers = int(steps.rows["outlier"].sum())
    low, high = f.time(float(steps.rows.loc[steps.rows["counted"], "step_ns"].min())), f.time(steps.max_ns)
    spread = f"{steps.count} {'step takes' if steps.count == 1 else 'steps take'} {f.interval(low, high)}"
    if not outliers:
        return f"{spread}; none is an outlier."
    return f"{spread}; {outliers} of them {'takes' if outliers == 1 else 'take'} far longer than the median."


def _diff_figures(report: Report, medium: Medium) -> Figures:
    step, phases, ops = report.result("step_change"), report.result("phase_changes"), report.result("op_changes")
    return (
        {
            "water": _waterfall(medium, step, phases),
            "dots": _dots(medium, step, report.told),
            "pair": step_bars_pair(medium, _phase_parts(phases.before), _phase_parts(phases.after), id="pair"),
            "ops": _diverging(medium, ops),
        },
        {
            "water": _water_caption(step, phases),
            "dots": _dots_caption(step),
            "pair": _pair_caption(phases),
            "ops": _ops_caption(ops),
        },
    )


def _total_change_figures(totals: TotalChanges, medium: Medium) -> Figures:
    rows, what = (totals.device, "device work") if len(totals.device) else (totals.host, "host time")
    changes = [
        OpChange(str(r["name"]), float(r["before_ns"]), float(r["after_ns"])) for r in rows.head(MOST_OPS).to_dict("records")
    ]
    lead = rows.iloc[0]
    caption = f"The largest change of {what} is {lead['name']}, {f.time(float(lead['change_ns']), sign=True)}."
    return {"totals": diverging(medium, changes, id="totals", sides=("← less", "more →"))}, {"totals": caption}


def _border(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _waterfall(medium: Medium, step: StepChange, phases: PhaseChanges) -> Chart:
    rows = [
        Change(phase_label(str(r["name"])), float(r["change_ns"]), _border(r["low_change_ns"]), _border(r["high_change_ns"]))
        for r in phases.rows.to_dict("records")
    ]
    return waterfall(medium, step.before.mean_ns, step.after.mean_ns, rows, id="water")


def _water_caption(step: StepChange, phases: PhaseChanges) -> str:
    lead = phases.rows.iloc[0]
    change = f.time(float(lead["change_ns"]), sign=True)
    whole = f.time(step.change_ns, sign=True)
    return f"The largest change is {phase_label(str(lead['name']))}, {change}; the whole step changes by {whole}."


def _dots(medium: Medium, step: StepChange, comparable: bool) -> Chart:
    sides = (("Before", step.before, "ink3"), ("After", step.after, _verdict_fill(step.verdict if comparable else "")))
    return dots(medium, [_dot_set(label, steps, fill) for label, steps, fill in sides], id="dots")


def _dot_set(label: str, steps: Steps, fill: str) -> Dots:
    values = tuple(float(ns) for ns in steps.rows.loc[steps.rows["counted"], "step_ns"])
    low, high = (steps.interval.low, steps.interval.high) if steps.interval else (steps.mean_ns, steps.mean_ns)
    return Dots(label, values, steps.mean_ns, low, high, fill)


def _verdict_fill(verdict: str) -> str:
    return {"faster": "good", "slower": "bad"}.get(verdict, "ink3")


def _dots_caption(step: StepChange) -> str:
    if not step.apart:
        return _overlap(step)
    first, second = ("after", "before") if step.change_ns < 0 else ("before", "after")
    return f"The two sets of steps do not overlap: the slowest step {first} is faster than the fastest {second}."


def _overlap(step: StepChange) -> str:
    before, after = (steps.rows.loc[steps.rows["counted"], "step_ns"] for steps in (step.before, step.after))
    fast, slow, first, second = (after, before, "after", "before") if step.change_ns < 0 else (before, after, "before", "after")
    if float((fast >= slow.min()).mean()) <= FEW_SHARE:
        return f"All but a few steps {first} are faster than the fastest step {second}."
    return "The two sets of steps overlap."


def _pair_caption(phases: PhaseChanges) -> str:
    means = phases.after
    lead = str(means.idxmax())
    return f"After the change, {phase_label(lead)} is the largest phase: {f.share(float(means.max() / means.sum()))} of the step."


def _diverging(medium: Medium, ops: OpChanges) -> Chart:
    rows = _charted(ops)[0].head(MOST_OPS)
    return diverging(
        medium,
        [
            OpChange(
                str(r["name"]),
                float(r["before_ns"]),
                float(r["after_ns"]),
                _border(r["low_change_ns"]),
                _border(r["high_change_ns"]),
            )
            for r in rows.to_dict("records")
        ],
        id="ops",
    )


def _charted(ops: OpChanges) -> tuple[pd.DataFrame, str]:
    """Device work by operator, where that is known: it reads well also where all kernels have other names."""
    if ops.owned:
        return ops.device, "GPU work of operators"
    kernels = ops.kernels.assign(name=ops.kernels["short_name"])
    return (kernels, "Kernels") if len(kernels) else (ops.ops, "Operators")


def _ops_caption(ops: OpChanges) -> str:
    """Only changes whose interval excludes zero are counted."""
    rows, what = _charted(ops)
    shown = f"{what} by their change" + (f", the {MOST_OPS} largest" if len(rows) > MOST_OPS else "")
    if rows["low_change_ns"].isna().all():
        return f"{shown}."
    less, more = int((rows["high_change_ns"] < 0).sum()), int((rows["low_change_ns"] > 0).sum())
    return f"{shown}: less time than before for {less}, more for {more} of {len(rows)}."
