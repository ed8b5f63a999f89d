"""How often does the program read a single number out of a tensor (.item(), float(), if tensor)?"""

from dataclasses import dataclass

import pandas as pd

from ...capture.errors import MissingData
from ..calls import cpu_calls
from ..findings import Evidence, Finding, Text, notable
from ..step_time import step_time
from ..trace import Trace

READS = ("aten::item", "aten::is_nonzero")  # .item(), float(t), int(t); if t
PHASE_OF_LIBRARY = "optimizer"  # a per-parameter optimizer reads its own step counters; optimizer_step speaks of that
NEAR_CALLS = 4  # from one read of a loop to the next: the read, and what makes the number
LOOP_COUNT = 4  # reads one after the other: fewer are lines of a program


@dataclass(frozen=True)
class Loops:
    """Per step: reads of loops; the loops from the first call of the first turn to the last read, with the Python between."""

    calls: float
    region_ns: float


@dataclass(frozen=True, eq=False)
class ScalarReads:
    """`rows`: phase; calls_count, step_ns (whole calls): reads per step and their time, the optimizer's own left out.

    `waits`: on a GPU run each read waits until the device has caught up, and its time is mostly that wait; `loops` is None then.
    """

    rows: pd.DataFrame
    step_ns: float
    waits: bool
    loops: Loops | None
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
    loops = None if waits else _loops(trace, found.count)
    worth = [_finding(rows, loops, step_ns)] if len(rows) and loops else []
    return ScalarReads(rows, step_ns, waits, loops, notable(worth, step_ns, found.unprofiled_share))


def _loops(trace: Trace, steps: int) -> Loops:
    calls = cpu_calls(trace)
    reads = calls.named(*READS) & (calls.phase != PHASE_OF_LIBRARY)
    found = calls.clusters(reads, NEAR_CALLS)
    loop = found.count >= LOOP_COUNT
    first, last = found.first[loop], found.last[loop]
    return Loops(
        float(found.count[loop].sum()) / steps,
        float((calls.end_ns[last] - calls.start_ns[first]).sum()) / steps,
    )


def _finding(rows: pd.DataFrame, loops: Loops, step_ns: float) -> Finding:
    """Saving: of loops between nothing and the whole region, half of it expected, for one operator that makes all the numbers
    costs something too. Reads outside loops, but for one a step, are expected to go and may all be needed.

    Confidence: medium where a loop reads, low where the reads stand alone.
    """
    calls, total_ns = float(rows["calls_count"].sum()), float(rows["step_ns"].sum())
    alone = calls - loops.calls
    alone_ns = total_ns * alone / calls
    alone_saving_ns = alone_ns * (1.0 if loops.calls else max(0.0, 1 - 1 / alone))
    return Finding(
        id="scalar_reads",
        title=Text.of("Read numbers out of tensors less often"),
        problem=Text.of(
            "The step reads {calls_count:single number} out of tensors ({first} first), {reads_ns} of the "
            "{step_ns} step"
            + (", {loop_count} of them in loops that take {region_ns}" if loops.calls else "")
            + ". On a GPU each of them would also wait for all work before it.",
            calls_count=round(calls), first=str(rows["phase"].iloc[0]), reads_ns=total_ns, step_ns=step_ns,
            loop_count=round(loops.calls), region_ns=loops.region_ns,
        ),
        advice=Text.of(
            "Keep losses and metrics as tensors, add them up there, and call .item() once every many steps; compute the norms of "
            "all parameters together (torch._foreach_norm, torch.stack) and read a batch of results with one .tolist()."
        ),
        saving_ns=loops.region_ns / 2 + alone_saving_ns,
        low_ns=0,
        high_ns=loops.region_ns + alone_ns,
        confidence="medium" if loops.calls else "low",
        evidence=(
            Evidence("reads per step", "calls_count", calls),
            Evidence("time of the reads, per step", "reads_ns", total_ns),
            Evidence("loops of reads with the Python between, per step", "region_ns", loops.region_ns),
        ),
        bound="host",
        phase=str(rows["phase"].iloc[0]),
    )  # fmt: skip
