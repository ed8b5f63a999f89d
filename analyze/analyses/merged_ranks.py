"""Which ranks were merged into this file, and how busy is each?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...capture.errors import MissingData
from ..trace import Trace
from .gpu_kernels import gpu_kernels


@dataclass(frozen=True, eq=False)
class MergedRanks:
    """`ranks`: as the file names them. `devices`: device; name ("TP01 GPU 0"); busy_ns, busy_share, kernel_count as in
    GpuKernels; None without GPU work.
    """

    ranks: tuple[str, ...]
    devices: pd.DataFrame | None

    @property
    def measures(self) -> Mapping[str, Any]:
        return {"ranks_detected": len(self.ranks)}


def merged_ranks(trace: Trace) -> MergedRanks:
    """MissingData where the file holds one rank."""
    if not trace.merged_ranks:
        raise MissingData("The file holds one rank.")
    try:
        devices = gpu_kernels(trace).devices[["device", "busy_ns", "busy_share", "kernel_count"]]
    except MissingData:
        return MergedRanks(trace.merged_ranks, None)
    names = [trace.device_names.get(int(device), str(device)) for device in devices["device"]]
    return MergedRanks(trace.merged_ranks, devices.assign(name=names))
