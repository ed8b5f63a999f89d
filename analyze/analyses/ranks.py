"""How do the ranks of a run differ in step time and busy time, and who waits for whom in collectives?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..durations import repaired_work
from ..findings import NOTABLE_SHARE, Finding, Text
from ..intervals import length, union
from ..short_names import short_name
from ..stragglers import exposed_waits, finding, straggler, without_spinning
from ..trace import Trace
from ..waiting import Calls, calls_of
from .gpu_kernels import GpuKernels, gpu_kernels
from .steps import steps

_Result = TypeVar("_Result")
WAIT_MEASURES = ("collective_min_ns", "wait_ns", "late_rank", "late_by_ns")
GPU_WAIT_MEASURES = ("useful_busy_share", "late_rank_extra_compute_ns")


@dataclass(frozen=True)
class Late:
    """The rank that the others wait for, beside the one that waits most."""

    rank: str
    by_ns: int  # how much longer that one waits, all calls together
    waiting_rank: str
    extra_compute_ns: float  # how much longer the late rank's GPUs compute than that one's; NaN without GPU work
    notable: bool  # of the recording, by more than jitter


@dataclass(frozen=True, eq=False)
class Ranks:
    """`rows`: one a rank, in their order: rank; file (behind its name there, where it holds several); window_ns; steps_count;
    mean_ns (of a step); busy_ns, compute_ns (sums over its GPUs); busy_share, useful_share (of the recording, mean over its GPUs;
    the second without waiting in collectives); wait_ns; exposed_wait_ns (of that, without a first call that waits for a profiler,
    what it computes nothing beside, per step); late_count (calls to which it came last); events_count (in its tables).
    NaN where a rank has no such thing or it cannot be told.
    `missing`: ranks that the files speak of and that were not given. `calls`: None where no rank has a collective.
    `spinning_ns`: waiting in a first call until another rank recorded, which is no lateness. `findings`: of the run as a whole.
    """

    rows: pd.DataFrame
    missing: tuple[int, ...]
    calls: Calls | None
    late: Late | None
    busy_withheld: str  # why the busy share of a rank cannot be told
    spinning_ns: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def collectives(self) -> pd.DataFrame:
        """By name, the most waiting first: short_name; count; transfer_ns; wait_ns (of all ranks); wait_max_ns (of one rank)."""
        assert self.calls
        calls = self.calls.rows.groupby("call").agg(
            name=("name", "first"),
            transfer_ns=("transfer_ns", "first"),
            wait_ns=("wait_ns", "sum"),
            wait_max_ns=("wait_ns", "max"),
        )
        rows = calls.groupby("name", sort=False).agg(
            count=("transfer_ns", "size"), transfer_ns=("transfer_ns", "sum"), wait_ns=("wait_ns", "sum"),
            wait_max_ns=("wait_max_ns", "max"),
        ).reset_index()  # fmt: skip
        rows.insert(0, "short_name", [short_name(name) for name in rows["name"]])
        return rows.sort_values(["wait_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)

    @property
    def waits_told(self) -> bool:
        return self.calls is not None and not self.calls.unmatched

    @property
    def has_gpu(self) -> bool:
        return bool(self.rows["busy_ns"].notna().any())

    @property
    def step_ns(self) -> float:
        """A step of the run: the mean; where hosts run ahead its part of the recording; without marks the longest recording."""
        known = self.rows.dropna(subset=["mean_ns"])
        if known.empty:
            return float(self.rows["window_ns"].max())
        return float(np.maximum(known["mean_ns"], known["window_ns"] / known["steps_count"].clip(lower=1)).mean())

    @property
    def lede(self) -> Text | None:
        """One sentence for page one, where a rank keeps others waiting."""
        if self.late is None or not self.late.notable:
            return None
        counts = ", which counts as busy time" if self.has_gpu else ""
        return Text.of(
            "Rank {late_rank} keeps the others waiting: rank {waiting_rank} waits {late_by_ns} longer for it inside collectives"
            f"{counts}.",
            late_rank=self.late.rank, waiting_rank=self.late.waiting_rank, late_by_ns=self.late.by_ns,
        )  # fmt: skip

    @property
    def measures(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {"ranks_detected": len(self.rows), "ranks": len(self.rows)}
        if self.has_gpu:
            found["busy_share_raw"] = self._by_rank("busy_share")
        if not self.waits_told or self.calls is None:
            return found
        found["collective_min_ns"] = int(self.calls.rows.groupby("call")["transfer_ns"].first().sum())
        found["wait_ns"] = self._by_rank("wait_ns")
        if self.has_gpu:
            found["useful_busy_share"] = self._by_rank("useful_share")
        if self.late:
            found |= {"late_rank": int(self.late.rank), "late_by_ns": self.late.by_ns}
            if not isnan(self.late.extra_compute_ns):
                found["late_rank_extra_compute_ns"] = self.late.extra_compute_ns
        return found

    @property
    def withheld(self) -> Mapping[str, str]:
        busy = ("busy_share_raw", "useful_busy_share") if self.busy_withheld else ()
        found: dict[str, str] = dict.fromkeys(busy, self.busy_withheld)
        if self.calls and self.calls.unmatched:
            names = WAIT_MEASURES + (GPU_WAIT_MEASURES if self.has_gpu else ())
            found |= dict.fromkeys(names, self.calls.unmatched)
        return found

    def _by_rank(self, column: str) -> dict[str, float]:
        return dict(zip(self.rows["rank"], self.rows[column].tolist(), strict=True))


def ranks(*traces: Trace) -> Ranks:
    """Each rank's own figures, and its time in collectives split into transfer and waiting."""
    gpus = [_or_none(gpu_kernels, trace) for trace in traces]
    calls = calls_of(traces)
    rows = pd.DataFrame([_row(place, trace, gpus[place], calls) for place, trace in enumerate(traces)])
    world = max((trace.source.world_size or 0 for trace in traces), default=0)
    reasons = [
        f"rank {rank}: {gpu.busy_withheld}" for rank, gpu in zip(rows["rank"], gpus, strict=True) if gpu and gpu.busy_withheld
    ]
    missing = tuple(sorted(set(range(world)) - set(rows["rank"].astype(int))))
    told = calls if calls and not calls.unmatched else None
    of_work = without_spinning(traces, told) if told else None
    waits = _waits(of_work, len(traces)) if of_work is not None else rows["wait_ns"]
    exposed = exposed_waits(traces, of_work) if of_work is not None else nan
    rows["exposed_wait_ns"] = exposed / rows["steps_count"].clip(lower=1)
    return Ranks(
        rows=rows,
        missing=missing,
        calls=calls,
        late=_late(rows, waits) if told else None,
        busy_withheld="; ".join(reasons),
        spinning_ns=int((rows["wait_ns"] - waits).sum()) if told else 0,
        findings=_findings(traces, told, all_given=not missing) if told else (),
    )


