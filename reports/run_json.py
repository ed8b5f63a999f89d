"""Report on a run -> the object of its JSON, `longpole.summary/1`."""

import math
from collections import Counter
from typing import Any

import pandas as pd

from ..analyze.analyses.buckets import bucket_name
from ..analyze.device_measures import of_devices
from ..analyze.findings import Evidence, Finding
from ..analyze.loading.trouble import OF_ALL_RANKS, SENTENCES
from .measures import (
    Json,
    across_measures,
    across_withheld,
    json_name,
    measures_of,
    pct,
    section_measures,
    us,
    withheld_of,
)
from .model import Recording, Report
from .prose import sentence

SCHEMA = "longpole.summary/1"
TIME_BY_OP = "device_time_us_by_op"
STEP_TIMES = {
    "busy": "gpu_busy", "idle": "gpu_idle", "compute": "compute", "comm_exposed": "comm_exposed", "copy_exposed": "copy_exposed",
}  # fmt: skip


def summary(report: Report) -> Json:
    """Everything about one run; of several ranks each measure by rank, each row with its rank."""
    whole = _of_rank(report)
    details = [found for one in report.ranks or (report,) for found in _detail(one)]
    whole |= {"detail": details} if details else {}
    if not report.ranks:
        return whole
    by_rank = {other.rank: dict(whole) if other.rank == report.rank else _of_rank(other) for other in report.ranks}
    for key in ("steps", "devices", "streams", "idle"):
        whole[key] = [row for one in by_rank.values() for row in one[key]]
    whole["source"] |= {
        "paths": list(dict.fromkeys(path for one in by_rank.values() for path in one["source"]["paths"])),
        "rank_ids": list(by_rank),
        "explained_rank": report.rank,
        "files": [file for one in ([whole] if report.merged else by_rank.values()) for file in one["source"]["files"]],
    }
    names = dict.fromkeys(name for one in by_rank.values() for name in one["measures"])
    whole["measures"] = {
        name: {key: value for rank, one in by_rank.items() for key, value in _keyed(rank, one["measures"].get(name)).items()}
        for name in names
    }
    if report.merged:
        whole["measures"] |= _of_one_file(report, by_rank)
        whole["source"]["rank_names"] = [other.recordings[0].source.rank_name for other in report.ranks]
    whole["measures"] |= {**across_measures(report), **dict.fromkeys(across_withheld(report))}
    whole["warnings"] = _warnings(report, by_rank)
    whole["ranks"] = [
        {"rank": int(r["rank"]), "window_us": us(r["window_ns"]), "gpu_busy_us": us(r["busy_ns"]), "wait_us": us(r["wait_ns"])}
        for r in report.result("ranks").rows.to_dict("records")
    ]
    return whole


def _of_one_file(report: Report, by_rank: dict[int, Json]) -> Json:
    """What is told once of a file, however many ranks were merged into it: its trouble, and device time by operator."""
    times: Counter[str] = Counter()
    for one in by_rank.values():
        times.update(one["measures"].get(TIME_BY_OP) or {})
    added = {TIME_BY_OP: {name: round(time, 3) for name, time in times.items()}} if times else {}
    return {**report.recordings[0].coverage.health, **added}


def _warnings(report: Report, by_rank: dict[int, Json]) -> list[Json]:
    """Each with its rank; trouble of a bundle, or of a file into which all were merged, is told once, of none."""
    told = [r["warnings"] for r in by_rank.values()]
    of_all = SENTENCES if report.merged else OF_ALL_RANKS
    shared = [w for w in told[0] if w["code"] in of_all and all(w in others for others in told)]
    own = [{**w, "rank": rank} for rank, one in by_rank.items() for w in one["warnings"] if w not in shared]
    return [{**w, "rank": None} for w in shared] + own


def _keyed(rank: int, value: Any) -> Json:
    """By rank; what a rank gives by device: by "rank:device"."""
    by_device = isinstance(value, dict) and value and all(key.isdecimal() for key in value)
    return {f"{rank}:{device}": of for device, of in value.items()} if by_device else {str(rank): value}


def _of_rank(report: Report) -> Json:
    recording, withheld = report.recordings[0], withheld_of(report)
    return {
        "schema": SCHEMA,
        "source": source_of(recording),
        "coverage": _coverage(report, recording),
        "warnings": _warnings_of(recording),
        "withheld": withheld,
        "measures": {**measures_of(report), "together": _together(report), **dict.fromkeys(withheld)},
        "ops": _ops(report),
        "kernels": _kernels(report),
        "steps": _steps(report),
        "devices": _devices(report),
        "streams": _streams(report),
        "phases": _phases(report),
        "idle": _idle(report),
        "ranks": [],
        "findings": [_finding(f, recording) for f in report.findings],
        "verdict": verdict_of(report),
    }


def _detail(report: Report) -> list[Json]:
    """What only the detail pass tells, apart from all else: its times are those of slower steps."""
    found, rank = report.detail, report.rank
    if found is None:
        return []
    if found.recording is None:
        return [{"rank": rank, "missing": found.missing}]
    return [
        {
            "rank": rank,
            "missing": None,
            "sections": [section.name for section in report.shown_sections if report.is_of_detail(section)],
            "source": source_of(found.recording),
            "warnings": _warnings_of(found.recording),
            "withheld": {json_name(name): why for section in found.sections for name, why in section.withheld.items()},
            "measures": section_measures(found.sections),
        }
    ]


