"""Report -> the JSON that tools read: `longpole.summary/1` for a run, `longpole.diff/1` for a diff. Microseconds, 3 decimals."""

import json
import math
from typing import Any

import pandas as pd

from ..analyze.analyses.slices import SliceTimes
from ..analyze.analyses.steps import Steps
from ..analyze.diffs.step_change import StepChange
from ..analyze.diffs.total_changes import TotalChanges
from ..analyze.findings import Evidence, Finding
from ..analyze.forms import LEGACY_NOTE
from .headline import GPU_SAVINGS_WITHHELD, unprofiled_savings
from .model import Recording, Report
from .prose import sentence

SUMMARY, DIFF = "longpole.summary/1", "longpole.diff/1"
OLD_BOUNDS = {
    "launch": "launch_overhead",
    "synchronization": "host_sync",
    "compute": "gpu_compute",
    "copy": "h2d_copy",
    "unknown": None,
}

TIMELINE_MEASURES = (  # what people ask of any trace, and only one of torch.profiler can answer
    "step_count", "step_mean_us", "step_median_us", "gpu_busy_us", "gpu_busy_pct", "gpu_idle_us", "gpu_idle_pct", "kernel_count",
    "launch_count", "saving_upper_bound_us",
)  # fmt: skip
STEP_CHANGE = (
    "before_us", "after_us", "change_us", "change_pct", "before_median_us", "after_median_us", "ci_low_us", "ci_high_us",
    "speedup", "verdict",
)  # fmt: skip

Json = dict[str, Any]


def render_json(report: Report) -> bytes:
    """Indented UTF-8 JSON; never NaN or infinity."""
    content = summary(report) if report.kind == "run" else difference(report)
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def us(ns: float) -> float | None:
    """Nanoseconds to microseconds with 3 decimals; NaN to null."""
    return None if not math.isfinite(ns) else round(ns / 1000, 3)


def pct(share: float) -> float | None:
    """A fraction in per cent; NaN to null."""
    return None if not math.isfinite(share) else round(share * 100, 4)


def summary(report: Report) -> Json:
    """Everything about one run; of several ranks each measure by rank, each row with its rank."""
    whole = _of_rank(report)
    if not report.ranks:
        return whole
    by_rank = {other.rank: _of_rank(other) for other in report.ranks}
    for key in ("steps", "devices", "streams"):
        whole[key] = [row for one in by_rank.values() for row in one[key]]
    whole["source"] |= {
        "paths": list(dict.fromkeys(path for one in by_rank.values() for path in one["source"]["paths"])),
        "rank_ids": list(by_rank),
        "explained_rank": report.rank,
        "files": [file for one in by_rank.values() for file in one["source"]["files"]],
    }
    names = dict.fromkeys(name for one in by_rank.values() for name in one["measures"])
    whole["measures"] = {
        name: {key: value for rank, one in by_rank.items() for key, value in _keyed(rank, one["measures"].get(name)).items()}
        for name in names
    }
    whole["warnings"] = [{**warning, "rank": rank} for rank, one in by_rank.items() for warning in one["warnings"]]
    whole["ranks"] = [
        {"rank": int(r["rank"]), "window_us": us(r["window_ns"]), "gpu_busy_us": us(r["busy_ns"])}
        for r in report.result("ranks").rows.to_dict("records")
    ]
    return whole


def _keyed(rank: int, value: Any) -> Json:
    """By rank; what a rank gives by device: by "rank:device"."""
    by_device = isinstance(value, dict) and value and all(key.isdecimal() for key in value)
    return {f"{rank}:{device}": of for device, of in value.items()} if by_device else {str(rank): value}


def _of_rank(report: Report) -> Json:
    recording, withheld = report.recordings[0], _withheld(report)
    return {
        "schema": SUMMARY,
        "source": _source(recording),
        "coverage": _coverage(report, recording),
        "warnings": [
            {"code": w.code, "count": w.count, "message": w.message, "harmless": w.harmless} for w in recording.warnings
        ],
        "withheld": withheld,
        "measures": {**_measures(report), **dict.fromkeys(withheld)},
        "ops": _ops(report),
        "kernels": _kernels(report),
        "steps": _steps(report),
        "devices": _devices(report),
        "streams": _streams(report),
        "phases": _phases(report),
        "idle": [],
        "ranks": [],
        "findings": [_finding(f, recording, unprofiled_savings(report)) for f in report.findings],
        "verdict": _verdict(report),
    }


