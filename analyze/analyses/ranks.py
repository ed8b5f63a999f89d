"""How do the ranks of a run differ in step time and busy time?"""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import TypeVar

import pandas as pd

from ...capture.errors import MissingData
from ..trace import Trace
from .gpu_kernels import gpu_kernels
from .steps import steps

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Ranks:
    """`rows`: one a rank, in their order: rank; file; window_ns; steps_count; mean_ns (of a step), busy_ns (sum over its GPUs),
    events_count. NaN where a rank has no such thing. `missing`: ranks that the files speak of and that were not given.
    """

    rows: pd.DataFrame
    missing: tuple[int, ...]


def ranks(*traces: Trace) -> Ranks:
    """Each rank's own figures; who waits for whom in a collective is not told here."""
    rows = pd.DataFrame([_row(trace) for trace in traces])
    world = max((trace.source.world_size or 0 for trace in traces), default=0)
    return Ranks(rows, tuple(sorted(set(range(world)) - set(rows["rank"].astype(int)))))


def _row(trace: Trace) -> dict[str, object]:
    counted = _or_none(steps, trace)
    gpu = _or_none(gpu_kernels, trace)
    return {
        "rank": str(trace.source.rank or 0),
        "file": trace.source.files[0].name,
        "window_ns": trace.window_ns,
        "steps_count": counted.count if counted else 0,
        "mean_ns": counted.mean_ns if counted else nan,
        "busy_ns": float(gpu.devices["busy_ns"].sum()) if gpu else nan,
        "events_count": trace.coverage.total,
    }


def _or_none(analysis: Callable[[Trace], _Result], trace: Trace) -> _Result | None:
    try:
        return analysis(trace)
    except MissingData:
        return None