def _waits(calls: pd.DataFrame, count: int) -> pd.Series:
    """By rank, in calls that say something about it."""
    return calls.groupby("rank")["wait_ns"].sum().reindex(range(count), fill_value=0)


def _findings(traces: tuple[Trace, ...], calls: Calls, all_given: bool) -> tuple[Finding, ...]:
    late = straggler(traces, calls)
    found = finding(late, traces, all_given) if late else None
    return (found,) if found else ()


def _row(place: int, trace: Trace, gpu: GpuKernels | None, calls: Calls | None) -> dict[str, object]:
    counted = _or_none(steps, trace)
    own = calls.rows[calls.rows["rank"] == place] if calls and not calls.unmatched else None
    busy_ns = float(gpu.devices["busy_ns"].sum()) if gpu else nan
    recorded_ns = nan if gpu is None or gpu.busy_withheld else trace.window_ns * len(gpu.devices)
    return {
        "rank": str(trace.source.rank or 0),
        "file": ", ".join(filter(None, (trace.source.rank_name, trace.source.files[0].name))),
        "window_ns": trace.window_ns,
        "steps_count": counted.count if counted else 0,
        "mean_ns": counted.mean_ns if counted else nan,
        "busy_ns": busy_ns,
        "compute_ns": float(gpu.devices["compute_ns"].sum()) if gpu else nan,
        "busy_share": busy_ns / recorded_ns,
        "useful_share": nan if own is None or gpu is None else _useful_ns(trace, own) / recorded_ns,
        "wait_ns": nan if own is None else int(own["wait_ns"].sum()),
        "late_count": nan if own is None or calls is None else _late_count(calls, place),
        "events_count": sum(map(len, (trace.host, trace.device, trace.device_marks, trace.allocations, trace.slices))),
    }


def _useful_ns(trace: Trace, own: pd.DataFrame) -> int:
    """Busy time as if each collective began when its last rank arrived; what computes beside the waiting still counts."""
    work, start = repaired_work(trace), trace.device.start_ns.copy()
    start[own["row"].to_numpy()] += own["wait_ns"].to_numpy()
    return sum(
        length(*union(start[work.device == device], work.end_ns[work.device == device])) for device in np.unique(work.device)
    )


def _late_count(calls: Calls, place: int) -> int:
    rows = calls.rows[calls.rows.groupby("call")["wait_ns"].transform("max") > 0]
    last = rows.sort_values("wait_ns", kind="stable").groupby("call")["rank"].first()
    return int((last == place).sum())


def _late(rows: pd.DataFrame, waits: pd.Series) -> Late | None:
    """None where all wait equally long."""
    late, waiting = rows.iloc[int(waits.argmin())], rows.iloc[int(waits.argmax())]
    by_ns = int(waits.max() - waits.min())
    if not by_ns:
        return None
    extra_ns = float(late["compute_ns"] - waiting["compute_ns"])
    return Late(late["rank"], by_ns, waiting["rank"], extra_ns, notable=by_ns >= NOTABLE_SHARE * waiting["window_ns"])


def _or_none(analysis: Callable[[Trace], _Result], trace: Trace) -> _Result | None:
    try:
        return analysis(trace)
    except MissingData:
        return None
