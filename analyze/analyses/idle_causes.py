"""Why does the GPU idle: what is the thread doing that launches the next work?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..gap_causes import CAUSES, OTHER, IdleTime, idle_time
from ..gpu_gaps import idle_withheld
from ..grouping import group_sums
from ..trace import Ints, Trace


@dataclass(frozen=True, eq=False)
class IdleCauses:
    """`rows`: one per (device, cause), by device, the longest first: device; cause; idle_ns; idle_share (of the device's idle
    time, NaN where it has none); longest_ns (the most in one gap). The causes of a device add up to its idle time.

    `gap_count`, `idle_ns`: over all devices; `queued_ns`: of that, what passes after the work that ends the gap was launched;
    `unexplained_ns`: and all that is blamed on nothing (gap_causes).
    """

    rows: pd.DataFrame
    gap_count: int
    idle_ns: int
    queued_ns: int
    unexplained_ns: int

    @property
    def measures(self) -> Mapping[str, Any]:
        return {"queued_idle_ns": self.queued_ns}


def idle_causes(trace: Trace) -> IdleCauses:
    """Each gap of the recording by what claims its instants."""
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work, so there is no idle GPU to explain.")
    if reason := idle_withheld(trace):
        raise MissingData(f"Idle time is withheld: {reason}.")
    found = idle_time(trace)
    tables = [_device(int(device), _in_gaps(found, int(device))) for device in np.unique(trace.device.device)]
    rows, gap_count = pd.concat(tables, ignore_index=True), len(np.unique(found.gap))
    return IdleCauses(rows, gap_count, int(found.by_cause.sum()), int(found.queued.sum()), int(found.blamed[OTHER].sum()))


def _in_gaps(found: IdleTime, device: int) -> Ints:
    """For each cause the time that it has in each gap of a device."""
    mine = found.device == device
    gaps, gap = np.unique(found.gap[mine], return_inverse=True)
    return np.stack([group_sums(gap, ns, len(gaps)) for ns in found.by_cause[:, mine]])


def _device(device: int, in_gaps: Ints) -> pd.DataFrame:
    idle = in_gaps.sum(axis=1)
    rows = pd.DataFrame({
        "device": device,
        "cause": CAUSES,
        "idle_ns": idle,
        "idle_share": idle / idle.sum() if idle.any() else float("nan"),
        "longest_ns": in_gaps.max(axis=1, initial=0),
    })  # fmt: skip
    return rows.sort_values("idle_ns", ascending=False, kind="stable", ignore_index=True)
