"""Does the step leave torch for NumPy or Python: .numpy(), .tolist(), print(tensor)?"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..calls import Calls, cpu_calls
from ..findings import Confidence, Evidence, Finding, Text, notable
from ..step_time import step_time
from ..trace import Ints, Mask, Trace

LEAVES = ("aten::resolve_conj", "aten::resolve_neg")  # .numpy() and .tolist() call both, and nothing else does from Python
ON_THE_WAY = ("aten::detach", "aten::clone", "aten::to", "aten::_to_copy", "aten::contiguous", *LEAVES)
COMES_BACK = "aten::lift_fresh"  # torch.from_numpy, torch.tensor, torch.as_tensor
PRINTS = ("aten::isfinite", "aten::masked_select")  # what only the formatting of a tensor calls together
FORMATS = (
    *PRINTS, *ON_THE_WAY, "aten::reshape", "aten::view", "aten::ne", "aten::__and__", "aten::abs", "aten::min", "aten::max",
    "aten::unbind", "aten::ceil", "aten::is_nonzero", "aten::item",
    "aten::div", "aten::gt", "aten::lt", "aten::select", "aten::slice",
)  # fmt: skip
LOOP_COUNT = 4  # reads per step: fewer are lines of a program, more are a loop over parameters or layers
SURE_COUNT = 12
NEAR_CALLS = 8  # from one read of a loop to the next: what makes the value, and up to six calls on the way out
ROUND_TRIP, LOGGING, PRINTING, RESULT = "round trip", "logging", "printing", "result"


@dataclass(frozen=True, eq=False)
class Readbacks:
    """`rows`: phase; kind; calls_count (reads or printed tensors per step); ops_ns (their operators), region_ns (with the Python
    between and after them, up to the next operator), per step.

    Kinds: a round trip comes back into a tensor; logging reads at least LOOP_COUNT tensors one after the other; a result is read
    and stays outside torch; printing formats a tensor.
    """

    rows: pd.DataFrame
    step_ns: float
    findings: tuple[Finding, ...]


def readbacks(trace: Trace) -> Readbacks:
    """Regions in which tensors are read as NumPy arrays or lists, or are printed; CPU runs only."""
    calls, found = cpu_calls(trace), step_time(trace)
    printed = _printed(calls)
    parts = pd.concat([_read(calls, ~printed, found.count), _regions(calls, *calls.runs(printed), found.count)])
    if parts.empty:
        raise MissingData("The steps read no tensor as a NumPy array or a list, and print none.")
    rows = parts.groupby(["phase", "kind"], sort=False)[["calls_count", "ops_ns", "region_ns", "tail_ns"]].sum().reset_index()
    rows = rows.sort_values(["region_ns", "phase", "kind"], ascending=[False, True, True], kind="stable", ignore_index=True)
    worth = [_finding(kind, of_kind, found.step_ns) for kind, of_kind in rows.groupby("kind", sort=False)]
    return Readbacks(rows, found.step_ns, notable(worth, found.step_ns, found.unprofiled_share))


def _printed(calls: Calls) -> Mask:
    """Calls of runs that format a tensor."""
    first, last = calls.runs(calls.named(*FORMATS))
    finite, chosen = (np.concatenate(([0], np.cumsum(calls.named(name)))) for name in PRINTS)
    prints = (finite[last + 1] > finite[first]) & (chosen[last + 1] > chosen[first])
    border = np.zeros(len(calls) + 1, np.int64)
    np.add.at(border, first[prints], 1)
    np.add.at(border, last[prints] + 1, -1)
    return np.cumsum(border)[:-1] > 0


def _read(calls: Calls, taken: Mask, steps: int) -> pd.DataFrame:
    """Of each loop of reads or single read: from its first call to the Python after the last read, or to the way back."""
    conj, neg = (calls.named(name) for name in LEAVES)
    loops = calls.clusters(neg & np.concatenate(([False], conj[:-1])) & calls.follows() & taken, NEAR_CALLS)
    lead = calls.named(*ON_THE_WAY) & taken
    run_first, run_last = calls.runs(lead)
    first = np.minimum(loops.first, run_first[np.searchsorted(run_last, loops.first)])
    after = np.minimum(loops.last + 1, len(calls) - 1)
    back = calls.named(COMES_BACK)[after] & (after > loops.last) & calls.follows()[after]
    ends = np.where(back, calls.end_ns[after], calls.until_ns[loops.last])
    kind = np.where(back, ROUND_TRIP, np.where(loops.count >= LOOP_COUNT, LOGGING, RESULT))
    return _table(calls, first, loops.last, ends, loops.count, kind, steps)


def _regions(calls: Calls, first: Ints, last: Ints, steps: int) -> pd.DataFrame:
    kind = np.full(len(first), PRINTING, object)
    return _table(calls, first, last, calls.until_ns[last], np.ones(len(first), np.int64), kind, steps)


def _table(calls: Calls, first: Ints, last: Ints, end: Ints, held: Ints, kind: np.ndarray, steps: int) -> pd.DataFrame:
    """`tail_ns`: the Python after the last call, of which none knows how much belongs to the read.

    Operators that make what a loop reads may have another use: they are no part of the region.
    """
    own = calls.spent(calls.named(*ON_THE_WAY, COMES_BACK) if PRINTING not in kind else calls.named(*FORMATS))
    every = calls.spent(np.ones(len(calls), bool))
    ops_ns, all_ns = own[last + 1] - own[first], every[last + 1] - every[first]
    return pd.DataFrame({
        "phase": calls.phase[first],
        "kind": kind,
        "calls_count": held / steps,
        "ops_ns": ops_ns / steps,
        "region_ns": (end - calls.start_ns[first] - (all_ns - ops_ns)) / steps,
        "tail_ns": np.where(kind == ROUND_TRIP, 0, end - calls.end_ns[last]) / steps,
    })  # fmt: skip


def _finding(kind: object, rows: pd.DataFrame, step_ns: float) -> Finding:
    """Saving, by what a change does with the region.

    Logging and printing are removed, and all of it goes; what is sure is all but the Python after the last read. A round trip is
    replaced by operators that cost something: between nothing and the region, half of it expected. A result that stays outside
    torch may well be needed: only its operators are expected to go. Confidence: high for SURE_COUNT reads a step, of which one
    after the other is no other use of the values; medium for other logging, printing and round trips; low for results.
    """
    calls, ops_ns, region_ns, tail_ns = (float(rows[name].sum()) for name in ("calls_count", "ops_ns", "region_ns", "tail_ns"))
    saving = {ROUND_TRIP: region_ns / 2, RESULT: ops_ns}.get(str(kind), region_ns)
    sure = region_ns - tail_ns if kind in (LOGGING, PRINTING) else 0.0
    confidence: Confidence = "low" if kind == RESULT else "high" if kind == LOGGING and calls >= SURE_COUNT else "medium"
    title, problem, advice = TEXTS[str(kind)]
    phase = str(rows["phase"].iloc[0])
    return Finding(
        id=f"readbacks:{str(kind).replace(' ', '_')}",
        title=Text.of(title),
        problem=Text.of(problem, calls_count=max(1, round(calls)), region_ns=region_ns, step_ns=step_ns, phase=phase),
        advice=Text.of(advice),
        saving_ns=saving,
        low_ns=min(sure, saving),
        high_ns=region_ns,
        confidence=confidence,
        evidence=(
            Evidence("reads per step", "calls_count", calls),
            Evidence("their operators, per step", "ops_ns", ops_ns),
            Evidence("with the Python around them, per step", "region_ns", region_ns),
        ),
        bound="host",
        phase=phase,
    )  # fmt: skip


TEXTS = {
    ROUND_TRIP: (
        "Stay in torch instead of a round trip through NumPy",
        "In {phase} a tensor goes to NumPy and comes back {calls_count:time} a step: {region_ns} of the {step_ns} step, "
        "outside operators for the most part. On a GPU it would also wait for all work before it, and copy both ways.",
        "Use the operator of torch that does the same: torch.nonzero for np.argwhere, torch.where, topk, sort, unique or "
        "bincount for NumPy's.",
    ),
    LOGGING: (
        "Log fewer tensors through NumPy, and not in every step",
        "The step reads {calls_count:tensor} out of torch one after the other ({phase} first): {region_ns} of "
        "the {step_ns} step, with the Python and NumPy between the reads.",
        "Compute such statistics every many steps only, and there in torch for all tensors together (torch._foreach_norm, "
        "torch.stack), read with one .tolist().",
    ),
    PRINTING: (
        "Do not print tensors in every step",
        "The step formats a tensor as text {calls_count:time}: {region_ns} of the {step_ns} step, dozens of operators each.",
        "Print every many steps, and numbers instead of tensors: loss.item() formats in a microsecond.",
    ),
    RESULT: (
        "Read results out of torch less often",
        "The step reads {calls_count:tensor} as arrays or lists ({phase} first); with what Python does before "
        "the next operator that is {region_ns} of the {step_ns} step.",
        "Collect results as tensors and read them together every many steps, where the program does not need them at once.",
    ),
}  # fmt: skip