def _warnings_of(recording: Recording) -> list[Json]:
    return [{"code": w.code, "count": w.count, "message": w.message, "harmless": w.harmless} for w in recording.warnings]


def source_of(recording: Recording) -> Json:
    """Where a recording comes from."""
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
            "kernel_class": r["kernel_class"],
            "tensor_cores": bool(r["tensor_cores"]),
            "device": int(r["device"]),
            "count": int(r["count"]),
            **{f"{key}_us": us(r[f"{key}_ns"]) for key in ("total", "mean", "min", "max")},
            "share_pct": pct(r["total_share"]),
        }
        for r in gpu.kernels.to_dict("records")
    ]


def _steps(report: Report) -> list[Json]:
    steps, on_gpu = report.result("steps"), report.result("gpu_steps")
    if steps is None:
        return []
    device_times = [] if on_gpu is None else [_device_times(rows) for _, rows in on_gpu.rows.groupby("step")]
    in_buckets = _step_buckets(report)
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
            **(device_times[index] if device_times else {}),
            **({} if in_buckets is None else {"buckets_us": in_buckets.get(index)}),
        }
        for index, r in enumerate(steps.rows.to_dict("records"))
    ]


def _step_buckets(report: Report) -> dict[int, Json] | None:
    """By step, of those that can be told: bucket -> time, of several devices by device."""
    found = report.result("buckets")
    if found is None:
        return None
    rows, steps = found.all_steps.rows, found.all_steps.rows.index.get_level_values("step")
    names = [bucket_name(kind, of) for kind, of in rows.columns]
    by_device = rows.set_axis(names, axis=1).droplevel("step").map(us)
    return {
        step: of_devices({str(d): times.to_dict() for d, times in by_device[steps == step].iterrows()}) for step in steps.unique()
    }


def _device_times(rows: pd.DataFrame) -> Json:
    """Of one step; of several devices each value by device."""
    of = rows.set_index(rows["device"].astype(str))
    times = {f"{name}_us": of_devices(of[f"{column}_ns"].map(us).to_dict()) for column, name in STEP_TIMES.items()}
    return times | {"kernel_count": of_devices({device: _count(n) for device, n in of["kernel_count"].items()})}


def _count(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _idle(report: Report) -> list[Json]:
    found, rank = report.result("idle_causes"), report.recordings[0].source.rank or 0
    rows = [] if found is None else found.rows.to_dict("records")
    return [
        {"cause": r["cause"], "us": us(r["idle_ns"]), "share_pct": pct(r["idle_share"]), "device": int(r["device"]), "rank": rank}
        for r in rows
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
            "kernel_sum_us": us(r["kernel_sum_ns"]), "compute_union_us": us(r["compute_ns"]),
            "comm_union_us": us(r["comm_ns"]), "copy_union_us": us(r["copy_ns"]), "overlap_us": us(r["overlap_ns"]),
            "comm_exposed_us": us(r["comm_exposed_ns"]), "copy_exposed_us": us(r["copy_exposed_ns"]),
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
            "gap_us": us(r["gap_ns"]),
        }
        for r in rows
    ]


def _phases(report: Report) -> list[Json]:
    phases = report.result("phases")
    rows = [] if phases is None else phases.rows.to_dict("records")
    return [{"phase": r["phase"], "us_per_step": us(r["mean_ns"]), "share_pct": pct(r["phase_share"])} for r in rows]


def _finding(finding: Finding, recording: Recording) -> Json:
    without = finding.saving_unprofiled_ns
    return {
        "id": finding.id,
        "title": sentence(finding.title),
        "problem": sentence(finding.problem),
        "advice": sentence(finding.advice),
        "saving_us_per_step": us(finding.saving_ns),
        "saving_low_us": us(finding.low_ns),
        "saving_high_us": us(finding.high_ns),
        "saving_unprofiled_us": None if without is None else us(without),
        "confidence": finding.confidence,
        "changes": list(finding.changes),
        "assumes": list(finding.assumes),
        "evidence": [_evidence(e, recording.source.rank or 0) for e in finding.evidence],
    }


def _evidence(evidence: Evidence, rank: int) -> Json:
    in_us = evidence.name.endswith("_ns")
    start, end = evidence.start_ns, evidence.end_ns
    return {
        "label": evidence.label,
        "value": us(evidence.value) if in_us else evidence.value,
        "unit": "us" if in_us else evidence.name.rsplit("_", 1)[-1],
        "rank": rank if evidence.rank is None else evidence.rank,
        "start_us": None if start is None else us(start),
        "end_us": None if end is None else us(end),
    }


def _together(report: Report) -> list[Json]:
    """The predicted step with the first two, and the first three, findings fixed at once."""
    return [
        {
            "ids": list(t.ids), "step_us": us(t.step_ns), "step_after_us": us(t.after_ns), "step_after_low_us": us(t.least_ns),
            "step_after_high_us": us(t.most_ns),
        }
        for t in report.together
    ]  # fmt: skip


def verdict_of(report: Report) -> Json:
    """The one sentence, and what it rests on."""
    verdict = report.verdict
    return {
        "bound": verdict.bound,
        "sentence": sentence(verdict.sentence),
        "confidence": verdict.confidence,
        "top": verdict.top,
    }
