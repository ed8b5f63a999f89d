"""Does the step write zeros into gradients, only to add to them?"""

from dataclasses import dataclass

import numpy as np

from ...capture.errors import MissingData
from .. import trace as t
from ..calls import cpu_calls
from ..findings import Evidence, Finding, Text, notable
from ..intervals import union
from ..step_time import row_at, step_time
from ..trace import Ints, Trace

ZEROS = ("aten::zero_", "aten::_foreach_zero_")
ADDS, ACCUMULATES = "aten::add_", "torch::autograd::AccumulateGrad"


@dataclass(frozen=True, eq=False)
class ZeroGrad:
    """Per step: calls that write zeros and their time; additions to gradients that were there, and their time."""

    calls: float
    zeros_ns: float
    adds: float
    adds_ns: float
    step_ns: float
    findings: tuple[Finding, ...]


def zero_grad(trace: Trace) -> ZeroGrad:
    """Zeros that the steps write, and what the backward pass adds to them; CPU runs only."""
    calls, found = cpu_calls(trace), step_time(trace)
    zeros = calls.named(*ZEROS)
    adds = _additions(trace, found.steps["start_ns"].to_numpy(), found.steps["end_ns"].to_numpy())
    if not zeros.any() or not len(adds):
        raise MissingData("The steps write no zeros into gradients.")
    zeros_ns = float((calls.end_ns - calls.start_ns)[zeros].sum()) / found.count
    adds_ns = float((trace.host.end_ns - trace.host.start_ns)[adds].sum()) / found.count
    counts = float(zeros.sum()) / found.count, len(adds) / found.count
    worth = [_finding(*counts, zeros_ns, adds_ns, found.step_ns)]
    findings = notable(worth, found.step_ns, found.unprofiled_share)
    return ZeroGrad(counts[0], zeros_ns, counts[1], adds_ns, found.step_ns, findings)


def _additions(trace: Trace, begin: Ints, stop: Ints) -> Ints:
    """Rows of trace.host: additions of the autograd engine to a gradient, within the steps."""
    host = trace.host
    names = np.array(trace.names, object)
    is_op = host.category == t.OP
    accumulates = np.flatnonzero(is_op & (names == ACCUMULATES)[host.name])
    adds = np.flatnonzero(is_op & (names == ADDS)[host.name])
    start, end = union(host.start_ns[accumulates], host.end_ns[accumulates])
    inside = row_at(start, end, host.start_ns[adds]) >= 0
    return adds[inside & (row_at(begin, stop, host.start_ns[adds]) >= 0)]


def _finding(calls: float, adds: float, zeros_ns: float, adds_ns: float, step_ns: float) -> Finding:
    """Saving: the zeros and the additions to them; without either the engine hands each new gradient over as it is.

    At least nothing: large gradients are then allocated anew in every step, which can cost as much. Confidence: medium.
    """
    return Finding(
        id="zero_grad",
        title=Text.of("Drop gradients instead of writing zeros into them"),
        problem=Text.of(
            "The step writes zeros into its gradients, {zeros_ns}, and the backward pass then adds to them {adds_count} "
            "{adds_count:time}, {adds_ns}, of the {step_ns} step.",
            zeros_ns=zeros_ns, adds_count=round(adds), adds_ns=adds_ns, step_ns=step_ns,
        ),
        advice=Text.of(
            "Call zero_grad(set_to_none=True), the default since PyTorch 2.0; gradients are None until the backward pass."
        ),
        saving_ns=zeros_ns + adds_ns,
        low_ns=0,
        high_ns=zeros_ns + adds_ns,
        confidence="medium",
        evidence=(
            Evidence("calls that write zeros, per step", "calls_count", calls),
            Evidence("their time, per step", "zeros_ns", zeros_ns),
            Evidence("additions to gradients, per step", "adds_ns", adds_ns),
        ),
        bound="host",
        phase="optimizer",
    )  # fmt: skip
