"""How often does the program read a single number out of a tensor (.item(), float(), if tensor)?"""

from dataclasses import dataclass

import pandas as pd

from ...capture.errors import MissingData
from ..findings import Evidence, Finding, Text, notable
from ..step_time import step_time
from ..trace import Trace

READS = ("aten::item", "aten::is_nonzero")  # .item(), float(t), int(t); if t
PHASE_OF_LIBRARY = "optimizer"  # a per-parameter optimizer reads its own step counters; optimizer_step speaks of that


@dataclass(frozen=True, eq=False)
class ScalarReads:
    """`rows`: phase; calls_count, step_ns (whole calls): reads per step and their time, the optimizer's own left out.

    `waits`: on a GPU run each read waits until the device has caught up, and its time is mostly that wait.
    """

    rows: pd.DataFrame
    step_ns: float
    waits: bool
    findings: tuple[Finding, ...]


def scalar_reads(trace: Trace) -> ScalarReads:
    """Outermost calls of READS in the steps, by phase."""
    found = step_time(trace)
    if not found.rows["calls"].any():
        raise MissingData("The trace holds no operators inside its steps; capture with CPU activity on.")
    reads = found.sums(found.rows[found.rows["name"].isin(READS) & (found.rows["calls"] > 0)])
    reads = reads[reads["phase"] != PHASE_OF_LIBRARY]
    sums = reads.groupby("phase", sort=False)[["calls", "total_ns"]].sum().reset_index()
    rows = pd.DataFrame({
        "phase": sums["phase"], "calls_count": sums["calls"] / found.count, "step_ns": sums["total_ns"] / found.count,
    }).sort_values(["step_ns", "phase"], ascending=[False, True], kind="stable", ignore_index=True)  # fmt: skip
    step_ns, waits = found.step_ns, bool(len(trace.device))
    findings = notable([_finding(rows, step_ns)], step_ns) if len(rows) and not waits else ()
    return ScalarReads(rows, step_ns, waits, findings)


def _finding(rows: pd.DataFrame, step_ns: float) -> Finding:
    """Saving: all reads but one a step; at most all, at least nothing, when every one of them is needed at once."""
    calls, total_ns = float(rows["calls_count"].sum()), float(rows["step_ns"].sum())
    return Finding(
        id="scalar_reads",
        title=Text.of("Read numbers out of tensors less often"),
        problem=Text.of(
            "The step reads {calls_count} single numbers out of tensors ({first} first), {reads_ns} of the {step_ns} step. On a "
            "GPU each of them would also wait for all work before it.",
            calls_count=round(calls), first=str(rows["phase"].iloc[0]), reads_ns=total_ns, step_ns=step_ns,
        ),
        advice=Text.of(
            "Keep losses and metrics as tensors, add them up there, and call .item() once every many steps; read a batch of "
            "results with one .tolist()."
        ),
        saving_ns=total_ns * max(0.0, 1 - 1 / calls),
        low_ns=0,
        high_ns=total_ns,
        confidence="low",
        evidence=(
            Evidence("reads per step", "calls_count", calls),
            Evidence("time of the reads, per step", "reads_ns", total_ns),
        ),
        bound="host",
        phase=str(rows["phase"].iloc[0]),
    )  # fmt: skip
