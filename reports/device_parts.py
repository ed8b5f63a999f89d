"""Report -> what its GPUs did in the recording, part by part, adding up: computing, what is exposed, idle time by cause."""

import pandas as pd

from .model import Report

COMPUTING = "computing"
BUSY = {"computing": "compute_ns", "exposed communication": "comm_exposed_ns", "exposed copies": "copy_exposed_ns"}
IDLE = {
    "input_pipeline": "idle: waiting for data", "h2d_wait": "idle: in copy calls", "synchronization": "idle: after a wait",
    "launch": "idle: while launching", "host": "idle: in other host work", "other": "idle: outside host ranges",
}  # fmt: skip


def device_parts(report: Report) -> pd.DataFrame:
    """Columns: part; total_ns (added up over all GPUs); window_share. Parts without time are left out; all of them where idle
    time cannot be told.
    """
    gpu, idle = report.result("gpu_kernels"), report.result("idle_causes")
    if gpu is None or idle is None or gpu.idle_withheld:
        return pd.DataFrame({"part": [], "total_ns": [], "window_share": []})
    by_cause = idle.rows.groupby("cause", sort=False)["idle_ns"].sum().sort_values(ascending=False, kind="stable")
    times = {part: int(gpu.devices[column].sum()) for part, column in BUSY.items()}
    times |= {IDLE[str(cause)]: int(ns) for cause, ns in by_cause.items()}
    rows = pd.DataFrame([(part, ns, ns / sum(times.values())) for part, ns in times.items() if ns > 0])
    return rows.set_axis(["part", "total_ns", "window_share"], axis=1)