def _source(recording: Recording) -> Json:
    source = recording.source
    return {
        "paths": [recording.source.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]],
        "producer": source.producer,
        "torch": recording.torch,
        "rank_ids": [source.rank or 0],
        "world_size": source.world_size,
        "devices": list(source.devices),
        "files": [{"name": file.name, "sha256": file.sha256} for file in source.files],
        "origin_ns": recording.origin_ns,
    }


def _coverage(report: Report, recording: Recording) -> Json:
    c, steps = recording.coverage, report.result("steps")
    return {
        "events_total": c.total,
        "events_used": c.used,
        "events_good": c.used,
        "events_repaired": c.repaired,
        "events_ignored": c.ignored,
        "events_dropped": c.dropped,
        "events_repaired_or_dropped": c.repaired + c.dropped,
        "events_by_cat": dict(sorted(c.by_category.items())),
        "steps_partial": int(steps.rows["partial"].sum()) if steps else 0,
        "window": steps.window if steps else "trace",
        **c.health,
    }


def _measures(report: Report) -> Json:
    recording, gpu, steps = report.recordings[0], report.result("gpu_kernels"), report.result("steps")
    measures: Json = dict(recording.coverage.health)
    if recording.whole_steps is not None and gpu:
        measures["steps_with_complete_gpu_data"] = [_step_number(name) for name in recording.whole_steps]
    if recording.form != "snapshot":
        measures["window_us"] = us(recording.window_ns)
    if steps:
        measures |= _step_measures(steps)
    measures["top_bottleneck"] = _old_bound(report.verdict.bound, on_gpu=gpu is not None)
    if steps:
        measures |= _more_step_measures(report, steps)
    if ranges := report.result("slices"):
        measures |= _range_measures(ranges)
    if (ops := report.result("op_table")) and ops.from_snapshot and ops.step_ns is not None:
        measures |= {"step_count": ops.steps_count, "step_mean_us": us(ops.step_ns)}
    if report.findings:
        measures["saving_upper_bound_us"] = us(report.findings[0].high_ns)
    return measures | (_gpu_measures(gpu.devices) if gpu else {})


