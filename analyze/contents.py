"""What is asked of a trace: ANALYSES is the table of contents of a report, `analyses_for` that of any trace."""

from collections.abc import Callable, Mapping
from typing import Any

from .analyses.bottlenecks import bottlenecks
from .analyses.buckets import buckets
from .analyses.call_tree import call_tree
from .analyses.casts import casts
from .analyses.collectives import collectives
from .analyses.compiled_regions import compiled_regions
from .analyses.copies import copies
from .analyses.critical_path import critical_path
from .analyses.data_wait import data_wait
from .analyses.gpu_kernels import gpu_kernels
from .analyses.gpu_steps import gpu_steps
from .analyses.health import health
from .analyses.idle_causes import idle_causes
from .analyses.launching import launching
from .analyses.memory import memory
from .analyses.modules import modules
from .analyses.op_table import op_table
from .analyses.optimizer_step import optimizer_step
from .analyses.phases import phases
from .analyses.ranks import ranks
from .analyses.readbacks import readbacks
from .analyses.repeated_ops import repeated_ops
from .analyses.savings import savings
from .analyses.scalar_reads import scalar_reads
from .analyses.serving_phases import serving_phases
from .analyses.slices import slices
from .analyses.snapshot_agreement import snapshot_agreement
from .analyses.steps import steps
from .analyses.synchronisations import synchronisations
from .analyses.tiny_ops import tiny_ops
from .analyses.zero_grad import zero_grad
from .forms import form
from .trace import Trace

ANALYSES = {
    "Step time": steps,
    "Where the step goes: GPU": buckets,
    "Where the step goes: CPU": phases,
    "Critical path": critical_path,
    "What changes would save": savings,
    "Why the GPU idles": idle_causes,
    "GPU": gpu_kernels,
    "GPU in each step": gpu_steps,
    "Launches": launching,
    "Waiting for the GPU": synchronisations,
    "Copies": copies,
    "Collectives": collectives,
    "Prefill and decode": serving_phases,
    "Bottlenecks": bottlenecks,
    "Small operators in a loop": repeated_ops,
    "Optimizer": optimizer_step,
    "Reading single numbers": scalar_reads,
    "Leaving torch": readbacks,
    "Conversions": casts,
    "Gradients set to zero": zero_grad,
    "Calling and computing": tiny_ops,
    "Waiting for data": data_wait,
    "Host time by range": call_tree,
    "Modules": modules,
    "Compiled regions": compiled_regions,
    "Memory": memory,
    "Operators": op_table,
    "Agreement with torch": snapshot_agreement,
    "Trace health": health,
}
RANGES = {"Named ranges": slices}  # of another tool
SNAPSHOT = {"Operators": op_table}  # of key_averages alone
ACROSS_RANKS = {"Ranks": ranks}  # asked of all ranks of a run together


def analyses_for(trace: Trace) -> Mapping[str, Callable[..., Any]]:
    """The questions that can be asked of this trace."""
    return {"pytorch": ANALYSES, "ranges": RANGES, "snapshot": SNAPSHOT}[form(trace)]
