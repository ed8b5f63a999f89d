"""Does zero_grad write zeros instead of dropping the gradients?"""

from collections.abc import Iterator

import numpy as np

from .. import trace as t
from ..callers import Calls, calling_line
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..grouping import group_sums
from ..intervals import union
from ..marked_work import MarkedWork, marked_work, work_in
from ..proposals import Proposal
from ..step_marks import marked_steps
from ..step_time import outermost_ops, row_at
from ..trace import Ids, Trace

ZERO_GRAD_RANGE, OPTIMIZER = "Optimizer.zero_grad#", "Optimizer."
EXPECTED_SHARE = 0.9  # the loop over parameters stays: of a range full of launches at most a tenth
LEAST_SHARE = 0.5  # where launches are short beside that loop
ZERO, ZERO_ALL = "aten::zero_", "aten::_foreach_zero_"
ACCUMULATES, ADDS = "torch::autograd::AccumulateGrad", "aten::add_"
ADDED = 0.9  # of the gradients of a step are added to what is there: dropped ones are assigned in the first backward pass
LEAST_PART = 0.2  # of those gradients are set to zero in a row: a step may go backward up to five times


def zeroed_gradients(trace: Trace) -> Iterator[Proposal]:
    """Device work launched by zero_grad, of an optimizer or of a module, which with set_to_none=True launches none.

    All of the range goes but the loop over parameters, a tenth at the most. Gradients are then also assigned in backward instead
    of added, which is not counted.
    """
    of_optimizer = marked_work(trace, ZERO_GRAD_RANGE)
    if _notable(trace, of_optimizer):
        names = ", ".join(of_optimizer.names)
        yield _proposal(trace, of_optimizer, "zeroed_gradients", names, tuple(f"op:{name} x0" for name in of_optimizer.names))
    of_module = work_in(trace, _zeros_in_a_row(trace))
    if _notable(trace, of_module):
        yield _proposal(trace, of_module, "zeroed_gradients:module", _caller(trace, of_module), _without(trace, of_module))


def _notable(trace: Trace, found: MarkedWork) -> bool:
    return len(found.work) > 0 and max(found.host_ns, found.device_ns) >= NOTABLE_SHARE * trace.window_ns


def _zeros_in_a_row(trace: Trace) -> Ids:
    """Rows of trace.host: calls that write zeros, as many one after the other as a step has gradients, outside of optimizers.

    Only where the backward pass adds each gradient to one that is there; nothing marks Module.zero_grad without stacks.
    """
    host, steps = trace.host, marked_steps(trace)
    gradients = _added_gradients(trace) / max(1, int(steps["counted"].sum()))
    ops = outermost_ops(trace, steps[steps["counted"]])
    if not gradients or not len(ops):
        return ops[:0]
    ops = ops[np.lexsort((host.start_ns[ops], host.thread[ops]))]
    is_zero, is_zero_of_all = (np.array([name == of for name in trace.names], bool)[host.name[ops]] for of in (ZERO, ZERO_ALL))
    run = np.cumsum(np.append(True, (is_zero[1:] != is_zero[:-1]) | (host.thread[ops][1:] != host.thread[ops][:-1]))) - 1
    long = group_sums(run, is_zero.astype(np.int64), len(ops))[run] >= max(2, LEAST_PART * gradients)
    optimizers = np.array([name.startswith(OPTIMIZER) for name in trace.names], bool)[host.name] & (host.category != t.PYTHON)
    inside = row_at(*union(host.start_ns[optimizers], host.end_ns[optimizers]), host.start_ns[ops]) >= 0
    return np.sort(ops[(is_zero & long | is_zero_of_all) & ~inside])


def _added_gradients(trace: Trace) -> int:
    """How many gradients the backward passes add to others; 0 where some of them are assigned."""
    host, is_op = trace.host, trace.host.category == t.OP
    accumulates, adds = (
        np.flatnonzero(is_op & np.array([name == of for name in trace.names], bool)[host.name]) for of in (ACCUMULATES, ADDS)
    )
    start, end = union(host.start_ns[accumulates], host.end_ns[accumulates])
    added = int((row_at(start, end, host.start_ns[adds]) >= 0).sum())
    return added if added >= ADDED * len(accumulates) else 0


def _caller(trace: Trace, found: MarkedWork) -> str:
    """The line of the program that sets gradients to zero, where stacks were recorded."""
    calls = trace.host[found.rows[:1]]
    line = calling_line(trace, Calls(calls.start_ns, calls.thread, calls.external_id))[0]
    return f"{trace.names[line]}, outside of the optimizer," if line >= 0 else "The program, outside of its optimizer,"


def _without(trace: Trace, found: MarkedWork) -> tuple[str, ...]:
    """Each of the two operators without the part of its calls that set gradients to zero; others zero new tensors."""
    host = trace.host
    ns, changes = host.end_ns - host.start_ns, []
    for name in np.unique(host.name[found.rows]).tolist():
        every = (host.name == name) & (host.category == t.OP)
        left = 1 - ns[found.rows[host.name[found.rows] == name]].sum() / max(1, ns[every].sum())
        changes.append(f"op:{trace.names[name]} x{left:.3g}")
    return tuple(changes)


def _proposal(trace: Trace, found: MarkedWork, id: str, who: str, changes: tuple[str, ...]) -> Proposal:
    return Proposal(
        id=id,
        title=Text.of("Drop gradients instead of writing zeros"),
        problem=Text.of(
            "{who} writes zeros into the gradients, {launched_count:piece} of GPU work in each step: {host_ns} on the host and "
            "{device_ns} on the GPU in the recorded {window_ns}.",
            who=who, launched_count=round(len(found.work) / found.steps), host_ns=found.host_ns,
            device_ns=found.device_ns, window_ns=trace.window_ns,
        ),
        advice=Text.of(
            "Call zero_grad(set_to_none=True), of the optimizer or the module: the default since torch 2.0. Code that reads "
            ".grad must expect None."
        ),
        bound="host" if found.host_ns > found.device_ns else "compute",
        phase="optimizer",
        evidence=(
            Evidence("work on the GPU in zero_grad, per step", "launched_count", len(found.work) / found.steps),
            Evidence("zero_grad on the host, in the recording", "host_ns", found.host_ns),
            Evidence("its work on the GPU, in the recording", "device_ns", found.device_ns),
        ),
        changes=changes,
        expected_share=EXPECTED_SHARE,
        least_share=LEAST_SHARE,
        assumes="no code relies on gradients that are zero",
    )  # fmt: skip
