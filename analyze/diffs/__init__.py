"""One question about two traces each; DIFFS is the table of contents of a before/after report."""

from .comparability import comparability
from .op_changes import op_changes
from .phase_changes import phase_changes
from .step_change import step_change

DIFFS = {
    "Step time": step_change,
    "Phases": phase_changes,
    "Operators and kernels": op_changes,
    "Are the runs comparable?": comparability,
}
