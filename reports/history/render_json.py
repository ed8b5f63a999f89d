"""HistoryReport -> the object of its JSON, `longpole.history/1`. Runs count from 1; times are microseconds."""

import json

from ...analyze.change_points import CHANCE, LEAST_RUNS, ChangePoint, Drift
from ...analyze.history import HistoryRun
from ...analyze.measured import STEP
from ..measures import Json, pct, us
from ..prose import sentence
from .model import HistoryReport

SCHEMA = "longpole.history/1"


def render_json(report: HistoryReport) -> bytes:
    """Indented UTF-8 JSON; never NaN or infinity."""
    return (json.dumps(_content(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _content(report: HistoryReport) -> Json:
    found, verdict = report.found, report.verdict
    return {
        "schema": SCHEMA,
        "verdict": {
            "tag": verdict.tag, "sentence": sentence(verdict.sentence), "lede": sentence(verdict.lede),
            "notes": [sentence(note) for note in verdict.notes],
        },
        "order": "captured_at" if found.by_time else "given",
        "chance_pct": pct(CHANCE),
        "least_runs": LEAST_RUNS,
        "spread_pct": None if found.spread_share is None else pct(found.spread_share),
        "memory": found.memory,
        "repeated": list(found.repeated),
        "runs": [_run(number, run) for number, run in enumerate(found.runs, 1)],
        "stretches": [{"first": first + 1, "last": after, "told": found.told(STEP, first)} for first, after in found.stretches],
        "breaks": [{"run": broken.at + 1, "reasons": list(broken.reasons)} for broken in found.breaks],
        "changes": [{**_change(point), "differences": list(found.differences[point.at])} for point in found.changes.points],
        "drifts": [_drift(drift) for drift in found.changes.drifts],
    }  # fmt: skip


def _run(number: int, run: HistoryRun) -> Json:
    reach = run.interval
    return {
        "run": number, "name": run.name, "captured_at": run.captured_at, "commit": run.commit, "steps": run.steps_count,
        "step_us": us(run.step_ns),
        "ci_low_us": us(reach.low) if reach else None, "ci_high_us": us(reach.high) if reach else None,
        "unprofiled_step_us": None if run.unprofiled_ns is None else us(run.unprofiled_ns),
        "peak_bytes": None if run.peak_bytes is None else round(run.peak_bytes, 3),
    }  # fmt: skip


def _change(point: ChangePoint) -> Json:
    reach = point.interval
    return {
        "metric": point.metric, "run": point.at + 1, "earliest_run": point.earliest + 1, "latest_run": point.latest + 1,
        "before_runs": point.at - point.first, "after_runs": point.after - point.at,
        "before": _value(point.metric, point.before_mean), "after": _value(point.metric, point.after_mean),
        "change_pct": pct(point.change_share),
        "ci_low_pct": pct(reach.low) if reach else None, "ci_high_pct": pct(reach.high) if reach else None,
        "p": point.chance, "or_drift": point.or_drift,
    }  # fmt: skip


def _drift(drift: Drift) -> Json:
    return {
        "metric": drift.metric, "first_run": drift.first + 1, "last_run": drift.after,
        "begin": _value(drift.metric, drift.begin_mean), "end": _value(drift.metric, drift.end_mean),
        "change_pct": pct(drift.change_share), "p": drift.chance,
    }  # fmt: skip


def _value(metric: str, mean: float) -> float | None:
    """In the metric's unit."""
    return us(mean) if metric == STEP else round(mean, 3)
