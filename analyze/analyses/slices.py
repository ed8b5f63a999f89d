"""Which named ranges did another tool record, and how long did they take: on devices, on threads, asynchronously?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..forms import LEGACY
from ..intervals import innermost, length, union
from ..trace import Ints, Slices, Trace


@dataclass(frozen=True, eq=False)
class SliceTimes:
    """What can be told of any trace: durations by name, and when at least one device works.

    `device`: one per name on a device, by total: name; count; total_ns; mean_ns; max_ns; total_share (of the sum of total_ns).
    `host`: one per name on a thread, by self time: name; count; total_ns (a range inside one of its name counts at both
    levels); self_ns (while it is the innermost of its thread); self_share (of the covered time of all threads).
    `asynchronous`: as `device`, of ranges that begin and end anywhere; they are no part of a thread's self time.
    """

    producer: str
    window_ns: int
    device_busy_ns: int  # union over all devices and their streams
    threads_count: int  # with host ranges
    device: pd.DataFrame
    host: pd.DataFrame
    asynchronous: pd.DataFrame

    @property
    def device_busy_share(self) -> float | None:
        """Of the window; None where the trace has no range on a device: that says nothing about devices."""
        return self.device_busy_ns / self.window_ns if len(self.device) and self.window_ns else None

    @property
    def device_events(self) -> int:
        return int(self.device["count"].sum())

    @property
    def ranges_count(self) -> int:
        return sum(int(rows["count"].sum()) for rows in (self.device, self.host, self.asynchronous))

    @property
    def names_count(self) -> int:
        return len({name for rows in (self.device, self.host, self.asynchronous) for name in rows["name"]})

    @property
    def from_cuda_events(self) -> bool:
        """Device time is that of CUDA events around operators: neither kernels nor streams were recorded."""
        return self.producer == LEGACY


def slices(trace: Trace) -> SliceTimes:
    """Times by name of another tool's ranges; MissingData for a trace of torch.profiler."""
    if not len(trace.slices):
        raise MissingData("The trace holds no ranges of another tool; the sections on operators and kernels say what it holds.")
    host, device, asynchronous = (
        trace.slices[trace.slices.kind == kind] for kind in (t.HOST_SLICE, t.DEVICE_SLICE, t.ASYNC_SLICE)
    )
    return SliceTimes(
        producer=trace.source.producer,
        window_ns=trace.window_ns,
        device_busy_ns=length(*union(device.start_ns, device.end_ns)),
        threads_count=len(np.unique(host.thread)),
        device=_totals(trace, device),
        host=_host(trace, host),
        asynchronous=_totals(trace, asynchronous),
    )


def _totals(trace: Trace, part: Slices) -> pd.DataFrame:
    frame = pd.DataFrame({"row": part.name, "ns": part.end_ns - part.start_ns})
    rows = frame.groupby("row", sort=False)["ns"].agg(["count", "sum", "mean", "max"]).reset_index()
    return _ranked(pd.DataFrame({
        "name": _names(trace, rows["row"]),
        "count": rows["count"],
        "total_ns": rows["sum"],
        "mean_ns": rows["mean"],
        "max_ns": rows["max"],
        "total_share": rows["sum"] / max(1, int(rows["sum"].sum())),
    }), "total_ns")  # fmt: skip


def _host(trace: Trace, part: Slices) -> pd.DataFrame:
    frame = pd.DataFrame({"row": part.name, "count": 1, "total_ns": part.end_ns - part.start_ns, "self_ns": _self_ns(part)})
    rows = frame.groupby("row", sort=False).sum().reset_index()
    return _ranked(pd.DataFrame({
        "name": _names(trace, rows["row"]),
        "count": rows["count"],
        "total_ns": rows["total_ns"],
        "self_ns": rows["self_ns"],
        "self_share": rows["self_ns"] / max(1, int(rows["self_ns"].sum())),
    }), "self_ns")  # fmt: skip


def _self_ns(part: Slices) -> Ints:
    """For each range the time in which it is the innermost of its thread."""
    total = np.zeros(len(part), np.int64)
    by_thread = np.argsort(part.thread, kind="stable")
    borders = np.flatnonzero(np.diff(part.thread[by_thread])) + 1
    for rows in np.split(by_thread, borders):
        pieces = innermost(part.start_ns[rows], part.end_ns[rows])
        np.add.at(total, rows[pieces.owner], pieces.end - pieces.start)
    return total


def _names(trace: Trace, rows: pd.Series) -> pd.Series:
    return pd.Series([str(trace.names[row]) for row in rows], index=rows.index, dtype=object)


def _ranked(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    return rows.sort_values([by, "name"], ascending=[False, True], kind="stable", ignore_index=True)
