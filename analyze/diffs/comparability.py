"""Are the two runs comparable: what is the same, what differs, what cannot be known?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..analyses.op_table import op_table
from ..analyses.steps import steps
from ..averages import torch_version
from ..forms import form, written_by
from ..trace import Trace

SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"


@dataclass(frozen=True, eq=False)
class Comparability:
    """`rows`: fact; before; after; status (same, different, unknown); decisive (a difference makes times incomparable)."""

    rows: pd.DataFrame

    @property
    def reasons(self) -> list[str]:
        """Why the runs cannot be compared; empty when they can."""
        bad = self.rows[self.rows["decisive"] & (self.rows["status"] == DIFFERENT)]
        return [f"{row['fact']}: {row['before']} before, {row['after']} after" for row in bad.to_dict("records")]

    @property
    def comparable(self) -> bool:
        return not self.reasons


def comparability(before: Trace, after: Trace) -> Comparability:
    """Compare the facts of two recordings: those of traces, or the few that other forms have."""
    facts = FACTS if form(before) == form(after) == "pytorch" else TOTALS_FACTS
    return Comparability(pd.DataFrame([_row(fact, decisive, of(before), of(after)) for fact, decisive, of in facts]))


def _row(fact: str, decisive: bool, before: Any, after: Any) -> dict[str, Any]:
    if before is None or after is None:
        status = UNKNOWN
    else:
        status = SAME if before == after else DIFFERENT
    shown = [_shown(value) for value in (before, after)]
    return {"fact": fact, "before": shown[0], "after": shown[1], "status": status, "decisive": decisive}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)


def _manifest(section: str, key: str) -> Callable[[Trace], Any]:
    return lambda trace: getattr(trace.manifest, section).get(key) if trace.manifest else None


def _devices(trace: Trace) -> str | None:
    """The GPUs that did work; None where the file does not name them."""
    used = np.unique(trace.device.device).tolist()
    if not used:
        return "no GPU"
    names = trace.source.devices
    return ", ".join(names[i] for i in used) if all(0 <= i < len(names) for i in used) else None


def _torch(trace: Trace) -> str | None:
    if trace.snapshot is not None:
        return torch_version(trace.snapshot)
    return trace.manifest.versions.get("torch") if trace.manifest else None


def _steps_count(trace: Trace) -> int | None:
    return None if form(trace) == "ranges" else op_table(trace).steps_count


FACTS: list[tuple[str, bool, Callable[[Trace], Any]]] = [
    ("Mode", True, lambda trace: steps(trace).mode),
    ("Steps marked", True, lambda trace: steps(trace).window == "steps"),
    ("Kind of step", True, lambda trace: steps(trace).kind or "training or inference step"),
    ("GPU", True, _devices),
    ("CPU", True, _manifest("machine", "cpu")),
    ("PyTorch", False, _manifest("versions", "torch")),
    ("Python", False, _manifest("versions", "python")),
    ("GPU runtime", False, lambda trace: trace.source.runtime if len(trace.device) else "none"),
    ("Samples per step", True, lambda trace: trace.manifest.samples_per_step if trace.manifest else None),
    ("Parameters of the model", True, _manifest("program", "parameters")),
    ("Parameter types", False, _manifest("program", "parameter_dtypes")),
    ("Matmul precision", False, _manifest("program", "matmul_precision")),
    ("Threads", False, _manifest("program", "threads")),
    ("Shapes recorded", True, lambda trace: trace.source.with_shapes),
    ("Stacks recorded", True, lambda trace: trace.source.with_stacks),
    ("Memory recorded", True, lambda trace: trace.source.with_memory),
    ("Ranks", True, lambda trace: trace.source.world_size or 1),
    ("Steps", False, lambda trace: steps(trace).count),
]
TOTALS_FACTS: list[tuple[str, bool, Callable[[Trace], Any]]] = [
    ("Recorded by", False, written_by),
    ("CPU", True, _manifest("machine", "cpu")),
    ("PyTorch", False, _torch),
    ("Steps", False, _steps_count),
]
