"""Report -> the measures of its JSON, and why some are withheld.

An analysis names its measures in the units of `analyze` (`gpu_busy_ns`, `gpu_busy_share`); here they become those of the JSON
(`gpu_busy_us`, `gpu_busy_pct`). Microseconds have 3 decimals, per cent 4.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..analyze.analyses.slices import SliceTimes
from ..analyze.analyses.steps import Steps
from ..analyze.contents import ACROSS_RANKS
from ..analyze.forms import LEGACY_NOTE
from ..analyze.run import Section
from ..capture.bundle import unprofiled_times
from .model import Recording, Report

Json = dict[str, Any]
ACROSS = {analysis.__name__ for analysis in ACROSS_RANKS.values()}
UNITS = {"ns": "us", "share": "pct"}
UNIT = re.compile(r"_(ns|share)(?=_|$)")
OLD_BOUNDS = {
    "launch": "launch_overhead",
    "synchronization": "host_sync",
    "compute": "gpu_compute",
    "copy": "h2d_copy",
    "unknown": None,
}

COPY_BOUNDS = {"d2h_copy": ("DtoH", "DeviceToHost"), "d2d_copy": ("DtoD", "PtoP", "DeviceToDevice")}
TIMELINE_MEASURES = (  # what people ask of any trace, and only one of torch.profiler can answer
    "step_count", "step_mean_us", "step_median_us", "gpu_busy_us", "gpu_busy_pct", "gpu_idle_us", "gpu_idle_pct", "kernel_count",
    "launch_count", "saving_upper_bound_us",
)  # fmt: skip


def us(ns: float) -> float | None:
    """Nanoseconds to microseconds with 3 decimals; NaN to null."""
    return None if not math.isfinite(ns) else round(ns / 1000, 3)


def pct(share: float) -> float | None:
    """A fraction in per cent; NaN to null."""
    return None if not math.isfinite(share) else round(share * 100, 4)


def told(name: str, value: Any) -> Any:
    """A value in the unit that JSON has for a measure of that name; also each one of a list or an object, whose keys stay."""
    if isinstance(value, Mapping):
        return {str(key): told(name, of) for key, of in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [told(name, one) for one in value]
    unit = UNIT.search(name)
    if value is None or isinstance(value, str | bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None if isinstance(value, float) else value
    if unit:
        return us(value) if unit[1] == "ns" else pct(value)
    return round(value, 6) if isinstance(value, float) else int(value)


def json_name(name: str) -> str:
    """`gpu_busy_ns` -> `gpu_busy_us`, `overlap_share_of_comm` -> `overlap_pct_of_comm`."""
    return UNIT.sub(lambda unit: "_" + UNITS[unit[1]], name)


def measures_of(report: Report) -> Json:
    """All measures of a run, in the order of its sections; those that are withheld stand in `withheld_of`."""
    recording, gpu, steps = report.recordings[0], report.result("gpu_kernels"), report.result("steps")
    measures: Json = dict(recording.coverage.health)
    if recording.whole_steps is not None and gpu:
        measures["steps_with_complete_gpu_data"] = [step_number(name) for name in recording.whole_steps]
    if recording.form != "snapshot":
        measures["window_us"] = us(recording.window_ns)
    if steps:
        measures |= _step_measures(steps)
    measures["top_bottleneck"] = _old_bound(report)
    if steps:
        measures |= _more_step_measures(report, steps)
    if ranges := report.result("slices"):
        measures |= _range_measures(ranges)
    if (ops := report.result("op_table")) and ops.from_snapshot and ops.step_ns is not None:
        measures |= {"step_count": ops.steps_count, "step_mean_us": us(ops.step_ns)}
    if report.findings and report.findings[0].saves:
        measures["saving_upper_bound_us"] = us(report.findings[0].high_ns)
    return measures | section_measures(report.sections)


def section_measures(sections: Sequence[Section]) -> Json:
    return {json_name(name): told(name, value) for section in sections for name, value in section.measures.items()}


def across_measures(report: Report) -> Json:
    """What was asked of all ranks together: by rank already where it is told by rank."""
    return section_measures([section for section in report.sections if section.name in ACROSS])


def across_withheld(report: Report) -> Json:
    """And what of it cannot be trusted."""
    return {json_name(n): why for s in report.sections if s.name in ACROSS for n, why in s.withheld.items()}


def _step_measures(steps: Steps) -> Json:
    return {
        "step_count": steps.whole_count,
        "step_mean_us": us(steps.mean_ns),
        "step_median_us": us(steps.median_ns),
        "step_p95_us": us(steps.p95_ns),
        "step_max_us": us(steps.max_ns),
        "outlier_steps": [step_number(name) for name in steps.rows.loc[steps.rows["outlier"], "name"]],
        "mode": steps.mode,
    }


def _more_step_measures(report: Report, steps: Steps) -> Json:
    """Those that not every recording has."""
    measures: Json = {}
    rows = report.result("bottlenecks")
    if steps.interval:
        measures |= {"step_mean_low_us": us(steps.interval.low), "step_mean_high_us": us(steps.interval.high)}
    if steps.unprofiled_ns:
        measures |= _unprofiled_measures(report.recordings[0], steps, on_gpu=report.result("gpu_kernels") is not None)
    if rows is not None:
        measures |= {"ops_per_step": round(rows.ops_count, 3), "tiny_ops_per_step": round(rows.tiny_ops_count, 3)}
        measures["outside_ops_us"] = us(rows.outside_ns)
        measures["step_self_us"] = {str(n): us(ns) for n, ns in _total_self(rows.rows, steps.count).items() if n}
    return measures


def _range_measures(found: SliceTimes) -> Json:
    """Of another tool's trace; without a range on a device nothing is said about devices but that."""
    total, own = (_by_name(found.host, column) for column in ("total_ns", "self_ns"))
    measures: Json = {"device_events": found.device_events, "gpu_activity_events": found.device_events}
    measures |= {"total_us": total, "slices_us": total, "self_us": own}
    if len(found.asynchronous):
        measures["async_us"] = _by_name(found.asynchronous, "total_ns")
    if len(found.device):
        measures |= {"device_busy_us": us(found.device_busy_ns), "device_time_us": _by_name(found.device, "total_ns")}
        measures["cpu_time_us"] = total
    if found.device_busy_share is not None:
        measures["device_busy_pct"] = pct(found.device_busy_share)
    return measures


