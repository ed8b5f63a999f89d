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
from ..loaders import HAND_OVER_NS, WORKERS, Loader, has_workers, loader_of
from ..step_time import step_time
from ..trace import Trace

WITHIN_SHARE = 0.25  # worked pairs met their prediction so closely
IDLE_BESIDE = ("gpu_idle_during_dataloader_ns", "gpu_idle_during_dataloader_share")


@dataclass(frozen=True, eq=False)
class DataWait:
    """Time of the data_loading phase per step, and of the rest.

    `workers`: whether a DataLoader's worker processes load already; None where the trace names no DataLoader. `loader`: what is
    known of it in a run without a GPU.
    """

    loading_ns: float
    rest_ns: float
    workers: bool | None
    loader: Loader | None
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
    workers = has_workers(trace)
    known = workers is not None and not len(trace.device)
    loader = loader_of(trace, loading_ns, rest_ns) if known else None
    findings = notable([_finding(loader)] if loader else [], found.step_ns, found.unprofiled_share)
    return DataWait(loading_ns, rest_ns, workers, loader, findings, _measures(trace), _withheld(trace))


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


def _finding(loader: Loader) -> Finding:
    """Saving: loading runs beside the rest of the step, in WORKERS workers or in twice as many (`Loader.advised_ns`).

    A point where this process loads and mostly waits in it, as its CPU time tells: the worked pairs came within WITHIN_SHARE.
    Else a range from nothing to all of the wait: cores that are shared slow both sides down. Where no core is free no workers are
    advised but cheaper loading, and half of the range is expected. Confidence: high for the point; low without a free core, and
    where workers that compute are as many as the cores; else medium.
    """
    free_ns = max(0.0, loader.step_ns - loader.advised_ns)
    beyond_ns = max(0.0, loader.loading_ns - (HAND_OVER_NS if loader.workers else 0))
    saving_ns = beyond_ns / 2 if loader.taken else free_ns
    waits = not loader.workers and not loader.computes
    title, advice = _words(loader)
    return Finding(
        id="data_wait:workers" if loader.workers else "data_wait",
        title=title,
        problem=Text.of(
            "Each step waits {loading_ns} for its batch, {loading_share} of the step.",
            loading_ns=loader.loading_ns, loading_share=loader.loading_ns / loader.step_ns,
        ),
        advice=advice,
        saving_ns=saving_ns,
        low_ns=saving_ns * (1 - WITHIN_SHARE) if waits else 0.0,
        high_ns=loader.loading_ns,
        confidence="low" if loader.taken or loader.crowded else "high" if waits else "medium",
        evidence=(
            Evidence("waiting for data, per step", "loading_ns", loader.loading_ns),
            Evidence("the rest of the step", "rest_ns", loader.rest_ns),
            *_facts(loader),
        ),
        bound="input_pipeline",
        phase=LOADING,
    )  # fmt: skip


def _facts(loader: Loader) -> list[Evidence]:
    told = {
        "CPUs that the program may use": ("cpu_count", loader.cores),
        "loader workers": ("worker_count", loader.workers_count),
        "loading that needs a core": ("busy_share", loader.busy_share),
        "waiting for a core, of the step": ("starved_share", loader.starved_share),
    }
    return [Evidence(label, name, value) for label, (name, value) in told.items() if value is not None]


def _words(loader: Loader) -> tuple[Text, Text]:
    if loader.taken:
        return Text.of("Make loading a batch cheaper"), Text.of(
            "No core is free for more workers: decode and transform once and keep the result, work on whole batches instead of "
            "items, or index one tensor of data that fits in memory."
        )
    if loader.workers:
        return Text.of("Add loader workers"), Text.of(
            "Double num_workers while cores are free (and raise prefetch_factor), and keep them alive with "
            "persistent_workers=True."
        )
    return Text.of("Load the next batch in worker processes"), Text.of(
        "Give the DataLoader num_workers={workers}, so that the next batches are made while this one is used, and "
        "persistent_workers=True; for data that fits in memory, index one tensor instead.",
        workers=str(WORKERS),
    )