def _step_measures(steps: Steps) -> Json:
    return {
        "step_count": steps.count,
        "step_mean_us": us(steps.mean_ns),
        "step_median_us": us(steps.median_ns),
        "step_p95_us": us(steps.p95_ns),
        "step_max_us": us(steps.max_ns),
        "outlier_steps": [_step_number(name) for name in steps.rows.loc[steps.rows["outlier"], "name"]],
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


def _old_bound(bound: str, on_gpu: bool) -> str | None:
    return bound if bound == "compute" and not on_gpu else OLD_BOUNDS.get(bound, bound)


def _unprofiled_measures(recording: Recording, steps: Steps, on_gpu: bool) -> Json:
    manifest = recording.manifest
    assert manifest and steps.unprofiled_ns
    measures: Json = {
        "unprofiled_step_median_us": us(steps.unprofiled_ns),
        "unprofiled_step_count": len(manifest.unprofiled_step_ns),
    }
    if manifest.samples_per_step and not on_gpu:  # on a GPU the host may run ahead: its step time is no throughput
        measures["samples_per_s"] = round(manifest.samples_per_step / steps.unprofiled_ns * 1e9, 3)
    return measures


def _total_self(rows: pd.DataFrame, steps: int) -> pd.Series:
    return rows.groupby("name", sort=False)["self_ns"].sum() * steps


def _step_number(name: str) -> int | str:
    digits = name.rsplit("#", 1)[-1]
    return int(digits) if digits.isdecimal() else name


def _gpu_measures(devices: pd.DataFrame) -> Json:
    columns = {
        "gpu_busy_us": ("busy_ns", us), "gpu_span_us": ("span_ns", us), "kernel_count": ("kernel_count", int),
        "kernel_sum_us": ("kernel_sum_ns", us), "memcpy_count": ("copy_count", int), "memcpy_sum_us": ("copy_sum_ns", us),
        "gpu_busy_pct": ("busy_share", pct), "gpu_idle_us": ("idle_ns", us), "gpu_idle_pct": ("idle_share", pct),
    }  # fmt: skip
    if len(devices) == 1:
        return {name: of(devices[column].iloc[0]) for name, (column, of) in columns.items()}
    ids = [str(device) for device in devices["device"]]
    return {name: dict(zip(ids, map(of, devices[column]), strict=True)) for name, (column, of) in columns.items()}


def _withheld(report: Report) -> dict[str, str]:
    gpu, ops, reason = report.result("gpu_kernels"), report.result("op_table"), report.recordings[0].withheld
    if reason:
        known = ("step_count", "step_mean_us") if ops and ops.step_ns is not None else ()
        legacy = report.result("slices") is not None and report.result("slices").from_cuda_events
        note = {"kernel_count": f"The file holds {LEGACY_NOTE}."} if legacy else {}
        return {name: reason for name in TIMELINE_MEASURES if name not in known} | note
    if gpu is None:
        return {}
    reasons = {"saving_upper_bound_us": GPU_SAVINGS_WITHHELD}
    if gpu.idle_withheld:
        reasons["gpu_idle_us"] = reasons["gpu_idle_pct"] = gpu.idle_withheld
    if gpu.busy_withheld:
        reasons["gpu_busy_pct"] = gpu.busy_withheld
    return reasons


def _ops(report: Report) -> list[Json]:
    table = report.result("op_table")
    if table is None:
        return []
    self_cpu, self_device = max(1, table.self_cpu_ns), max(1, table.self_device_ns)
    rows = table.rows.sort_values("self_cpu_ns", ascending=False, kind="stable").to_dict("records")
    return [
        {
            "name": r["name"],
            "device_type": r["device_type"],
            "is_user_annotation": bool(r["is_user_annotation"]),
            "input_shapes": r["input_shapes"] or None,
            "count": int(r["count"]),
            "self_cpu_us": us(r["self_cpu_ns"]),
            "cpu_us": us(r["cpu_ns"]),
            "self_device_us": us(r["self_device_ns"]),
            "device_us": us(r["device_ns"]),
            "cpu_us_per_call": us(r["cpu_ns"] / r["count"]),
            "device_us_per_call": us(r["device_ns"] / r["count"]),
            "self_cpu_pct": pct(r["self_cpu_ns"] / self_cpu),
            "cpu_pct": pct(r["cpu_ns"] / self_cpu),
            "self_device_pct": pct(r["self_device_ns"] / self_device),
        }
        for r in rows
    ]


def _kernels(report: Report) -> list[Json]:
    gpu = report.result("gpu_kernels")
    if gpu is None:
        return []
    return [
        {
            "name": r["name"],
            "short_name": r["short_name"],
            "cat": r["cat"],
            "kernel_class": r["device_class"],
            "device": int(r["device"]),
            "count": int(r["count"]),
            **{f"{key}_us": us(r[f"{key}_ns"]) for key in ("total", "mean", "min", "max")},
            "share_pct": pct(r["total_share"]),
        }
        for r in gpu.kernels.to_dict("records")
    ]


def _steps(report: Report) -> list[Json]:
    steps = report.result("steps")
    if steps is None:
        return []
    return [
        {
            "index": index,
            "name": r["name"],
            "rank": report.recordings[0].source.rank or 0,
            "phase": r["kind"] or None,
            "start_us": us(r["start_ns"]),
            "step_us": us(r["step_ns"]),
            "partial": bool(r["partial"]),
            "outlier": bool(r["outlier"]),
        }
        for index, r in enumerate(steps.rows.to_dict("records"))
    ]


def _devices(report: Report) -> list[Json]:
    gpu = report.result("gpu_kernels")
    if gpu is None:
        return []
    rank = report.recordings[0].source.rank or 0
    return [
        {
            "device": int(r["device"]), "rank": rank, "gpu_busy_us": us(r["busy_ns"]), "gpu_idle_us": us(r["idle_ns"]),
            "gpu_busy_pct": pct(r["busy_share"]), "gpu_span_us": us(r["span_ns"]), "kernel_count": int(r["kernel_count"]),
            "kernel_sum_us": us(r["kernel_sum_ns"]),
        }
        for r in gpu.devices.to_dict("records")
    ]  # fmt: skip


def _streams(report: Report) -> list[Json]:
    gpu = report.result("gpu_kernels")
    rows = [] if gpu is None else gpu.streams.to_dict("records")
    return [
        {
            "device": r["device"],
            "stream": r["stream"],
            "kernel_count": r["kernel_count"],
            "sum_us": us(r["sum_ns"]),
            "busy_us": us(r["busy_ns"]),
        }
        for r in rows
    ]


def _phases(report: Report) -> list[Json]:
    phases = report.result("phases")
    rows = [] if phases is None else phases.rows.to_dict("records")
    return [{"phase": r["phase"], "us_per_step": us(r["mean_ns"]), "share_pct": pct(r["phase_share"])} for r in rows]


def _finding(finding: Finding, recording: Recording, unprofiled: dict[str, float]) -> Json:
    without = unprofiled.get(finding.id)
    return {
        "id": finding.id,
        "problem": sentence(finding.problem),
        "advice": sentence(finding.advice),
        "saving_us_per_step": us(finding.saving_ns),
        "saving_low_us": us(finding.low_ns),
        "saving_high_us": us(finding.high_ns),
        "saving_unprofiled_us": None if without is None else us(without),
        "confidence": finding.confidence,
        "evidence": [_evidence(e, recording.source.rank or 0) for e in finding.evidence],
    }


def _evidence(evidence: Evidence, rank: int) -> Json:
    in_us = evidence.name.endswith("_ns")
    start, end = evidence.start_ns, evidence.end_ns
    return {
        "label": evidence.label,
        "value": us(evidence.value) if in_us else evidence.value,
        "unit": "us" if in_us else evidence.name.rsplit("_", 1)[-1],
        "rank": rank,
        "start_us": None if start is None else us(start),
        "end_us": None if end is None else us(end),
    }


def _verdict(report: Report) -> Json:
    verdict = report.verdict
    return {
        "bound": verdict.bound,
        "sentence": sentence(verdict.sentence),
        "confidence": verdict.confidence,
        "top": verdict.top,
    }


def difference(report: Report) -> Json:
    """What changed between two runs, per step where that is known."""
    step, totals, comparable = report.result("step_change"), report.result("total_changes"), report.result("comparability")
    reasons = comparable.reasons + (totals.unequal if totals else [])
    return {
        "schema": DIFF,
        "sources": [_source(recording) for recording in report.recordings],
        "comparable": {"comparable": not reasons, "reasons": reasons},
        "steps": _step_counts(step, totals),
        "step": _step_change(step, comparable.comparable) if step else dict.fromkeys(STEP_CHANGE),
        "unprofiled": _unprofiled_change(step) if step else None,
        "rows": sorted(_changed_rows(report), key=lambda row: -abs(row["change_us"])),
        "withheld": {} if step else {"step": " ".join(dict.fromkeys(r.withheld for r in report.recordings if r.withheld))},
        "verdict": _verdict(report),
    }


def _step_counts(step: StepChange | None, totals: TotalChanges | None) -> Json:
    if step:
        return {"base": step.before.count, "new": step.after.count}
    return {"base": totals.before_steps, "new": totals.after_steps} if totals else {"base": None, "new": None}


def _changed_rows(report: Report) -> list[Json]:
    phases, ops, totals = report.result("phase_changes"), report.result("op_changes"), report.result("total_changes")
    return [
        *(_rows("phase", phases.rows) if phases else []),
        *(_rows("op", ops.ops) + _rows("kernel", ops.kernels) if ops else []),
        *(_rows("op", totals.host) + _rows("kernel", totals.device) if totals else []),
    ]


def _step_change(step: StepChange, comparable: bool) -> Json:
    low, high = (step.interval.low, step.interval.high) if step.interval else (math.nan, math.nan)
    return {
        "before_us": us(step.before.mean_ns),
        "after_us": us(step.after.mean_ns),
        "change_us": us(step.change_ns),
        "change_pct": pct(step.change_share),
        "before_median_us": us(step.before.median_ns),
        "after_median_us": us(step.after.median_ns),
        "ci_low_us": us(low),
        "ci_high_us": us(high),
        "speedup": round(step.speedup_ratio, 4),
        **_speedup_interval(step),
        "verdict": step.verdict if comparable else None,
    }


def _speedup_interval(step: StepChange) -> Json:
    interval = step.speedup_interval
    return {} if interval is None else {"speedup_low": round(interval.low, 4), "speedup_high": round(interval.high, 4)}


def _unprofiled_change(step: StepChange) -> Json | None:
    """Mean steps without the profiler; null where a side lacks them."""
    before, after, interval = step.unprofiled_before_ns, step.unprofiled_after_ns, step.unprofiled_interval
    if not before or not after:
        return None
    low, high = (interval.low, interval.high) if interval else (math.nan, math.nan)
    return {
        "before_us": us(before), "after_us": us(after), "change_us": us(after - before), "change_pct": pct(after / before - 1),
        "ci_low_us": us(low), "ci_high_us": us(high),
    }  # fmt: skip


def _rows(kind: str, rows: pd.DataFrame) -> list[Json]:
    return [
        {
            "kind": kind, "name": str(r["name"]), "before_us": us(r["before_ns"]), "after_us": us(r["after_ns"]),
            "change_us": us(r["change_ns"]),
            "ci_low_us": us(r["low_change_ns"]), "ci_high_us": us(r["high_change_ns"]), "status": r["status"],
        }
        for r in rows.to_dict("records")
    ]  # fmt: skip
