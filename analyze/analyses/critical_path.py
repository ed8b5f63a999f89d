"""What does a step wait for, one thing after the other, from the end of the step before it to its own?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..durations import repaired_work
from ..grouping import group_sums
from ..replay import critical_path as replay
from ..replay.graph import graph
from ..replay.quality import Quality, quality
from ..replay.steps import step_of_work
from ..short_names import short_name
from ..trace import Trace

ON_PATH_SHARE = 0.5  # of a name's own time: with less of it on the path, making it shorter saves less than half of what it takes


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Means of the steps that a replay tells of, each from the completion of the step before it to its own.

    `bounds`: bound; path_ns, path_share (of the step), the longest first; they add up to `step_ns`.
    `names`: what lies on the path, by path_ns: name; short_name; kind (device, host); path_ns, path_share; total_ns (all of
    that name in the same steps, on the path or not; NaN for host time).
    `off_path`: kernels and copies that take long and are not what the step waits for, by total_ns: name; short_name; total_ns,
    path_ns (per step); least_slack_ns (how much longer the one with the least slack could take without delaying any step).
    """

    bounds: pd.DataFrame
    names: pd.DataFrame
    off_path: pd.DataFrame
    step_ns: float
    steps_count: int
    quality: Quality


def critical_path(trace: Trace) -> CriticalPath:
    """Of the kept steps of the replay's graph."""
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work: a step on one thread waits for each of its parts in turn.")
    steps = graph(trace).steps
    if steps.empty:
        raise MissingData("No step of the trace is whole, so that there is no path through one.")
    found, step_ns = replay.critical_path(trace), float(steps["measured_ns"].mean())
    mean = found.bounds.mean()
    bounds = pd.DataFrame({"bound": mean.index, "path_ns": mean.to_numpy(), "path_share": mean.to_numpy() / max(1.0, step_ns)})
    bounds = bounds[bounds["path_ns"] > 0].sort_values("path_ns", ascending=False, kind="stable", ignore_index=True)
    names = _names(trace, found, step_ns)
    return CriticalPath(bounds, names, _off_path(trace, found, names), step_ns, len(steps), quality(trace))


def _names(trace: Trace, found: replay.CriticalPath, step_ns: float) -> pd.DataFrame:
    rows = found.on_path.merge(_totals(trace), on=["name", "kind"], how="left")
    short = [short_name(name) if kind == "device" else name for name, kind in zip(rows["name"], rows["kind"], strict=True)]
    return pd.DataFrame({
        "name": rows["name"], "short_name": short, "kind": rows["kind"], "path_ns": rows["ns"],
        "path_share": rows["ns"] / max(1.0, step_ns), "total_ns": rows["total_ns"],
    })  # fmt: skip


def _totals(trace: Trace) -> pd.DataFrame:
    """name, kind, total_ns: device work of the kept steps, per step."""
    steps, trace = graph(trace).steps["row"].to_numpy(), graph(trace).trace
    work = repaired_work(trace)
    own = np.flatnonzero(np.isin(step_of_work(trace), steps))
    name_of, names = pd.factorize(np.array(trace.names, object))
    sums = group_sums(name_of[work.name[own]], work.end_ns[own] - work.start_ns[own], len(names))
    kinds = np.flatnonzero(sums)
    return pd.DataFrame({"name": names[kinds], "kind": "device", "total_ns": sums[kinds] / max(1, len(steps))})


def _off_path(trace: Trace, found: replay.CriticalPath, names: pd.DataFrame) -> pd.DataFrame:
    """Device work of which less than ON_PATH_SHARE lies on the path."""
    rows = _totals(trace).merge(names[["name", "kind", "path_ns"]], on=["name", "kind"], how="left").fillna({"path_ns": 0.0})
    rows = rows.merge(found.slack_by_name(graph(trace).trace)[["name", "least_slack_ns"]], on="name", how="left")
    rows = rows[rows["path_ns"] < ON_PATH_SHARE * rows["total_ns"]]
    rows = rows.sort_values(["total_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)
    rows["short_name"] = [short_name(name) for name in rows["name"]]
    return rows[["name", "short_name", "total_ns", "path_ns", "least_slack_ns"]]
