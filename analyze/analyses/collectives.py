"""What do collectives cost, and does the first one only wait?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..communication import Collectives, argument, collectives_of, message_bytes
from ..durations import repaired_work
from ..intervals import covered, length, union
from ..kernels import COMPUTE, work_class
from ..short_names import short_name
from ..trace import Ints, Mask, Trace, TraceWarning

SPIN_RATIO = 20  # of the median: no network jitter; a profiler that starts later on another rank costs 100 times and more
LEAST_OTHERS = 3  # collectives, for a median that means something
BEYOND_ANY = 2  # times the longest other: where long ones recur, a long first one is no accident of the start


@dataclass(frozen=True, eq=False)
class FirstCall:
    """The first collective of a device beside others there, those of its name if there are any; the recording from its end on."""

    device: int  # -1: the host of a CPU run
    name: str
    first_ns: int
    median_ns: float
    others_count: int
    alike: bool  # whether the others have its name
    spins: bool
    comm_ns: int  # of all collectives there
    trimmed_window_ns: int
    trimmed_comm_ns: int
    trimmed_compute_ns: int

    @property
    def others(self) -> str:
        return f"{self.others_count:,} others{' of its name' if self.alike else ''}"

    @property
    def ratio(self) -> float:
        return self.first_ns / max(1.0, self.median_ns)

    @property
    def trimmed_compute_share(self) -> float:
        return self.trimmed_compute_ns / self.trimmed_window_ns if self.trimmed_window_ns else float("nan")


@dataclass(frozen=True, eq=False)
class CollectiveCost:
    """`rows`: one per kernel name, collective and process group, by total: short_name, name; collective, group (empty where not
    told); count; total_ns, mean_ns, min_ns, max_ns; in_bytes, out_bytes (of one message, mean; NaN where not told).

    `union_ns`, `exposed_ns`: time with a collective, and that of it without computing beside it, added up over devices; on a CPU
    run `exposed_ns` is NaN.
    """

    rows: pd.DataFrame
    window_ns: int
    union_ns: int
    exposed_ns: float
    on_host: bool
    several_devices: bool
    first: FirstCall | None  # where there are others
    told: Mapping[str, Any]  # by arguments: measures

    @property
    def measures(self) -> Mapping[str, Any]:
        """On a GPU run the sums are told with the device's."""
        own = {"comm_count": "count", "comm_sum_ns": "total_ns"} if self.on_host else {}
        sums = {name: int(self.rows[column].sum()) for name, column in own.items()}
        return {**sums, **({"comm_union_ns": self.union_ns} if self.on_host else {}), **self.told, **self._of_first()}

    def _of_first(self) -> dict[str, Any]:
        if self.first is None:
            return {}
        first = self.first
        found: dict[str, Any] = {"first_collective_ns": first.first_ns, "median_other_collectives_ns": first.median_ns}
        if first.spins:
            found |= {"trimmed_window_ns": first.trimmed_window_ns, "trimmed_comm_ns": first.trimmed_comm_ns}
            found["comm_share_of_window_raw"] = first.comm_ns / self.window_ns
            if not self.on_host:
                found["trimmed_compute_ns"] = first.trimmed_compute_ns
                found["trimmed_compute_share"] = first.trimmed_compute_share
        return found

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        if self.first is None or not self.first.spins:
            return ()
        message = (
            f"The first collective takes {self.first.ratio:,.0f} times the median of the {self.first.others} there: it most "
            "likely waits until the profiler of the last rank has started. That wait counts as busy time here; the section on "
            "collectives gives the figures without it."
        )
        return (TraceWarning("outlier_collective_at_start", 1, message),)


def collectives(trace: Trace) -> CollectiveCost:
    """Collectives by name, and the first of them beside the others; MissingData where there are none."""
    calls = collectives_of(trace)
    if not len(calls):
        raise MissingData("The trace holds no collectives; they appear in runs of several ranks.")
    compute = work_class(trace) == COMPUTE
    unions, exposed = zip(*(_on_device(trace, calls, compute, device) for device in np.unique(calls.device)), strict=True)
    on_host = bool(calls.device[0] < 0)
    return CollectiveCost(
        rows=_rows(trace, calls),
        window_ns=trace.window_ns,
        union_ns=sum(unions),
        exposed_ns=float("nan") if on_host else float(sum(exposed)),
        on_host=on_host,
        several_devices=len(unions) > 1,
        first=_first(trace, calls, compute),
        told=_told(trace, calls),
    )


