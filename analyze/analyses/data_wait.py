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

HAND_OVER_NS = 700_000  # a batch that comes from another process costs 0.5 to 0.9 ms: pickling, queue, wake-up
WORKERS = 2  # that the prediction assumes
STARVED_SHARE = 0.2  # of the step: other programs, or the step's own threads, keep all cores busy
BUSY_SHARE = 0.5  # of the loading time on a core: above, loading computes; below, it mostly waits
WITHIN_SHARE = 0.25  # worked pairs met their prediction so closely
WITH_WORKERS, NO_WORKERS = "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"  # in enumerate(DataLoader)#…
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
    loader: "Loader | None"
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
    loader = _loader(trace, loading_ns, rest_ns, bool(workers)) if known else None
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


def has_workers(trace: Trace) -> bool | None:
    """Whether processes of a DataLoader load; None where no DataLoader is named."""
    if any(WITH_WORKERS in name for name in trace.names):
        return True
    return False if any(NO_WORKERS in name for name in trace.names) else None


@dataclass(frozen=True)
class Loader:
    """What the recording says of loading beside its time; None where it does not say. `loading_ns`, `rest_ns`: of a step.

    `busy_share`: of the loading time, what the loop's thread has or wants of a core beyond the rest of the step. `starved_share`:
    of the step, in which it wants a core and others have all. `cores`: CPUs that the program may use. `workers_count`: of the
    DataLoader.
    """

    loading_ns: float
    rest_ns: float
    workers: bool
    workers_count: int | None
    cores: int | None
    busy_share: float | None
    starved_share: float | None

    @property
    def taken(self) -> bool:
        """Whether another worker would find no core: as many load already, there is but one, or other programs have them."""
        full = self.cores is not None and self.cores <= (self.workers_count or 0 if self.workers else 1)
        return self.computes and (full or (self.starved_share or 0.0) >= STARVED_SHARE)

    @property
    def computes(self) -> bool:
        """Whether loading needs a core: so it is taken to do where nothing tells."""
        return self.busy_share is None or self.busy_share >= BUSY_SHARE

    @property
    def crowded(self) -> bool:
        """Whether WORKERS workers that compute leave no core to the rest of the step."""
        return not self.workers and self.computes and self.cores is not None and self.cores <= WORKERS

    @property
    def step_ns(self) -> float:
        return self.loading_ns + self.rest_ns

    def with_workers(self) -> float:
        """The step with WORKERS workers, or with twice as many as there are: the slowest of what then goes on side by side.

        The rest of the step, a batch's way between processes with it; the workers; and the cores, where loading computes.
        """
        if self.workers:
            return max(self.rest_ns + HAND_OVER_NS, self.step_ns / 2)
        shared = self.step_ns / self.cores if self.computes and self.cores else 0.0
        return max(self.rest_ns + HAND_OVER_NS, self.loading_ns / WORKERS, shared)


def _loader(trace: Trace, loading_ns: float, rest_ns: float, workers: bool) -> Loader:
    manifest = trace.manifest
    facts = {} if manifest is None else manifest.machine | manifest.options
    unprofiled_ns = sum(manifest.unprofiled_step_ns) if manifest else 0
    had, wanted = (facts.get(name) for name in ("unprofiled_cpu_ns", "unprofiled_core_wait_ns"))
    busy = starved = None
    if had is not None and unprofiled_ns and loading_ns and not workers:
        beyond_ns = (loading_ns + rest_ns) * (had + (wanted or 0)) / unprofiled_ns - rest_ns
        busy = min(1.0, max(0.0, beyond_ns / loading_ns))
    if wanted is not None and unprofiled_ns:
        starved = wanted / unprofiled_ns
    return Loader(loading_ns, rest_ns, workers, facts.get("loader_workers"), facts.get("cpu_usable_count"), busy, starved)


def _finding(loader: Loader) -> Finding:
    """Saving: loading runs beside the rest of the step, in WORKERS workers or in twice as many (`Loader.with_workers`).

    A point where this process loads and mostly waits in it, as its CPU time tells: the worked pairs came within WITHIN_SHARE.
    Else a range from nothing to all of the wait: cores that are shared slow both sides down. Where no core is free no workers are
    advised but cheaper loading, and half of the range is expected. Confidence: high for the point; low without a free core, and
    where workers that compute are as many as the cores; else medium.
    """
    free_ns = max(0.0, loader.step_ns - loader.with_workers())
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
