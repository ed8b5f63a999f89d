"""Are the step's operators so small that calling them takes longer than what they compute?"""

from dataclasses import dataclass

import numpy as np

from ...capture.errors import MissingData
from .. import trace as t
from ..calls import cpu_calls
from ..findings import Evidence, Finding, Text, notable
from ..host_tree import HostTree
from ..step_time import row_at, step_time
from ..trace import Ints, Trace

NETWORK = ("forward", "loss", "backward", "evaluation", "other")  # what grows with the batch and not with its number
DISPATCH_NS = 5_000  # an operator whose own time is below this does little but being called
GAP_NS = 100_000  # of Python between two calls: more is something else than calling the next layer
MANY_COUNT = 30  # calls per step: below, a step has no crowd of small operators
MOST_SHARE = 0.4  # of the step: below, four times the batch saves less than a third of the time per sample
GROWTH = 4  # times the batch: what the expected saving assumes


@dataclass(frozen=True, eq=False)
class TinyOps:
    """Per step: calls of the network's phases; the time of calling (dispatch, autograd, the Python between) and of computing
    (self time of operators, beyond DISPATCH_NS each). `samples`: per step, None where the recorder was not told.
    """

    calls: float
    calling_ns: float
    computing_ns: float
    step_ns: float
    samples: int | None
    findings: tuple[Finding, ...]


def tiny_ops(trace: Trace) -> TinyOps:
    """What calling operators costs in forward and backward, beside what they compute; CPU runs only."""
    calls, found = cpu_calls(trace), step_time(trace)
    taken = np.isin(calls.phase, NETWORK)
    if not taken.any():
        raise MissingData("No operators run outside data loading and the optimizer.")
    start, end, until = calls.start_ns[taken], calls.end_ns[taken], calls.until_ns[taken]
    computing = _computing(trace, start, end)
    calling = end - start + np.minimum(until - end, GAP_NS)
    counts = float(taken.sum()) / found.count
    computing_ns = computing / found.count
    calling_ns = float(calling.sum()) / found.count - computing_ns
    samples = trace.manifest.samples_per_step if trace.manifest else None
    crowd = counts >= MANY_COUNT and calling_ns >= MOST_SHARE * found.step_ns
    worth = [_finding(counts, calling_ns, computing_ns, found.step_ns, samples)] if samples and crowd else []
    findings = notable(worth, found.step_ns, found.unprofiled_share)
    return TinyOps(counts, calling_ns, computing_ns, found.step_ns, samples, findings)


def _computing(trace: Trace, start: Ints, end: Ints) -> float:
    """Self time of the operators inside these calls beyond their dispatch."""
    host = trace.host
    inside = host.category == t.OP
    inside[inside] = row_at(start, end, host.start_ns[inside]) >= 0
    return float(np.maximum(HostTree.of(trace, inside).self_ns() - DISPATCH_NS, 0).sum())


def _finding(calls: float, calling_ns: float, computing_ns: float, step_ns: float, samples: int) -> Finding:
    """Saving, per samples of one step: a batch GROWTH times as large needs the same calls once instead of GROWTH times.

    At least nothing, where memory or the algorithm forbids it; at most all of the calling. Confidence: medium; that computing
    grows no faster than the batch is an assumption.
    """
    return Finding(
        id="tiny_ops",
        title=Text.of("Give each operator more work: a larger batch"),
        problem=Text.of(
            "Forward and backward make {calls_count:call} a step for {samples_count:sample}; "
            "calling them takes {calling_ns} of the {step_ns} step, what they compute {computing_ns}.",
            calls_count=round(calls), samples_count=samples, calling_ns=calling_ns, step_ns=step_ns, computing_ns=computing_ns,
        ),
        advice=Text.of(
            "Take a batch {growth} times as large (and adapt the learning rate): the saving is per {samples_count:sample}. "
            "Where the batch must stay, torch.compile makes fewer and larger operators.",
            growth=str(GROWTH), samples_count=samples,
        ),
        saving_ns=calling_ns * (1 - 1 / GROWTH),
        low_ns=0,
        high_ns=calling_ns,
        confidence="medium",
        evidence=(
            Evidence("calls per step", "calls_count", calls),
            Evidence("calling operators, per step", "calling_ns", calling_ns),
            Evidence("computing, per step", "computing_ns", computing_ns),
            Evidence("samples per step", "samples_count", samples),
        ),
        bound="host",
        phase="forward",
    )  # fmt: skip
