"""One question about one trace each; ANALYSES is the report's table of contents, `analyses_for` that of any trace's."""

from collections.abc import Callable, Mapping
from typing import Any

from ..forms import form
from ..trace import Trace
from .bottlenecks import bottlenecks
from .buckets import buckets
from .call_tree import call_tree
from .collectives import collectives
from .compiled_regions import compiled_regions
from .copies import copies
from .data_wait import data_wait
from .gpu_kernels import gpu_kernels
from .gpu_steps import gpu_steps
from .health import health
from .idle_causes import idle_causes
from .launching import launching
from .memory import memory
from .modules import modules
from .op_table import op_table
from .optimizer_step import optimizer_step
from .phases import phases
from .ranks import ranks
from .repeated_ops import repeated_ops
from .scalar_reads import scalar_reads
from .serving_phases import serving_phases
from .slices import slices
from .snapshot_agreement import snapshot_agreement
from .steps import steps
from .synchronisations import synchronisations

ANALYSES = {
    "Step time": steps,
    "Where the step goes: GPU": buckets,
    "Where the step goes: CPU": phases,
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
