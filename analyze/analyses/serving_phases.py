"""How long do prefill and decode take, and how many tokens a second do they make?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..device_measures import of_devices
from ..durations import repaired_work
from ..step_marks import DECODE, PREFILL, tokens_of
from ..step_work import StepWork, busy_by_group, step_work
from ..trace import Trace

RATED = (PREFILL, DECODE)
BUSY = {"gpu_busy_ns_by_phase": "busy_ns", "gpu_busy_share_by_phase": "busy_share"}
NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class ServingPhases:
    """Over whole steps that are not aside; the phases are never averaged together.

    `rows`: phase (prefill, decode, or the engine's word in lower case), in the order of its first step; steps_count; total_ns,
    mean_ns, median_ns, p95_ns, max_ns; tokens_count and tokens_per_s (NaN where they cannot be told).
    `gpu`: phase; device; busy_ns (union of the work that the phase's steps launched, wherever it runs); total_ns; busy_share of
    it. Empty without GPU work, and where `gpu_withheld` says why it cannot be told. Where the GPU works longer than the steps
    last, they mark when it was launched, not how long it took: busy_share and tokens_per_s are NaN.
    """

    rows: pd.DataFrame
    gpu: pd.DataFrame
    gpu_withheld: str | None

    @property
    def behind(self) -> tuple[str, ...]:
        """Phases on whose work the GPU takes longer than their steps."""
        return tuple(self.gpu.loc[self.gpu["busy_share"].isna(), "phase"].unique())

    @property
    def measures(self) -> Mapping[str, Any]:
        """By phase; of several devices their busy time by device, then by phase."""
        rows = self.rows.set_index("phase")
        columns = {"steps_by_phase": "steps_count", "phase_ns": "total_ns", "tokens_by_phase": "tokens_count"}
        return {
            **{name: rows[column].to_dict() for name, column in columns.items()},
            **{f"{phase}_tokens_per_s": float(rows["tokens_per_s"][phase]) for phase in RATED if phase in rows.index},
            **({name: self._by_device(column) for name, column in BUSY.items()} if len(self.gpu) else {}),
        }

    def _by_device(self, column: str) -> dict[Any, Any]:
        return of_devices({device: part.set_index("phase")[column].to_dict() for device, part in self.gpu.groupby("device")})

    @property
    def withheld(self) -> Mapping[str, str]:
        rows = self.rows[self.rows["phase"].isin(RATED) & self.rows["tokens_per_s"].isna()]
        unrated = {
            f"{phase}_tokens_per_s": self._why_unrated(phase, n)
            for phase, n in zip(rows["phase"], rows["tokens_count"], strict=True)
        }
        return unrated | (dict.fromkeys(BUSY, self.gpu_withheld) if self.gpu_withheld else {})

    def _why_unrated(self, phase: str, tokens: float) -> str:
        if np.isnan(tokens):
            return f"the marks of {phase} steps do not tell their tokens"
        return self.gpu_withheld or f"the GPU works longer on what {phase} steps launch than they last"


def serving_phases(trace: Trace) -> ServingPhases:
    """Steps by their phase; MissingData where no serving engine marks any."""
    found = step_work(trace)
    whole = found.steps[~found.steps["partial"] & ~found.steps["aside"] & (found.steps["kind"] != "")]
    if whole.empty:
        raise MissingData("The trace marks no serving steps (step[EXTEND …], step[DECODE …]).")
    withheld = _withheld(found, whole) if len(trace.device) else None
    rows, gpu = _phases(whole), _gpu(trace, found, whole)
    gpu = gpu[gpu["total_ns"] > 0] if withheld is None else gpu.head(0)
    behind = gpu["phase"].isin(gpu.loc[gpu["busy_ns"] > gpu["total_ns"], "phase"])
    gpu["busy_share"] = (gpu["busy_ns"] / gpu["total_ns"]).mask(behind)
    unrated = rows["phase"].isin(gpu.loc[behind, "phase"]) | (withheld is not None)
    rows["tokens_per_s"] = (rows["tokens_count"] / rows["total_ns"] * NS_PER_S).mask(unrated)
    return ServingPhases(rows, gpu, withheld)


def _withheld(found: StepWork, whole: pd.DataFrame) -> str | None:
    return found.offset or found.strays or (found.gaps if found.incomplete[whole.index].any() else None)


def _phases(whole: pd.DataFrame) -> pd.DataFrame:
    tokens = [tokens_of(name, kind) for name, kind in zip(whole["name"], whole["kind"], strict=True)]
    groups = whole.assign(tokens=tokens).groupby("kind", sort=False)
    times, unknown = groups["step_ns"], groups["tokens"].size() > groups["tokens"].count()
    return pd.DataFrame({
        "steps_count": times.size(), "total_ns": times.sum(), "mean_ns": times.mean(), "median_ns": times.median(),
        "p95_ns": times.quantile(0.95), "max_ns": times.max(), "tokens_count": groups["tokens"].sum().mask(unknown),
    }).rename_axis("phase").reset_index()  # fmt: skip


def _gpu(trace: Trace, found: StepWork, whole: pd.DataFrame) -> pd.DataFrame:
    """The work of each phase on each device."""
    total = whole.groupby("kind", sort=False)["step_ns"].sum()
    phase = np.append(pd.Index(total.index).get_indexer(pd.Index(whole["kind"].reindex(found.steps.index))), -1)[found.step]
    devices, work = np.unique(trace.device.device), repaired_work(trace)
    busy = [
        busy_by_group(phase[mine], work.start_ns[mine], work.end_ns[mine], len(total))
        for mine in (work.device == device for device in devices)
    ]
    return pd.DataFrame({
        "phase": np.tile(total.index, len(devices)), "device": np.repeat(devices, len(total)),
        "busy_ns": np.concatenate([np.empty(0, np.int64), *busy]), "total_ns": np.tile(total, len(devices)),
    })  # fmt: skip
