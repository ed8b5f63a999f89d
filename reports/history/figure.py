"""HistoryReport -> the chart of its page: a lane for the step, and one for memory where that was recorded."""

import math

from ...analyze.change_points import ChangePoint, Drift
from ...analyze.history import History, HistoryRun
from ...analyze.history_verdict import run_label
from ...analyze.measured import DEVICE_MEMORY, STEP
from .. import formats as f
from ..charts import Chart, Jump, Level, RunBreak, RunDot, RunLane, levels
from ..svg import Medium
from .lines import captured


def history_chart(found: History, medium: Medium) -> Chart:
    """Over all runs, at any number of them."""
    lanes = [_lane(found, STEP, "Mean step", "step_ns")]
    if found.memory:
        whose = "GPUs" if found.memory == DEVICE_MEMORY else "host"
        lanes.append(_lane(found, found.memory, f"Peak memory of the {whose}", "peak_bytes"))
    breaks = [RunBreak(broken.at, ", ".join(broken.facts)) for broken in found.breaks]
    ends = (captured(found.runs[0]), captured(found.runs[-1])) if found.by_time and len(found.runs) > 1 else None
    return levels(medium, lanes, breaks, ends, id="history")


def _lane(found: History, metric: str, label: str, name: str) -> RunLane:
    dots = tuple(_dot(found, row, run, metric) for row, run in enumerate(found.runs))
    jumps = tuple(_jump(point) for point in found.changes.points if point.metric == metric)
    drifts = {drift.first: drift for drift in found.changes.drifts if drift.metric == metric}
    stretches = [(s.first, s.after) for s in found.changes.segments if s.metric == metric]
    told = [_level(dots, first, after, drifts.get(first)) for first, after in stretches]
    return RunLane(label, name, dots, tuple(level for level in told if level), jumps)


def _dot(found: History, row: int, run: HistoryRun, metric: str) -> RunDot | None:
    label = run_label(found, row)
    if metric != STEP:
        return None if run.peak_bytes is None else RunDot(label, run.peak_bytes)
    reach = run.interval
    return RunDot(label, run.step_ns, reach.low if reach else None, reach.high if reach else None)


def _level(dots: tuple[RunDot | None, ...], first: int, after: int, drift: Drift | None) -> Level | None:
    """None of what no run of the stretch recorded."""
    if drift:
        return Level(first, after, drift.begin_mean, drift.end_mean)
    known = [dot.value for dot in dots[first:after] if dot]
    mean = math.fsum(known) / len(known) if known else 0.0
    return Level(first, after, mean, mean) if known else None


def _jump(point: ChangePoint) -> Jump:
    fill = "bad" if point.change_share > 0 else "good"
    return Jump(point.at, f.share(point.change_share, sign=True), fill, point.earliest, point.latest)