def _on_device(trace: Trace, calls: Collectives, compute: Mask, device: int) -> tuple[int, int]:
    """Time with a collective, and that of it without computing."""
    own = calls.device == device
    start, end = union(calls.start_ns[own], calls.end_ns[own])
    beside = covered(*_computing(trace, compute, device), start, end).sum() if device >= 0 else 0
    return length(start, end), length(start, end) - int(beside)


def _computing(trace: Trace, compute: Mask, device: int, since_ns: int = 0) -> tuple[Ints, Ints]:
    work = repaired_work(trace)[compute & (trace.device.device == device)]
    return union(np.maximum(work.start_ns, since_ns), work.end_ns)


def _rows(trace: Trace, calls: Collectives) -> pd.DataFrame:
    frame = pd.DataFrame({
        "name": np.array(trace.names, object)[calls.name],
        "collective": _texts(trace, calls, "Collective name"),
        "group": _texts(trace, calls, "Process Group Name"),
        "ns": calls.end_ns - calls.start_ns,
        "in_bytes": message_bytes(trace, calls, "In msg nelems"),
        "out_bytes": message_bytes(trace, calls, "Out msg nelems"),
    })  # fmt: skip
    grouped = frame.groupby(["name", "collective", "group"], sort=False)
    rows = grouped.agg(
        count=("ns", "size"), total_ns=("ns", "sum"), mean_ns=("ns", "mean"), min_ns=("ns", "min"), max_ns=("ns", "max"),
        in_bytes=("in_bytes", "mean"), out_bytes=("out_bytes", "mean"),
    ).reset_index()  # fmt: skip
    rows.insert(0, "short_name", [short_name(name) for name in rows["name"]])
    return rows.sort_values(["total_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def _texts(trace: Trace, calls: Collectives, key: str) -> list[str]:
    return [text if isinstance(text, str) else "" for text in argument(trace, calls, key)]


def _first(trace: Trace, calls: Collectives, compute: Mask) -> FirstCall | None:
    """Of each device its first collective; the longest of those that spin, else the first of all."""
    by_device = [_first_of(trace, calls[calls.device == device], compute) for device in np.unique(calls.device)]
    known = [first for first in by_device if first is not None]
    return max((first for first in known if first.spins), key=lambda f: f.first_ns, default=known[0] if known else None)


def _first_of(trace: Trace, calls: Collectives, compute: Mask) -> FirstCall | None:
    own = calls[calls.name == calls.name[0]]
    alike = own if len(own) > 1 else calls
    duration = alike.end_ns - alike.start_ns
    first_ns, others = int(duration[0]), duration[1:]
    if not len(others):
        return None
    median_ns = float(np.median(others))
    far_longer = first_ns > SPIN_RATIO * median_ns and first_ns > BEYOND_ANY * int(others.max())
    device, since = int(calls.device[0]), int(calls.end_ns[0])
    return FirstCall(
        device=device,
        name=trace.names[int(calls.name[0])],
        first_ns=first_ns,
        median_ns=median_ns,
        others_count=len(others),
        alike=len(own) > 1,
        comm_ns=length(*union(calls.start_ns, calls.end_ns)),
        spins=bool(far_longer and len(others) >= LEAST_OTHERS),
        trimmed_window_ns=trace.window_ns - since,
        trimmed_comm_ns=length(*union(np.maximum(calls.start_ns, since), calls.end_ns)),
        trimmed_compute_ns=length(*_computing(trace, compute, device, since)),
    )


def _told(trace: Trace, calls: Collectives) -> dict[str, Any]:
    """What arguments say: bytes of all messages, and the communicators."""
    sums = {name: message_bytes(trace, calls, f"{way} msg nelems") for way, name in WAYS.items()}
    told: dict[str, Any] = {name: int(np.nansum(sizes)) for name, sizes in sums.items() if not np.isnan(sizes).all()}
    ids = list(dict.fromkeys(str(value) for value in argument(trace, calls, "Comms Id") if value is not None))
    return told | ({"comms_id": ids[0] if len(ids) == 1 else ids} if ids else {})


WAYS = {"In": "message_bytes_in", "Out": "message_bytes_out"}
