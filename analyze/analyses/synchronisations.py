"""Where does the host wait for the GPU?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..callers import Calls, calling_line, calling_op
from ..device_measures import by_device
from ..durations import repaired_work
from ..intervals import covered, length, union
from ..launches import clock_offset, hidden_in_graphs, missing_work
from ..step_time import OUTSIDE_LABEL
from ..syncs import Syncs, are_calls, syncs
from ..trace import DeviceRanges, Ids, Ints, Trace

DURING_NS, DURING_SHARE = "gpu_busy_during_sync_ns", "gpu_busy_during_sync_share"
AFTER_NS = "gpu_idle_after_sync_ns"


@dataclass(frozen=True, eq=False)
class Synchronisations:
    """Runtime and driver calls with `Synchronize` in their names; `from_marks`: cuda_sync rows, as the file has no such call.

    `rows`: one per (op, line, call), by idle_ns, then total_ns: op (innermost operator around the call, OUTSIDE_LABEL without
    one); line (innermost Python function around it that is not torch's own, "" where no stacks were recorded); call (its name);
    count; total_ns; idle_ns (as in `devices`, of all devices added up; NaN where it cannot be told).
    `devices`: device; busy_ns (its work while a call runs); busy_share (of the time in which at least one call runs); idle_ns
    (no work from the end of a call to the next start of work, each instant once, for the last call that ended; where no work
    follows, nothing).
    """

    rows: pd.DataFrame
    devices: pd.DataFrame
    from_marks: bool
    withheld: Mapping[str, str]
    lower_bound: str | None  # why more device work may have run during the calls than the file tells

    @property
    def count(self) -> int:
        return int(self.rows["count"].sum())

    @property
    def total_ns(self) -> int:
        """Sum of the calls."""
        return int(self.rows["total_ns"].sum())

    @property
    def measures(self) -> dict[str, Any]:
        by_op = self.rows.groupby("op", sort=False)
        columns = {DURING_NS: "busy_ns", DURING_SHARE: "busy_share", AFTER_NS: "idle_ns"}
        return {
            "sync_count": self.count,
            "sync_ns": self.total_ns,
            "sync_by_op": by_op["count"].sum().to_dict(),
            "sync_by_op_ns": by_op["total_ns"].sum().to_dict(),
            **by_device(self.devices, {name: column for name, column in columns.items() if name not in self.withheld}),
        }


def synchronisations(trace: Trace) -> Synchronisations:
    """Calls that wait for the GPU, who made them, and what the GPU did during and after them."""
    waits = syncs(trace)
    if not len(waits) and not (trace.host.category == t.RUNTIME).any():
        raise MissingData("The trace holds no runtime calls; on a GPU machine capture with CUDA activity on.")
    offset, hidden, missing = clock_offset(trace), hidden_in_graphs(trace), missing_work(trace)
    devices = np.unique(trace.device.device) if len(waits) else []
    withheld = _withheld(offset, hidden, missing) if len(devices) else {}
    works = {int(device): repaired_work(trace)[trace.device.device == device] for device in devices}
    idle = {device: idle_after(waits.end_ns, work.start_ns, work.end_ns) for device, work in works.items()}
    during = [{"device": d, **_during(waits, work), "idle_ns": int(idle[d].sum())} for d, work in works.items()]
    return Synchronisations(
        rows=_rows(trace, waits, np.add.reduce(list(idle.values())) if idle and AFTER_NS not in withheld else None),
        devices=pd.DataFrame(during, columns=["device", "busy_ns", "busy_share", "idle_ns"]),
        from_marks=bool(len(waits)) and not are_calls(trace),
        withheld=withheld,
        lower_bound=None if offset else hidden or missing,
    )


def _withheld(offset: str | None, hidden: str | None, missing: str | None) -> dict[str, str]:
    """Two clocks spoil every comparison of calls with device work; missing work only what rests on its absence."""
    if offset:
        return dict.fromkeys((DURING_NS, DURING_SHARE, AFTER_NS), offset)
    if hidden:
        return dict.fromkeys((DURING_SHARE, AFTER_NS), hidden)
    return {AFTER_NS: missing} if missing else {}


def _during(waits: Syncs, work: DeviceRanges) -> dict[str, float]:
    """What the device does while at least one call runs."""
    low, high = union(waits.start_ns, waits.end_ns)
    busy, total = int(covered(*union(work.start_ns, work.end_ns), low, high).sum()), length(low, high)
    return {"busy_ns": busy, "busy_share": busy / total if total else float("nan")}


def idle_after(moment: Ints, start: Ints, end: Ints) -> Ints:
    """For each moment, the time without work from then to the next start of work or, if that is sooner, to the next moment."""
    order = np.argsort(moment, kind="stable")
    low, starts = moment[order], np.sort(start)
    next_start = np.append(starts, -1)[np.searchsorted(starts, low)]
    high = np.maximum(low, np.minimum(next_start, np.append(low[1:], np.iinfo(np.int64).max)[: len(low)]))
    idle = np.empty_like(moment)
    idle[order] = high - low - covered(*union(start, end), low, high)
    return idle


def _rows(trace: Trace, waits: Syncs, idle: Ints | None) -> pd.DataFrame:
    calls = Calls(waits.start_ns, waits.thread, waits.external_id)
    calls_of = pd.DataFrame({
        "op": _text(trace, calling_op(trace, calls), OUTSIDE_LABEL),
        "line": _text(trace, calling_line(trace, calls), ""),
        "call": _text(trace, waits.name, ""),
        "total_ns": waits.end_ns - waits.start_ns,
        "idle_ns": float("nan") if idle is None else idle,
    })  # fmt: skip
    grouped = calls_of.groupby(["op", "line", "call"], sort=False)
    rows = grouped.agg(count=("total_ns", "size"), total_ns=("total_ns", "sum"), idle_ns=("idle_ns", "sum")).reset_index()
    if idle is None:
        rows["idle_ns"] = float("nan")
    by = ["idle_ns", "total_ns", "op", "line", "call"]
    return rows.sort_values(by, ascending=[False, False, True, True, True], kind="stable", ignore_index=True)


def _text(trace: Trace, name: Ids, without: str) -> list[str]:
    """Rows of Trace.names as text; `without`: for -1."""
    return [str(trace.names[row]) if row >= 0 else without for row in name]
