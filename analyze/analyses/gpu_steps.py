"""What does the GPU do in each step, and how much does that vary?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..device_measures import of_devices
from ..durations import repaired_work
from ..kernels import COMPUTE, COPY, work_class
from ..step_marks import PROFILER_STEP
from ..step_work import StepWork, busy_by_group, busy_inside, step_work
from ..trace import Ids, Trace

PARTS = {"busy_ns": "busy", "idle_ns": "idle", "launched_ns": "work that the step launched"}
TIMES = [*PARTS, "compute_ns", "comm_exposed_ns", "copy_exposed_ns", "busy_share"]
OWN = ["launched_ns", "kernel_count"]  # by launch


@dataclass(frozen=True, eq=False)
class GpuSteps:
    """`rows`: one per (step of marked_steps, device): step (row of marked_steps); name; step_ns; counted; outlier; device; then,
    NaN where they cannot be told: between the step's start and end busy_ns, idle_ns (they add up to the step), busy_share;
    compute_ns, comm_exposed_ns (no computing beside it), copy_exposed_ns (neither), which add up to busy_ns. Of the work that the
    step launched, wherever it runs (NaN also for steps aside): launched_ns (union), kernel_count.

    `cut_off`: whether the file was; `gaps`: why some steps may lack device work. `time_withheld`: why no step's time can be told;
    `launches_withheld`: why that of what it launched cannot.
    """

    rows: pd.DataFrame
    cut_off: bool
    gaps: str | None
    time_withheld: str | None
    launches_withheld: str | None

    @property
    def spread(self) -> pd.DataFrame:
        """Over the counted steps: device; part; mean_ns, median_ns, p95_ns, max_ns."""
        counted = self.rows[self.rows["counted"]]
        groups = [(device, part, rows[part].dropna()) for device, rows in counted.groupby("device") for part in PARTS]
        return pd.DataFrame(
            [
                {"device": device, "part": PARTS[part], "mean_ns": ns.mean(), "median_ns": ns.median(),
                 "p95_ns": ns.quantile(0.95), "max_ns": ns.max()}
                for device, part, ns in groups if len(ns)
            ],
            columns=["device", "part", "mean_ns", "median_ns", "p95_ns", "max_ns"],
        )  # fmt: skip

    @property
    def measures(self) -> Mapping[str, Any]:
        """The device time of each step's own work; of a cut file also that of each step that lacks nothing, by its number."""
        own = {device: rows["launched_ns"].tolist() for device, rows in self.rows.groupby("device")}
        launched = {} if self.launches_withheld else {"per_step_gpu_ns": of_devices(own)}
        return launched | (self._whole_steps() if self.cut_off else {})

    @property
    def withheld(self) -> Mapping[str, str]:
        return {"per_step_gpu_ns": self.launches_withheld} if self.launches_withheld else {}

    def _whole_steps(self) -> dict[str, Any]:
        whole = self.rows[self.rows["busy_ns"].notna() & self.rows["name"].str.match(PROFILER_STEP)]
        return {
            f"step{str(name).rsplit('#', 1)[-1]}_gpu_{column}": of_devices(step.set_index("device")[column].to_dict())
            for name, step in whole.groupby("name", sort=False)
            for column in ("busy_ns", "busy_share")
        }


def gpu_steps(trace: Trace) -> GpuSteps:
    """Times on the device clock between a step's start and end; kernels by the step that launches them."""
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work; on a GPU machine capture with CUDA activity on.")
    found, kind = step_work(trace), work_class(trace)
    rows = pd.concat(
        [_device(trace, found, int(device), kind) for device in np.unique(trace.device.device)], ignore_index=True
    ).sort_values(["step", "device"], kind="stable", ignore_index=True)
    return GpuSteps(rows, trace.whole_steps is not None, found.gaps, found.withheld, found.launches_withheld)


def _device(trace: Trace, found: StepWork, device: int, kind: Ids) -> pd.DataFrame:
    steps, work, mine = found.steps, repaired_work(trace), trace.device.device == device
    parts = (mine, mine & (kind != COPY), mine & (kind == COMPUTE))
    busy, without_copies, compute = (busy_inside(trace, steps, rows) for rows in parts)
    launched = busy_by_group(found.step[mine], work.start_ns[mine], work.end_ns[mine], len(steps))
    kernels = found.step[mine & (trace.device.category == t.KERNEL) & (found.step >= 0)]
    rows = pd.DataFrame({
        "step": np.arange(len(steps)), **{name: steps[name] for name in ("name", "step_ns", "counted", "outlier")},
        "device": device, "busy_ns": busy, "idle_ns": steps["step_ns"] - busy, "busy_share": busy / steps["step_ns"],
        "compute_ns": compute, "comm_exposed_ns": without_copies - compute, "copy_exposed_ns": busy - without_copies,
        "launched_ns": launched, "kernel_count": np.bincount(kernels, minlength=len(steps)),
    })  # fmt: skip
    rows = rows.astype(dict.fromkeys([*TIMES, *OWN], float))
    rows.loc[~found.timed, TIMES] = float("nan")
    rows.loc[steps["aside"] | (found.strays is not None), OWN] = float("nan")
    rows.loc[found.incomplete, "kernel_count"] = float("nan")
    return rows