def _by_name(rows: pd.DataFrame, column: str) -> Json:
    return {str(name): us(ns) for name, ns in zip(rows["name"], rows[column], strict=True)}


def _old_bound(report: Report) -> str | None:
    bound, copies = report.verdict.bound, report.result("copies")
    if bound == "compute" and report.result("gpu_kernels") is None:
        return bound
    if bound == "copy" and copies is not None:  # those that take most time say which way
        name = str(copies.rows["name"].iloc[0])
        return next((old for old, words in COPY_BOUNDS.items() if any(word in name for word in words)), OLD_BOUNDS[bound])
    return OLD_BOUNDS.get(bound, bound)


def _unprofiled_measures(recording: Recording, steps: Steps, on_gpu: bool) -> Json:
    manifest = recording.manifest
    assert manifest and steps.unprofiled_ns
    measures: Json = {
        "unprofiled_step_median_us": us(steps.unprofiled_ns),
        "unprofiled_step_count": len(unprofiled_times(manifest)),
    }
    if manifest.samples_per_step and not on_gpu:  # on a GPU the host may run ahead: its step time is no throughput
        measures["samples_per_s"] = round(manifest.samples_per_step / steps.unprofiled_ns * 1e9, 3)
    return measures


def _total_self(rows: pd.DataFrame, steps: int) -> pd.Series:
    return rows.groupby("name", sort=False)["self_ns"].sum() * steps


def step_number(name: str) -> int | str:
    digits = name.rsplit("#", 1)[-1]
    return int(digits) if digits.isdecimal() else name


def withheld_of(report: Report) -> dict[str, str]:
    """The measures that apply and cannot be trusted -> why."""
    ops, reason = report.result("op_table"), report.recordings[0].withheld
    if reason:
        known = ("step_count", "step_mean_us") if ops and ops.step_ns is not None else ()
        legacy = report.result("slices") is not None and report.result("slices").from_cuda_events
        note = {"kernel_count": f"The file holds {LEGACY_NOTE}."} if legacy else {}
        return {name: reason for name in TIMELINE_MEASURES if name not in known} | note
    return {json_name(name): why for section in report.sections for name, why in section.withheld.items()}
