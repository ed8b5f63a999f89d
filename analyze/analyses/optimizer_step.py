"""Does the optimizer update one parameter at a time?"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..findings import Evidence, Finding, Text, notable
from ..intervals import union
from ..step_time import OPTIMIZER_RANGE, outermost_ops, row_at, step_time, update_start
from ..trace import Ints, Trace

GROUPED_NS = 40_000  # what a foreach or fused update of a few small tensors costs itself
DISPATCH_NS = 10_000  # an operator on a tiny tensor takes 1 to 10 µs, all of it dispatch
FOREACH, FUSED = "aten::_foreach_", "aten::_fused_"  # operators that take all parameters at once
# Of a foreach update what the fused one is expected to save, a judgement: one pass over the tensors for many. Measured with torch
# 2.13 on one thread, 8 to 40 tensors of 16 kB to 4 MB: Adam and AdamW 0.64 to 0.85, Adagrad 0.70 to 0.75, SGD with momentum 0.35
# to 0.54, without, a single pass, nothing.
FUSED_SAVES = {"Adam": 0.65, "AdamW": 0.65, "Adagrad": 0.65, "SGD": 0.4}
VERSION = re.compile(r"(\d+)\.(\d+)")
FEWEST_PASSES = 2  # kinds of foreach operators
FIRST_FUSED = (2, 4)  # of torch, on a CPU


@dataclass(frozen=True, eq=False)
class OptimizerStep:
    """`rows`: name; calls_count (outermost, per step); ops_ns (per step), of operators inside Optimizer.step#... ranges.

    `optimizer_ns`: those ranges, per step, without the forward and backward pass of a closure. `together`: whether foreach or
    fused operators do the update. `parameters`: tensors updated one by one, as the calls of the rarest repeated in-place
    operator tell; 0 where none is.
    """

    rows: pd.DataFrame
    optimizer_ns: float
    step_ns: float
    together: bool
    parameters: int
    findings: tuple[Finding, ...]


def optimizer_step(trace: Trace) -> OptimizerStep:
    """Operators that Optimizer.step calls in a step; MissingData for runs without one."""
    found = step_time(trace)
    counted = found.steps
    start, end = _ranges(trace, counted)
    if not len(start):
        raise MissingData("No optimizer of torch runs in the steps; nothing to look at in inference.")
    rows = _calls(trace, counted, start, end)
    optimizer_ns, step_ns = float((end - start).sum()) / found.count, found.step_ns
    together = any(str(name).startswith((FOREACH, FUSED)) for name in rows["name"])
    parameters = 0 if together else _parameters(rows, len(start) / found.count)
    worth = [_one_by_one(rows, optimizer_ns, step_ns, parameters)] if parameters > 1 else _pass_by_pass(trace, counted)
    if len(trace.device):
        worth = []
    findings = notable(worth, step_ns, found.unprofiled_share)
    return OptimizerStep(rows, optimizer_ns, step_ns, together, parameters, findings)


def _ranges(trace: Trace, counted: pd.DataFrame, beginning: str = OPTIMIZER_RANGE) -> tuple[Ints, Ints]:
    """The ranges of optimizers that lie in counted steps, on the steps' threads."""
    host = trace.host
    named = np.array([name.startswith(beginning) for name in trace.names], bool)
    marked = host[np.flatnonzero(host.category == t.ANNOTATION)]
    marked = marked[named[marked.name] & np.isin(marked.thread, counted["thread"].to_numpy())]
    inside = row_at(counted["start_ns"].to_numpy(), counted["end_ns"].to_numpy(), marked.start_ns) >= 0
    marked = marked[inside]
    return union(update_start(trace, marked.name, marked.start_ns, marked.end_ns), marked.end_ns)


def _calls(trace: Trace, counted: pd.DataFrame, start: Ints, end: Ints) -> pd.DataFrame:
    host, rows = trace.host, outermost_ops(trace, counted)
    rows = rows[row_at(start, end, host.start_ns[rows]) >= 0]
    name_of, names = pd.factorize(np.array(trace.names, object))
    calls = pd.DataFrame({"name": name_of[host.name[rows]], "calls": 1, "ns": host.end_ns[rows] - host.start_ns[rows]})
    sums = calls.groupby("name", sort=False)[["calls", "ns"]].sum().reset_index()
    sums["name"] = names[sums["name"]]
    table = pd.DataFrame({
        "name": sums["name"], "calls_count": sums["calls"] / len(counted), "ops_ns": sums["ns"] / len(counted),
    })  # fmt: skip
    return table.sort_values(["ops_ns", "name"], ascending=[False, True], kind="stable", ignore_index=True)


