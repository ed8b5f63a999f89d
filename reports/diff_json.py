"""Report on two runs -> the object of its JSON, `longpole.diff/1`."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..analyze.diffs.call_changes import CallChanges
from ..analyze.diffs.changes import ADDED, REMOVED
from ..analyze.diffs.fates import Fate
from ..analyze.diffs.op_changes import OpChanges
from ..analyze.diffs.outcome import Comparison, Outcome
from ..analyze.diffs.outcome_text import outcome_text
from ..analyze.diffs.step_change import StepChange
from ..analyze.diffs.total_changes import TotalChanges
from ..analyze.findings import Verdict
from .measures import Json, json_name, pct, told, us
from .model import Report
from .prose import sentence
from .run_json import source_of, verdict_of

SCHEMA = "longpole.diff/1"
STEP_CHANGE = (
    "before_us", "after_us", "change_us", "change_pct", "before_median_us", "after_median_us", "ci_low_us", "ci_high_us",
    "speedup", "verdict", "unit",
)  # fmt: skip
BYTES = ("before_bytes", "after_bytes", "change_bytes", "ci_low_bytes", "ci_high_bytes")
MEMORY_COLUMNS = ("before_bytes", "after_bytes", "change_bytes", "low_change_bytes", "high_change_bytes")


def difference(report: Report) -> Json:
    """What changed between two runs, per step where that is known."""
    step, totals, comparable = report.result("step_change"), report.result("total_changes"), report.result("comparability")
    reasons = comparable.reasons + (totals.unequal if totals else [])
    return {
        "schema": SCHEMA,
        "sources": [source_of(recording) for side in report.sides for recording in side],
        "comparable": {"comparable": not reasons, "reasons": reasons},
        "compared_anyway": report.anyway,
        "runs": dict(zip(("base", "new"), map(len, report.sides), strict=True)),
        "steps": _step_counts(step, totals),
        "left_out": _left_out(step) if step else None,
        "step": _step_change(step, report.told) if step else dict.fromkeys(STEP_CHANGE),
        "unprofiled": _unprofiled_change(step) if step else None,
        "rows": [*sorted(_changed_rows(report), key=lambda row: -abs(row["change_us"])), *_memory_rows(report)],
        "device_time_by_op": _by_op(report.result("op_changes")),
        "calls": _calls(report.result("call_changes")),
        **_outcome(report.result("outcome")),
        "withheld": {} if step else {"step": " ".join(dict.fromkeys(r.withheld for r in report.recordings if r.withheld))},
        "verdict": verdict_of(report),
        "now": _now(report.now) if report.now else None,
    }


def _now(verdict: Verdict) -> Json:
    """What limits the step of the second side, with the figures of the sentence."""
    figures = {json_name(name): told(name, value) for name, value in verdict.sentence.values.items()}
    return {"bound": verdict.bound, "sentence": sentence(verdict.sentence), "figures": figures}


def _step_counts(step: StepChange | None, totals: TotalChanges | None) -> Json:
    if step:
        return {"base": step.before.count, "new": step.after.count}
    return {"base": totals.before_steps, "new": totals.after_steps} if totals else {"base": None, "new": None}


def _changed_rows(report: Report) -> list[Json]:
    phases, ops, totals = report.result("phase_changes"), report.result("op_changes"), report.result("total_changes")
    modules = report.result("module_changes")
    return [
        *(_rows("phase", phases.rows) if phases else []),
        *(_rows("op", ops.ops) + _rows("kernel", ops.kernels) if ops else []),
        *([row | {"time": modules.time} for row in _rows("module", modules.rows)] if modules else []),
        *(_rows("op", totals.host) + _rows("kernel", totals.device) if totals else []),
    ]


def _memory_rows(report: Report) -> list[Json]:
    """The same in bytes, the largest change first."""
    if (memory := report.result("memory_changes")) is None:
        return []
    return [
        {
            "kind": "memory", "name": r["name"],
            **{told: _bytes(r[column]) for told, column in zip(BYTES, MEMORY_COLUMNS, strict=True)},
            "status": r["status"],
        }
        for r in memory.rows.to_dict("records")
    ]  # fmt: skip


def _bytes(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)


def _step_change(step: StepChange, comparable: bool) -> Json:
    low, high = (step.interval.low, step.interval.high) if step.interval else (math.nan, math.nan)
    return {
        "before_us": us(step.before_ns),
        "after_us": us(step.after_ns),
        "change_us": us(step.change_ns),
        "change_pct": pct(step.change_share),
        "before_median_us": us(step.before_median_ns),
        "after_median_us": us(step.after_median_ns),
        **_median_interval(step),
        "ci_low_us": us(low),
        "ci_high_us": us(high),
        "speedup": round(step.speedup_ratio, 4),
        **_speedup_interval(step),
        "unit": step.unit,
        "verdict": step.verdict if comparable else None,
    }


def _median_interval(step: StepChange) -> Json:
    interval = step.median_interval
    return {} if interval is None else {"median_ci_low_us": us(interval.low), "median_ci_high_us": us(interval.high)}


def _speedup_interval(step: StepChange) -> Json:
    speedup, share = step.speedup_interval, step.share_interval
    if speedup is None or share is None:
        return {}
    return {
        "speedup_low": round(speedup.low, 4), "speedup_high": round(speedup.high, 4),
        "ci_low_pct": pct(share.low), "ci_high_pct": pct(share.high),
    }  # fmt: skip


def _left_out(step: StepChange) -> Json:
    """Steps that take no part in the comparison, and why."""
    return {
        side: [{"name": one.name, "why": one.why} for one in steps]
        for side, steps in zip(("base", "new"), step.left_out, strict=True)
    }


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
    return [{"kind": kind, "name": str(r["name"]), **_change(r), **_names(r), **_counts(r)} for r in rows.to_dict("records")]


def _change(row: Mapping[Any, Any]) -> Json:
    return {
        "before_us": us(row["before_ns"]), "after_us": us(row["after_ns"]), "change_us": us(row["change_ns"]),
        "ci_low_us": us(row["low_change_ns"]), "ci_high_us": us(row["high_change_ns"]), "status": row["status"],
    }  # fmt: skip


def _names(row: Mapping[Any, Any]) -> Json:
    """What each side calls it. Phases have one name."""
    sides = {"names_before": () if row["status"] == ADDED else (row["name"],)}
    sides |= {"names_after": () if row["status"] == REMOVED else (row["name"],)}
    return {side: list(row.get(side, names)) for side, names in sides.items()}


def _counts(row: Mapping[Any, Any]) -> Json:
    """How often a step launches it."""
    sides = [side for side in ("before_count", "after_count") if side in row]
    return {side: None if math.isnan(row[side]) else round(row[side], 3) for side in sides}


def _by_op(ops: OpChanges | None) -> list[Json]:
    """Time of device work by the operator that called for it, with the kernels that one side lacks there."""
    if ops is None:
        return []
    return [
        {
            "name": r["name"], **_change(r), **_names(r),
            "kernels_removed": list(r["kernels_removed"]), "kernels_added": list(r["kernels_added"]),
        }
        for r in ops.device.to_dict("records")
    ]  # fmt: skip


def _calls(found: CallChanges | None) -> list[Json]:
    """The lowest calls that explain the change of the step; their changes add up to it."""
    if found is None:
        return []
    return [
        {
            "name": r["name"], "path": list(r["path"]), "was": r["was"] or None, **_change(r),
            "before_self_us": us(r["before_self_ns"]), "after_self_us": us(r["after_self_ns"]),
            "self_change_us": us(r["self_change_ns"]),
            "inside": [{"name": name, "change_us": us(ns)} for name, ns in r["inside"]],
        }
        for r in found.rows.to_dict("records")
    ]  # fmt: skip


def _outcome(found: Outcome | None) -> Json:
    """What became of each finding; and what those that are gone were predicted to save beside what was measured."""
    if found is None:
        return {"findings": [], "outcome": None}
    told = {
        "ids": [fate.finding.id for fate in found.gone],
        "word": found.word,
        "sentence": sentence(outcome_text(found)),
        "profiled": _comparison(found.profiled),
        "unprofiled": _comparison(found.unprofiled),
        "phase_change_us": None if found.phase_change_ns is None else us(found.phase_change_ns),
    }
    return {"findings": [_fate(fate) for fate in found.fates], "outcome": told}


def _fate(fate: Fate) -> Json:
    before, after = fate.before if fate.before and fate.before.saves else None, fate.after
    without = before.saving_unprofiled_ns if before else None
    return {
        "id": fate.finding.id,
        "status": fate.status,
        "predicted_us": us(before.saving_ns) if before else None,
        "predicted_low_us": us(before.low_ns) if before else None,
        "predicted_high_us": us(before.high_ns) if before else None,
        "predicted_unprofiled_us": None if without is None else us(without),
        "saving_now_us": us(after.saving_ns) if after and after.saves else None,
    }


def _comparison(compared: Comparison | None) -> Json | None:
    """Savings per step: predicted (null where nothing was, of several together), and measured, of the whole step."""
    if compared is None:
        return None
    predicted, interval = compared.predicted, compared.interval
    return {
        "predicted_us": us(predicted.expected_ns) if predicted else None,
        "predicted_low_us": us(predicted.low_ns) if predicted else None,
        "predicted_high_us": us(predicted.high_ns) if predicted else None,
        "measured_us": us(compared.measured_ns),
        "ci_low_us": us(interval.low) if interval else None,
        "ci_high_us": us(interval.high) if interval else None,
        "word": compared.word,
    }
