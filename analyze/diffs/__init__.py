"""One question about two sides each; DIFFS is the table of contents of a before/after report, `diffs_for` that of any two."""

from collections.abc import Callable, Mapping
from typing import Any

from ...capture.errors import MissingData
from ..forms import form, written_by
from .call_changes import call_changes
from .comparability import comparability
from .memory_changes import memory_changes
from .module_changes import module_changes
from .op_changes import op_changes
from .outcome import outcome
from .phase_changes import phase_changes
from .sides import Side
from .step_change import step_change
from .total_changes import total_changes

DIFFS = {
    "Step time": step_change,
    "Predicted and measured": outcome,
    "Phases": phase_changes,
    "Calls that explain the change": call_changes,
    "Operators and kernels": op_changes,
    "Modules": module_changes,
    "Memory": memory_changes,
    "Are the runs comparable?": comparability,
}
TOTALS = {"Totals by name": total_changes, "Are the runs comparable?": comparability}  # without statistics of steps


def diffs_for(before: Side, after: Side) -> Mapping[str, Callable[..., Any]]:
    """The questions that can be asked of these two; MissingData for recordings of two tools, which share no names."""
    forms, tools = {form(trace) for trace in (*before, *after)}, [*dict.fromkeys(map(written_by, (*before, *after)))]
    if "ranges" in forms and len(tools) > 1:
        raise MissingData(
            f"One recording is of {tools[0]}, another of {tools[1]}, and what these name cannot be matched; "
            "compare recordings of one tool."
        )
    return DIFFS if forms == {"pytorch"} else TOTALS
