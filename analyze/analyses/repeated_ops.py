"""Does a Python loop call small operators one element at a time?"""

import re
from dataclasses import dataclass

import pandas as pd

from ...capture.errors import MissingData
from ..findings import Evidence, Finding, Text, notable
from ..step_marks import WHOLE_TRACE
from ..step_time import OUTSIDE, StepTime, step_time
from ..trace import Trace

MANY_CALLS = 12  # per step and name: fewer are the lines of a program, not the turns of a loop
SMALL_NS = 50_000  # ten times the dispatch of an operator: work on single elements, not on batches
LOOPED = {"data_loading", "input", "environment", "sampling", "output"}  # other phases repeat operators for layers or parameters
LOADING = "data_loading"
LAYER = re.compile(r"aten::(linear|addmm|mm|bmm|baddbmm|matmul|_?conv|.*convolution|.*attention|.*_norm)")  # a network runs here


@dataclass(frozen=True, eq=False)
class RepeatedOps:
    """`rows`: phase; name; calls_count (outermost calls per step); call_ns (mean); step_ns (per step), of repeated operators."""

    rows: pd.DataFrame
    step_ns: float
    findings: tuple[Finding, ...]


def repeated_ops(trace: Trace) -> RepeatedOps:
    """Outermost operators that one phase calls MANY_CALLS times a step, each shorter than SMALL_NS on average."""
    found = step_time(trace)
    if found.steps["name"].iloc[0] == WHOLE_TRACE:
        raise MissingData("The trace marks no steps, so calls per step cannot be counted; call profiler.step() once per turn.")
    calls = found.sums(found.rows[found.rows["calls"] > 0])
    if calls.empty:
        raise MissingData("The trace holds no operators inside its steps; capture with CPU activity on.")
    steps = found.count
    rows = pd.DataFrame({
        "phase": calls["phase"],
        "name": calls["name"],
        "calls_count": calls["calls"] / steps,
        "call_ns": calls["total_ns"] / calls["calls"],
        "step_ns": calls["total_ns"] / steps,
    })  # fmt: skip
    repeated = rows[(rows["calls_count"] >= MANY_CALLS) & (rows["call_ns"] < SMALL_NS)]
    repeated = repeated.sort_values(["step_ns", "phase", "name"], ascending=[False, True, True], kind="stable", ignore_index=True)
    step_ns = found.step_ns
    loops = [] if len(trace.device) else [_loop(found, rows, part) for _, part in repeated.groupby("phase", sort=False)]
    return RepeatedOps(repeated, step_ns, notable((loop for loop in loops if loop), step_ns, found.unprofiled_share))


def _loop(found: StepTime, rows: pd.DataFrame, part: pd.DataFrame) -> Finding | None:
    """Saving: each operator called once instead of n times, and the Python between those calls with it.

    At least the operators' own repeated time; at most the whole phase. The expected saving takes the Python in proportion to
    the calls, and one call of each operator stays; in a loader, which waits and decodes between them, it takes none.
    """
    phase = str(part["phase"].iloc[0])
    if phase not in LOOPED or rows.loc[rows["phase"] == phase, "name"].str.match(LAYER).any():
        return None
    calls, kinds, ops_ns = float(part["calls_count"].sum()), len(part), float(part["step_ns"].sum())
    python_ns = 0.0 if phase == LOADING else _outside_ns(found, phase)
    goes = 1 - kinds / calls
    calls_share = calls / float(rows.loc[rows["phase"] == phase, "calls_count"].sum())
    step_ns = found.step_ns
    phase_ns = float(found.rows.loc[found.rows["phase"] == phase, "self_ns"].sum()) / found.count
    first = str(part["name"].iloc[0])
    return Finding(
        id=f"repeated_ops:{phase}",
        title=Text.of("Batch the {loop_count:small operator call} in {phase}", loop_count=round(calls), phase=phase),
        problem=Text.of(
            "In {phase}, {kinds_count:operator is|operators are} called {loop_count:time} a step, {first} taking most time, "
            "each for only {call_ns}; with the Python around them they hold {loop_ns} of the {step_ns} step.",
            phase=phase, kinds_count=kinds, loop_count=round(calls),
            first=first, call_ns=ops_ns / calls, loop_ns=ops_ns + python_ns * calls_share, step_ns=step_ns,
        ),
        advice=Text.of(
            "Work on the whole batch at once: keep the data in preallocated tensors and index them with one tensor of indices, "
            "instead of making or reading one element per turn of a Python loop."
        ),
        saving_ns=(ops_ns + python_ns * calls_share) * goes,
        low_ns=ops_ns * goes,
        high_ns=phase_ns,
        confidence="high" if calls >= 5 * kinds * MANY_CALLS else "medium",
        evidence=(
            Evidence("operator calls per step in the loop", "calls_count", calls),
            Evidence("time in these operators per step", "ops_ns", ops_ns),
            Evidence("time outside operators in this phase, per step", "python_ns", python_ns),
            Evidence("the whole phase, per step", "phase_ns", phase_ns),
        ),
        bound="input_pipeline" if phase == "data_loading" else "host",
        phase=phase,
    )  # fmt: skip


def _outside_ns(found: StepTime, phase: str) -> float:
    outside = (found.rows["phase"] == phase) & (found.rows["name"] == OUTSIDE)
    return float(found.rows.loc[outside, "self_ns"].sum()) / found.count
