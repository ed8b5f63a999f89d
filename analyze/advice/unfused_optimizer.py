"""Does the optimizer update its parameters in many small kernels, or pass over them more often than it must?"""

from collections.abc import Iterator

import numpy as np

from .. import trace as t
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..marked_work import MarkedWork, marked_work
from ..proposals import Proposal
from ..step_time import OPTIMIZER_RANGE, update_start
from ..trace import Trace

FEWEST_KERNELS = 20  # of one update: fewer are a few tensors
SMALL_KERNEL_NS = 20_000  # in this time a GPU of 1 to 3 TB/s moves tens of MB; what takes longer is not launching
LAUNCHING_NS = (
    100_000  # of host time for each kernel, the operator around it included; an update that takes more does something else
)
HAVE_FOREACH = (
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
)  # fmt: skip
# Passes over tensors of the size of the parameters. Adam with foreach: lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2, addcdiv 4,
# in all 18; fused it reads 4 (parameter, gradient, both moments) and writes 3. SGD with momentum: mul 2, add 3, add 3; fused 5.
# Adagrad: addcmul 4, sqrt 2, add 2, mul 2, addcdiv 4; fused 5, whose speed on GPUs its authors saw vary. Judgements from these.
FUSED_SAVES = {"Adam": 0.6, "AdamW": 0.6, "SGD": 0.35, "Adagrad": 0.5}
NEW_FUSED = " Older versions of torch have it on CPUs alone; 2.13 has it on GPUs, too."
FEWEST_PASSES = 2  # kinds of foreach operators of an update: SGD without momentum has one, and fused it moves the same
FOREACH_SAVES = 0.75  # host: one call for each kind of operator; device: small kernels are mostly their start. Their bytes stay
FOREACH_LEAST = 0.3
FOREACH, FUSED, MULTI_TENSOR = "aten::_foreach_", "aten::_fused_", "multi_tensor_apply"


def unfused_optimizer(trace: Trace) -> Iterator[Proposal]:
    """Let updates one by one be foreach, and foreach ones fused, where Optimizer.step is a notable part of the recording."""
    if not len(trace.device):
        return
    optimizers = [marked_work(trace, name) for name in marked_work(trace, OPTIMIZER_RANGE).names]
    candidates = [proposal for found in optimizers if (proposal := _of_one(found, trace))]
    yield from sorted(candidates, key=lambda one: -one.evidence[1].value)[:1]  # the one that takes the host longest


def _of_one(found: MarkedWork, trace: Trace) -> Proposal | None:
    share = max(found.host_ns, found.device_ns) / trace.window_ns
    if share < NOTABLE_SHARE or _has_closure(trace, found):
        return None
    kind = found.names[0].removeprefix(OPTIMIZER_RANGE).removesuffix(".step")
    if not _together(trace, found):
        return _one_by_one(found, kind, trace) if _is_small(found) else None
    fused = found.ops.str.startswith(FUSED).any()  # foreach operators beside fused ones only count steps
    passes = 0 if fused else found.ops[found.ops.str.startswith(FOREACH)].nunique()
    worth = passes >= FEWEST_PASSES and FUSED_SAVES.get(kind, 0) * share >= NOTABLE_SHARE
    return _pass_by_pass(found, kind, trace) if worth else None


def _has_closure(trace: Trace, found: MarkedWork) -> bool:
    """Whether forward and backward run inside of the optimizer's step."""
    ranges = trace.host[found.rows]
    return bool((update_start(trace, ranges.name, ranges.start_ns, ranges.end_ns) > ranges.start_ns).any())


def _together(trace: Trace, found: MarkedWork) -> bool:
    """Whether operators or kernels take many tensors at once."""
    kernels = [MULTI_TENSOR in trace.names[name] for name in np.unique(found.work.name)]
    return any(kernels) or bool(found.ops.str.startswith((FOREACH, FUSED)).any())


def _is_small(found: MarkedWork) -> bool:
    kernels = found.work[found.work.category == t.KERNEL]
    if len(kernels) < FEWEST_KERNELS * len(found.rows) or found.host_ns > LAUNCHING_NS * len(kernels):
        return False
    return float(np.median(kernels.end_ns - kernels.start_ns)) <= SMALL_KERNEL_NS


def _one_by_one(found: MarkedWork, kind: str, trace: Trace) -> Proposal:
    option = "fused=True" if kind in FUSED_SAVES else "foreach=True"
    own = (
        f"Construct {kind} with {option}, and without foreach=False: it then updates all parameters in a few kernels."
        + (NEW_FUSED if kind == "Adagrad" else "")
        if kind in HAVE_FOREACH
        else "Update lists of tensors with torch._foreach_ functions, as the optimizers of torch.optim do with foreach=True, or "
        "wrap optimizer.step in torch.compile."
    )
    return _proposal(
        found, trace, "Let the optimizer update all parameters at once",
        "{name} launches {launched_count:kernel} in each step, {median_ns} long in the median, one tensor after the other: "
        "{host_ns} on the host and {device_ns} on the GPU in the recorded {window_ns}.",
        own, FOREACH_SAVES, FOREACH_LEAST,
    )  # fmt: skip


def _pass_by_pass(found: MarkedWork, kind: str, trace: Trace) -> Proposal:
    """At least nothing: where launching limits the update, fewer passes save little."""
    return _proposal(
        found, trace, "Use the fused optimizer",
        "{name} passes over all parameters once for each of its foreach operators: {host_ns} on the host and {device_ns} on the "
        "GPU in the recorded {window_ns}, in {launched_count:kernel} a step.",
        f"Construct {kind} with fused=True: one kernel reads and writes each tensor once."
        + (NEW_FUSED if kind == "Adagrad" else ""),
        FUSED_SAVES[kind], 0.0,
    )  # fmt: skip


def _proposal(found: MarkedWork, trace: Trace, title: str, problem: str, advice: str, expected: float, least: float) -> Proposal:
    lengths = found.work.end_ns - found.work.start_ns
    launched = len(found.work) / found.steps
    return Proposal(
        id="unfused_optimizer",
        title=Text.of(title),
        problem=Text.of(
            problem, name=found.names[0], launched_count=round(launched), median_ns=float(np.median(lengths)),
            host_ns=found.host_ns, device_ns=found.device_ns, window_ns=trace.window_ns,
        ),
        advice=Text.of(advice),
        bound="launch" if found.host_ns > found.device_ns else "compute",
        phase="optimizer",
        evidence=(
            Evidence("kernels of the optimizer, per step", "launched_count", launched),
            Evidence("the optimizer on the host, in the recording", "host_ns", found.host_ns),
            Evidence("its work on the GPU, in the recording", "device_ns", found.device_ns),
        ),
        changes=(f"op:{found.names[0]} x0",),
        expected_share=expected,
        least_share=least,
        best_confidence="medium",
        assumes="the parameters are of types and devices that the faster form supports",
    )  # fmt: skip
