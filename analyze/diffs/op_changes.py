"""Which operators and kernels changed?"""

from dataclasses import dataclass

import pandas as pd

from ..analyses.gpu_kernels import kernel_time_per_step
from ..step_time import OUTSIDE, OUTSIDE_LABEL, step_time
from ..trace import Trace
from .changes import changes


@dataclass(frozen=True, eq=False)
class OpChanges:
    """`ops`: rows as in `changes`, self time per step by operator, adding up to the change of the step.

    `kernels`: the same for device work by name, of the steps that launched it; no rows without a GPU.
    """

    ops: pd.DataFrame
    kernels: pd.DataFrame


def op_changes(before: Trace, after: Trace) -> OpChanges:
    """Compare self time of operators, and time of kernels, per step."""
    return OpChanges(changes(_ops(before), _ops(after)), changes(_kernels(before), _kernels(after)))


def _ops(trace: Trace) -> pd.DataFrame:
    return step_time(trace).per_step("name").rename(columns={OUTSIDE: OUTSIDE_LABEL})


def _kernels(trace: Trace) -> pd.DataFrame:
    table = kernel_time_per_step(trace)
    return table.T.groupby(level="name", sort=False).sum().T if table.shape[1] else table
