"""How are data copied to and from the GPU, and how fast?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..device_measures import by_device
from ..findings import NOTABLE_SHARE
from ..trace import DeviceRanges, Mask, Trace

FROM_HOST = re.compile(r"Memcpy (HtoD|HtoA|H2D|M2D)|CopyHostToDevice")  # CUDA and ROCm, XPU, older ROCm
TO_HOST = re.compile(r"Memcpy (DtoH|AtoH|D2H|D2M)|CopyDeviceToHost")
PAGEABLE, PINNED, MANAGED = (re.compile(rf"Memcpy Hto[DA] \({kind}") for kind in ("Pageable", "Pinned", "Managed"))
AT_PINNED_SPEED = "pageable_at_pinned_speed_ns"
MEASURES = (
    "pageable_h2d_count", "pageable_h2d_ns", "pageable_h2d_bytes", "pageable_h2d_gbps", "pinned_h2d_gbps", AT_PINNED_SPEED,
    "memcpy_bandwidth_gbps_over_nonzero",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Copies:
    """`rows`: one per name, by total_ns: name (says the direction and the kinds of memory); count; size_bytes (of the copies of
    known size; NaN without one); total_ns; speed_gbps (10^9 bytes a second, of the copies of known size that take time; NaN
    without one); unsized_count (copies of unknown size).
    `devices`: device and a column for each of MEASURES; `total`: those of all devices together. NaN where there is no such copy.
    `untold_count`: copies to the GPU that do not say which kind of host memory they read.
    """

    rows: pd.DataFrame
    devices: pd.DataFrame
    total: Mapping[str, float]
    untold_count: int
    window_ns: int
    withheld: Mapping[str, str]

    @property
    def measures(self) -> dict[str, Any]:
        return by_device(self.devices, {name: name for name in MEASURES if name not in self.withheld})

    @property
    def costly(self) -> bool:
        """Whether copies from pageable memory take enough of the recording to be worth a change."""
        return self.total["pageable_h2d_ns"] >= max(1, NOTABLE_SHARE * self.window_ns)

    @property
    def most_saved_ns(self) -> float:
        """What they take beyond the pinned speed; NaN without a pinned copy, or where sizes are unknown."""
        if AT_PINNED_SPEED in self.withheld:
            return float("nan")
        return self.total["pageable_h2d_ns"] - self.total[AT_PINNED_SPEED]


def copies(trace: Trace) -> Copies:
    """Copies by name, and those from pageable memory beside those from pinned memory."""
    work = trace.device[trace.device.category == t.MEMCPY]
    if not len(work):
        hint = "" if len(trace.device) else "; on a GPU machine capture with CUDA activity on"
        raise MissingData(f"The trace holds no copies to or from a GPU{hint}.")
    from_host, pageable, pinned, managed = (_named(trace, work, kind) for kind in (FROM_HOST, PAGEABLE, PINNED, MANAGED))
    devices = [(int(device), work.device == device) for device in np.unique(trace.device.device)]
    untold, total = from_host & ~pageable & ~pinned & ~managed, _figures(work, pageable, pinned)
    return Copies(
        rows=_rows(trace, work),
        devices=pd.DataFrame([{"device": d, **_figures(work[of], pageable[of], pinned[of])} for d, of in devices]),
        total=total,
        untold_count=int(untold.sum()),
        window_ns=trace.window_ns,
        withheld=_withheld(total, int(untold.sum()), int(from_host.sum()), int((pageable & (work.size_bytes < 0)).sum())),
    )


def _named(trace: Trace, work: DeviceRanges, kind: re.Pattern[str]) -> Mask:
    names = [int(name) for name in np.unique(work.name)]
    return np.isin(work.name, [name for name in names if kind.match(trace.names[name])])


def _withheld(total: Mapping[str, float], untold: int, from_host: int, unsized: int) -> dict[str, str]:
    """Where no copy tells its memory, none can be counted as pageable; a size that is missing makes sums of bytes too small."""
    if untold and untold == from_host:
        return dict.fromkeys(MEASURES[:3], f"copies to the GPU that do not say which kind of host memory they read: {untold}")
    if not unsized:
        return {}
    names = ("pageable_h2d_bytes", *([AT_PINNED_SPEED] if total["pinned_h2d_gbps"] > 0 else []))
    return dict.fromkeys(names, f"copies from pageable memory without a size: {unsized} of {total['pageable_h2d_count']}")


def _figures(work: DeviceRanges, pageable: Mask, pinned: Mask) -> dict[str, float]:
    """The MEASURES of some copies."""
    slow, fast = work[pageable], _speed(work[pinned])
    size_bytes = int(slow.size_bytes[slow.size_bytes > 0].sum())
    return {
        "pageable_h2d_count": len(slow),
        "pageable_h2d_ns": int((slow.end_ns - slow.start_ns).sum()),
        "pageable_h2d_bytes": size_bytes,
        "pageable_h2d_gbps": _speed(slow),
        "pinned_h2d_gbps": fast,
        AT_PINNED_SPEED: size_bytes / fast if len(slow) and fast > 0 else float("nan"),
        "memcpy_bandwidth_gbps_over_nonzero": _speed(work),
    }


def _speed(work: DeviceRanges) -> float:
    """Bytes a nanosecond are 10^9 bytes a second; copies without a size or a duration are left out."""
    timed = work[(work.size_bytes >= 0) & (work.end_ns > work.start_ns)]
    return int(timed.size_bytes.sum()) / int((timed.end_ns - timed.start_ns).sum()) if len(timed) else float("nan")


def _rows(trace: Trace, work: DeviceRanges) -> pd.DataFrame:
    parts = [(trace.names[int(name)], work[work.name == name]) for name in np.unique(work.name)]
    rows = [{"name": name, **_row(part)} for name, part in parts]
    return pd.DataFrame(rows).sort_values(["total_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def _row(work: DeviceRanges) -> dict[str, float]:
    sized = work.size_bytes >= 0
    return {
        "count": len(work),
        "size_bytes": int(work.size_bytes[sized].sum()) if sized.any() else float("nan"),
        "total_ns": int((work.end_ns - work.start_ns).sum()),
        "speed_gbps": _speed(work),
        "unsized_count": int((~sized).sum()),
    }
