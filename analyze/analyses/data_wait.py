"""Does the step wait for its data?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..device_measures import of_devices
from ..findings import Evidence, Finding, Text, notable
from ..gpu_gaps import LOADING, idle_gaps, idle_withheld, loader_ranges
from ..intervals import covered, length, union
from ..step_time import step_time
from ..trace import Trace

HAND_OVER_NS = 1_000_000  # a batch that comes from another process costs about a millisecond: pickling, queue, wake-up
WORKERS, NO_WORKERS = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"  # in enumerate(DataLoader)#…
IDLE_BESIDE = ("gpu_idle_during_dataloader_ns", "gpu_idle_during_dataloader_share")


@dataclass(frozen=True, eq=False)
class DataWait:
    """Time of the data_loading phase per step, and of the rest.

    `workers`: whether a DataLoader's worker processes load already; None where the trace names no DataLoader.
    """

    loading_ns: float
    rest_ns: float
    workers: bool | None
    findings: tuple[Finding, ...]
    measures: Mapping[str, Any]
    withheld: Mapping[str, str]


def data_wait(trace: Trace) -> DataWait:
    """Size of the data_loading phase; MissingData where nothing marks it."""
    found = step_time(trace)
    if LOADING not in found.phases:
        raise MissingData("Nothing in the steps marks data loading; use a DataLoader, or record.steps(loader).")
    loading_ns = float(found.rows.loc[found.rows["phase"] == LOADING, "self_ns"].sum()) / found.count
    rest_ns = found.step_ns - loading_ns
    workers = _workers(trace)
    known = workers is not None and not len(trace.device)
    findings = notable([_finding(loading_ns, rest_ns, workers)], found.step_ns) if known else ()
    return DataWait(loading_ns, rest_ns, workers, findings, _measures(trace), _withheld(trace))


def _measures(trace: Trace) -> dict[str, Any]:
    """Over the whole file: time in data loaders, and the part of each GPU's idle time that falls in it."""
    ranges = trace.host[loader_ranges(trace)]
    start, end = union(ranges.start_ns, ranges.end_ns)
    told: dict[str, Any] = {"dataloader_ns": length(start, end), "dataloader_share": length(start, end) / trace.window_ns}
    if not len(trace.device) or idle_withheld(trace):
        return told
    gaps = idle_gaps(trace)
    rows = pd.DataFrame(
        {"device": gaps.device, "idle": gaps.end - gaps.start, "beside": covered(start, end, gaps.start, gaps.end)}
    )
    sums = rows.groupby("device").sum().reindex(np.unique(trace.device.device), fill_value=0)
    values = (sums["beside"], sums["beside"] / sums["idle"])
    return told | {name: of_devices(of.to_dict()) for name, of in zip(IDLE_BESIDE, values, strict=True)}


def _withheld(trace: Trace) -> dict[str, str]:
    reason = idle_withheld(trace) if len(trace.device) else None
    return dict.fromkeys(IDLE_BESIDE, reason) if reason else {}


def _workers(trace: Trace) -> bool | None:
    if any(WORKERS in name for name in trace.names):
        return True
    return False if any(NO_WORKERS in name for name in trace.names) else None


def _finding(loading_ns: float, rest_ns: float, workers: bool | None) -> Finding:
    """Saving: loading runs beside the rest of the step: the shorter of the two vanishes, but for handing the batch over."""
    hidden_ns = max(0.0, (loading_ns if workers else min(loading_ns, rest_ns)) - HAND_OVER_NS)
    return Finding(
        id="data_wait",
        title=Text.of("Add loader workers") if workers else Text.of("Load the next batch in worker processes"),
        problem=Text.of(
            "Each step waits {loading_ns} for its batch, {loading_share} of the step.",
            loading_ns=loading_ns, loading_share=loading_ns / (loading_ns + rest_ns),
        ),
        advice=Text.of(
            "Raise num_workers (and prefetch_factor) until the wait is gone; keep workers alive with persistent_workers=True."
        )
        if workers
        else Text.of(
            "Give the DataLoader num_workers of at least 1, so that the next batch is made while this one is used; for data that "
            "fits in memory, index one tensor instead."
        ),
        saving_ns=hidden_ns,
        low_ns=0,
        high_ns=loading_ns,
        confidence="medium",
        evidence=(
            Evidence("waiting for data, per step", "loading_ns", loading_ns),
            Evidence("the rest of the step", "rest_ns", rest_ns),
        ),
        bound="input_pipeline",
        phase=LOADING,
    )  # fmt: skip
