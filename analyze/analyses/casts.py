"""Does the step convert the same tensors to another type or device again and again?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .. import trace as t
from ..calls import Calls, cpu_calls
from ..findings import Evidence, Finding, Text, notable
from ..step_time import step_time
from ..trace import Mask, Trace

CASTS = ("aten::to", "aten::_to_copy", "aten::type_as")
COPIES = "aten::_to_copy"  # inside aten::to: without it the tensor was of that type already
MADE = ("aten::lift_fresh", "aten::detach_")  # right after a copy: torch.tensor, which makes a tensor from numbers
FEW_COUNT = 2  # per step and phase: one conversion is the batch's
NOT_THE_PROGRAMS = ("data_loading", "input", "optimizer")  # there every batch is new, or the library converts


@dataclass(frozen=True, eq=False)
class Casts:
    """`rows`: phase; calls_count, copies_ns: conversions that copy and their time, per step; region_ns: with the Python to the
    next call.
    """

    rows: pd.DataFrame
    step_ns: float
    findings: tuple[Finding, ...]


def casts(trace: Trace) -> Casts:
    """Conversions that the steps' own code calls and that make a new tensor, by phase; CPU runs only."""
    calls, found = cpu_calls(trace), step_time(trace)
    made = np.append(calls.named(*MADE)[1:] & calls.follows()[1:], False)
    copying = calls.named(*CASTS) & _holds_copy(trace, calls) & ~made
    sums = pd.DataFrame({
        "phase": calls.phase[copying],
        "calls_count": 1,
        "copies_ns": (calls.end_ns - calls.start_ns)[copying],
        "region_ns": (calls.until_ns - calls.start_ns)[copying],
    }).groupby("phase", sort=False).sum()  # fmt: skip
    rows = (sums / found.count).reset_index()
    rows = rows.sort_values(["copies_ns", "phase"], ascending=[False, True], kind="stable", ignore_index=True)
    several = rows[(rows["calls_count"] >= FEW_COUNT) & ~rows["phase"].isin(NOT_THE_PROGRAMS)]
    worth = [_finding(several, found.step_ns)] if len(several) else []
    return Casts(rows, found.step_ns, notable(worth, found.step_ns, found.unprofiled_share))


def _holds_copy(trace: Trace, calls: Calls) -> Mask:
    """Which calls have a copying conversion inside, or are one."""
    host = trace.host
    copies = np.array([name == COPIES for name in trace.names], bool)
    inside = (host.category == t.OP) & (host.thread == host.thread[calls.row[0]])
    inside[inside] = copies[host.name[inside]]
    start = np.sort(host.start_ns[inside])
    return np.searchsorted(start, calls.end_ns) > np.searchsorted(start, calls.start_ns)


def _finding(rows: pd.DataFrame, step_ns: float) -> Finding:
    """Saving: all of these conversions with the Python around them, if what they read is the same in every step; nothing, if it
    is not; half is expected.

    Confidence: low, for a trace does not say which tensor a call gets.
    """
    calls, copies_ns, region_ns = (float(rows[name].sum()) for name in ("calls_count", "copies_ns", "region_ns"))
    phase = str(rows["phase"].iloc[0])
    return Finding(
        id="casts",
        title=Text.of("Convert tensors once, not in every step"),
        problem=Text.of(
            "The step converts {calls_count:tensor} to another type or device ({phase} first), each a copy: "
            "{copies_ns} of the {step_ns} step.",
            calls_count=round(calls), phase=phase, copies_ns=copies_ns, step_ns=step_ns,
        ),
        advice=Text.of(
            "Keep weights, masks and constants in the type they are used in, converted once outside the loop; leave out "
            "conversions that undo each other. Inputs that are new in every step and mixed precision need theirs."
        ),
        saving_ns=region_ns / 2,
        low_ns=0,
        high_ns=region_ns,
        confidence="low",
        evidence=(
            Evidence("conversions that copy, per step", "calls_count", calls),
            Evidence("their time, per step", "copies_ns", copies_ns),
            Evidence("with the Python after each of them", "region_ns", region_ns),
        ),
        bound="host",
        phase=phase,
    )  # fmt: skip
