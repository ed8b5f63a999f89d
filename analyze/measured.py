"""Trace -> what a comparison of runs needs of it, without the trace: its facts, and its values per step by name.

Names and units are those of the JSON: step_us, unprofiled_step_us, device_peak_bytes, gpu_busy_us, phase:forward, op:aten::mm.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..capture.bundle import unprofiled_times
from ..capture.errors import ChangeError, MissingData
from .analyses.gpu_steps import gpu_steps
from .analyses.memory import memory
from .analyses.phases import phases
from .analyses.steps import steps
from .diffs.launched_work import launched_work
from .facts import Facts, facts
from .forms import form
from .statistics import Floats
from .step_marks import left_out, settled
from .step_time import step_time
from .trace import Trace

STEP, UNPROFILED, DEVICE_MEMORY, HOST_MEMORY = "step_us", "unprofiled_step_us", "device_peak_bytes", "host_peak_bytes"
PHASE, OP, KERNEL = "phase", "op", "kernel"  # what stands before a colon
GPU_COLUMNS = {  # of gpu_steps, added over devices
    "gpu_busy_us": "busy_ns", "gpu_idle_us": "idle_ns", "compute_us": "compute_ns", "comm_exposed_us": "comm_exposed_ns",
    "copy_exposed_us": "copy_exposed_ns", "kernel_count": "kernel_count",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Metric:
    """One value a step, in the order of the steps. `unit`: ns, bytes or count."""

    unit: str
    values: Floats

    @property
    def mean(self) -> float:
        return float(self.values.mean())


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """`name`: base name or title; `captured_at`: UTC, ISO 8601, where a bundle tells; `set_aside`: steps that do not count, a
    first one that still warms up among them, each with its reason; `sha256`: of the files that were read.
    """

    name: str
    captured_at: str | None
    facts: Facts
    metrics: Mapping[str, Metric]
    set_aside: Mapping[str, str]
    sha256: tuple[str, ...]
    commit: str | None = None


def measured(trace: Trace, more: Sequence[str] = ()) -> MeasuredRun:
    """The usual metrics, as far as they were recorded, and `more` by name.

    MissingData where the recording has no steps or lacks what `more` names; ChangeError for a name that means nothing.
    """
    if form(trace) != "pytorch":
        raise MissingData(f"{trace.source.path} holds no single steps to compare; name a bundle or a trace of torch.profiler.")
    compared = settled(trace)
    found = {name: metric for name in _usual(compared) if (metric := _or_none(compared, name)) is not None}
    found |= {name: metric_of(compared, name) for name in more}
    manifest = trace.manifest
    return MeasuredRun(
        name=manifest.title if manifest else trace.source.files[0].name,
        captured_at=manifest.captured_at if manifest else None,
        facts=facts(trace),
        metrics=found,
        set_aside={step.name: step.why for step in left_out(trace)},
        sha256=tuple(file.sha256 for file in trace.source.files),
        commit=str(manifest.program["git_commit"]) if manifest and manifest.program.get("git_commit") else None,
    )


def _usual(trace: Trace) -> list[str]:
    return [STEP, UNPROFILED, DEVICE_MEMORY, HOST_MEMORY, *GPU_COLUMNS, *(f"{PHASE}:{name}" for name in _phase_names(trace))]


def _phase_names(trace: Trace) -> list[str]:
    return [str(name) for name in phases(trace).per_step.columns]


def _or_none(trace: Trace, name: str) -> Metric | None:
    try:
        return metric_of(trace, name)
    except MissingData:
        return None


def refuse_unknown(name: str) -> None:
    """ChangeError for a name that means nothing."""
    kind, colon, label = name.partition(":")
    if not (colon and label and kind in TABLES) and name not in NAMES:
        raise ChangeError(f"{name} is no metric; possible are {', '.join(NAMES)}.")


def metric_of(trace: Trace, name: str) -> Metric:
    """One metric by its name; errors as `measured`."""
    refuse_unknown(name)
    kind, colon, label = name.partition(":")
    if colon:
        return Metric("ns", _column(TABLES[kind](trace), kind, label))
    if name in GPU_COLUMNS:
        return _of_gpu(trace, name)
    if name in (DEVICE_MEMORY, HOST_MEMORY):
        return _of_memory(trace, name)
    if name == UNPROFILED:
        return _unprofiled(trace)
    rows = steps(trace).rows
    return Metric("ns", rows.loc[rows["counted"], "step_ns"].to_numpy(np.float64))


def _phases(trace: Trace) -> pd.DataFrame:
    return phases(trace).per_step


def _ops(trace: Trace) -> pd.DataFrame:
    """Self time."""
    return step_time(trace).per_step("name")


def _kernels(trace: Trace) -> pd.DataFrame:
    return launched_work(trace).times


TABLES: Mapping[str, Callable[[Trace], pd.DataFrame]] = {PHASE: _phases, OP: _ops, KERNEL: _kernels}
NAMES = (
    STEP, UNPROFILED, DEVICE_MEMORY, HOST_MEMORY, *GPU_COLUMNS, *(f"{kind}:NAME" for kind in TABLES),
)  # fmt: skip


def _column(table: pd.DataFrame, kind: str, label: str) -> Floats:
    """Zero in every step where nothing has that name: it may be gone."""
    named = {str(column): column for column in table.columns}
    return table[named[label]].to_numpy(np.float64) if label in named else np.zeros(len(table))


def _of_gpu(trace: Trace, name: str) -> Metric:
    rows = gpu_steps(trace).rows
    column = GPU_COLUMNS[name]
    by_step = rows[rows["counted"]].groupby("step")[column].sum(min_count=1)
    if by_step.isna().any() or by_step.empty:
        raise MissingData(f"{name} cannot be told of every step of {trace.source.files[0].name}; its report says why.")
    return Metric("count" if name.endswith("_count") else "ns", by_step.to_numpy(np.float64))


def _of_memory(trace: Trace, name: str) -> Metric:
    """The peak of each step, added over devices."""
    rows = memory(trace).steps
    own = rows[(rows["place"] == "host") == (name == HOST_MEMORY)]
    peaks = own.groupby("name", sort=False)["peak_bytes"].sum(min_count=1)
    if peaks.empty or peaks.isna().any():
        raise MissingData(f"{name} was not recorded; capture with memory=True (profile_memory=True).")
    return Metric("bytes", peaks.to_numpy(np.float64))


def _unprofiled(trace: Trace) -> Metric:
    """Steps that ran before the profiler was started, all but the first, which warms up."""
    times = unprofiled_times(trace.manifest)[1:]
    if not times:
        raise MissingData("Steps without the profiler were not timed; capture with longpole.capture.record().")
    return Metric("ns", np.array(times, np.float64))