def _parameters(rows: pd.DataFrame, updates: float) -> int:
    """Calls of the rarest repeated in-place operator in one update; `updates`: how many a step makes."""
    calls = (rows["calls_count"] / updates)[rows["name"].str.endswith("_")]
    return round(calls[calls >= 2].min()) if (calls >= 2).any() else 0


def _one_by_one(rows: pd.DataFrame, optimizer_ns: float, step_ns: float, parameters: int) -> Finding:
    """Saving: each kind of operator is called once instead of once a parameter, so the cost of the calls that go.

    A call costs the Python around it and at most DISPATCH_NS of the operator's own time: the arithmetic stays. What replaces
    the calls costs something of its own, foreach on a CPU sometimes all of it: at least nothing is saved, at most the whole
    update. Confidence: medium, for the estimate lies within a wide range.
    """
    calls, ops_ns = float(rows["calls_count"].sum()), float(rows["ops_ns"].sum())
    going = calls * (1 - 1 / parameters)
    python_ns = max(0.0, optimizer_ns - ops_ns) / calls
    expected = max(0.0, min(optimizer_ns, going * (python_ns + min(ops_ns / calls, DISPATCH_NS))) - GROUPED_NS)
    return Finding(
        id="optimizer_step",
        title=Text.of("Let the optimizer update all parameters at once"),
        problem=Text.of(
            "The optimizer calls {calls_count:operator} a step for {parameters_count} parameter tensors, one tensor after the "
            "other: {optimizer_ns} of the {step_ns} step.",
            calls_count=round(calls), parameters_count=parameters, optimizer_ns=optimizer_ns, step_ns=step_ns,
        ),
        advice=Text.of(
            "Construct it with fused=True (Adam, AdamW, SGD and Adagrad have it), else with foreach=True, which on a CPU saves "
            "less; the arithmetic is the same, in one call or a few."
        ),
        saving_ns=expected,
        low_ns=0.0,
        high_ns=optimizer_ns,
        confidence="medium",
        evidence=(
            Evidence("operator calls per step in the optimizer", "calls_count", calls),
            Evidence("parameter tensors updated one by one", "parameters_count", parameters),
            Evidence("the optimizer's step, per step", "optimizer_ns", optimizer_ns),
        ),
        bound="host",
        phase="optimizer",
    )  # fmt: skip


def _pass_by_pass(trace: Trace, counted: pd.DataFrame) -> list[Finding]:
    """For each optimizer that has a fused form and runs in several foreach operators; those beside fused ones count steps."""
    if _before_fused(trace):
        return []
    ranges = ((kind, *_ranges(trace, counted, f"{OPTIMIZER_RANGE}{kind}.")) for kind in FUSED_SAVES)
    found = ((kind, _calls(trace, counted, start, end), float((end - start).sum())) for kind, start, end in ranges if len(start))
    unfused = ((kind, rows, ns) for kind, rows, ns in found if not rows["name"].str.startswith(FUSED).any())
    passes = ((kind, rows[rows["name"].str.startswith(FOREACH)], ns) for kind, rows, ns in unfused)
    step_ns = float(counted["step_ns"].mean())
    return [_fused(kind, rows, ns / len(counted), step_ns) for kind, rows, ns in passes if len(rows) >= FEWEST_PASSES]


def _before_fused(trace: Trace) -> bool:
    """Whether the recorder noted a version of torch without fused optimizers for the CPU."""
    version = VERSION.match(str(trace.manifest.versions.get("torch", ""))) if trace.manifest else None
    return version is not None and tuple(map(int, version.groups())) < FIRST_FUSED


def _fused(kind: str, rows: pd.DataFrame, optimizer_ns: float, step_ns: float) -> Finding:
    calls = float(rows["calls_count"].sum())
    return Finding(
        id=f"optimizer_step:{kind}",
        title=Text.of("Use the fused optimizer"),
        problem=Text.of(
            "{kind} passes over all parameters in {calls_count:foreach operator} a step, one after the other: {optimizer_ns} of "
            "the {step_ns} step.",
            kind=kind, calls_count=round(calls), optimizer_ns=optimizer_ns, step_ns=step_ns,
        ),
        advice=Text.of(
            "Construct {kind} with fused=True instead of foreach=True: one operator reads and writes each tensor once. On a CPU "
            "it is there from torch 2.4 on.",
            kind=kind,
        ),
        saving_ns=FUSED_SAVES[kind] * optimizer_ns,
        low_ns=0.0,
        high_ns=optimizer_ns,
        confidence="medium",
        evidence=(
            Evidence("foreach operators per step in the optimizer", "calls_count", calls),
            Evidence("the optimizer's step, per step", "optimizer_ns", optimizer_ns),
        ),
        bound="host",
        phase="optimizer",
        assumes=("the parameters are of types that the fused form supports",),
    )  # fmt: skip
