"""Does zero_grad write zeros instead of dropping the gradients?"""

from collections.abc import Iterator

from ..findings import NOTABLE_SHARE, Evidence, Text
from ..marked_work import marked_work
from ..proposals import Proposal
from ..trace import Trace

ZERO_GRAD_RANGE = "Optimizer.zero_grad#"
EXPECTED_SHARE = 0.9  # the loop over parameters stays: of a range full of launches at most a tenth
LEAST_SHARE = 0.5  # where launches are short beside that loop


def zeroed_gradients(trace: Trace) -> Iterator[Proposal]:
    """Device work launched by Optimizer.zero_grad, which with set_to_none=True launches none.

    All of the range goes but the loop over parameters, a tenth at the most. Gradients are then also assigned in backward instead
    of added, which is not counted.
    """
    found = marked_work(trace, ZERO_GRAD_RANGE)
    if not len(found.work) or max(found.host_ns, found.device_ns) < NOTABLE_SHARE * trace.window_ns:
        return
    yield Proposal(
        id="zeroed_gradients",
        title=Text.of("Drop gradients instead of writing zeros"),
        problem=Text.of(
            "{names} writes zeros into the gradients, {launched_count:piece} of GPU work in each step: {host_ns} on the host "
            "and {device_ns} on the GPU in the recorded {window_ns}.",
            names=", ".join(found.names), launched_count=round(len(found.work) / found.steps), host_ns=found.host_ns,
            device_ns=found.device_ns, window_ns=trace.window_ns,
        ),
        advice=Text.of(
            "Call optimizer.zero_grad(set_to_none=True), the default since torch 2.0. Code that reads .grad must expect None."
        ),
        bound="host" if found.host_ns > found.device_ns else "compute",
        phase="optimizer",
        evidence=(
            Evidence("work on the GPU in zero_grad, per step", "launched_count", len(found.work) / found.steps),
            Evidence("zero_grad on the host, in the recording", "host_ns", found.host_ns),
            Evidence("its work on the GPU, in the recording", "device_ns", found.device_ns),
        ),
        changes=tuple(f"op:{name} x0" for name in found.names),
        expected_share=EXPECTED_SHARE,
        least_share=LEAST_SHARE,
        assumes="no code relies on gradients that are zero",
    )  # fmt: skip
