"""Does the GPU wait for collectives while nothing computes?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...capture.errors import MissingData
from ..analyses.collectives import collectives
from ..communication import Collectives, argument, collectives_of
from ..durations import repaired_work
from ..findings import NOTABLE_SHARE, Evidence, Finding, Text
from ..intervals import covered, union
from ..kernel_times import recorded_ns
from ..kernels import COMPUTE, work_class
from ..proposals import Proposal, Saving
from ..replay.excerpt import refusal
from ..replay.ranks import ranks_of
from ..step_marks import marked_steps
from ..trace import Ints, Trace

# One rank does not tell how much of a collective is waiting for other ranks, which no overlap removes, nor how much the compute
# kernels beside it slow down: half is taken. What a step needs at once (the first all-to-all, the last bucket) stays exposed.
EXPECTED_SHARE = 0.5
KINDS = (  # of a kernel's name or its argument -> what to do
    ("reduce-scatters and all-gathers", r"reduce_?scatter|all_?gather"),
    ("all-to-alls, sends and receives", r"all_?to_?all|send|recv"),
    ("all-reduces", r"all_?reduce|cross_device_reduce|(one|two)_shot|multimem"),
    ("collectives", ""),
)
WAYS = {
    "all-reduces": "In DistributedDataParallel set gradient_as_bucket_view=True and static_graph=True where the graph "
    "never changes, and try bucket_cap_mb above and below its 25 MB: buckets start while backward still computes, and only "
    "the last one is exposed. Accumulate gradients inside no_sync(); halve the bytes with "
    "ddp_comm_hooks.default_hooks.bf16_compress_hook.",
    "reduce-scatters and all-gathers": "In FSDP prefetch: backward_prefetch=BackwardPrefetch.BACKWARD_PRE and "
    "forward_prefetch=True (fully_shard: set_modules_to_forward_prefetch and set_modules_to_backward_prefetch), wrap larger "
    "units, keep parameters in bfloat16 with MixedPrecision, or reshard less (ShardingStrategy.SHARD_GRAD_OP, "
    "reshard_after_forward=False).",
    "all-to-alls, sends and receives": "Pipeline: start the exchange of the next batch or micro-batch while this one computes "
    "(async_op=True and wait() where the result is used; TorchRec's TrainPipelineSparseDist), and send fewer bytes (bfloat16).",
    "collectives": "Start collectives as early as their data are there (async_op=True and wait() where the result is "
    "used), so that they run beside compute kernels; in DistributedDataParallel try bucket_cap_mb and "
    "gradient_as_bucket_view=True, in FSDP the prefetch options.",
}  # fmt: skip


ALONE = "; on one rank alone this cannot be told from waiting for a slower rank."
LOOK = " Look at all ranks together first: where one is late, balance its work instead."
NO_WAITS = "it waits for no other rank, and "
WAITS_FOR_NONE = f"{NO_WAITS}a part of it can run beside computing"  # of one rank that is replayed alone


@dataclass(frozen=True, eq=False)
class _Exposed:
    calls: Collectives
    ns: Ints  # of each call, what no kernel computes beside; where two calls overlap, both
    union_ns: int


def exposed_communication(trace: Trace) -> Iterator[Proposal]:
    """Collectives without computing beside them, apart from a first one that only waits until other ranks record, too."""
    found = _exposed(trace)
    if found is None or found.union_ns * EXPECTED_SHARE < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return
    kinds = _kinds(trace, found.calls)
    kind = max(dict.fromkeys(kinds), key=lambda one: int(found.ns[np.array(kinds) == one].sum()))
    worst, spins, waits_ns = int(found.ns.argmax()), _spins(trace), _waits_ns(trace)
    yield Proposal(
        id="exposed_communication",
        title=Text.of("Let communication run beside computing"),
        problem=Text.of(
            "In {exposed_ns} of the recording, {exposed_share} of it, a collective runs and nothing computes beside it, "
            "most of it in {kind}" + _waiting(waits_ns),
            exposed_ns=found.union_ns, exposed_share=found.union_ns / recorded_ns(trace), kind=kind, wait_ns=waits_ns or 0,
        ),
        advice=Text.of(WAYS[kind] + (LOOK if waits_ns is None else "")),
        bound="communication",
        phase="other",
        evidence=(
            Evidence("collectives", "calls_count", len(found.calls)),
            Evidence("the one that is exposed most", "exposed_ns", int(found.ns[worst]),
                     int(found.calls.start_ns[worst]), int(found.calls.end_ns[worst])),
        ),
        changes=() if spins else ("comm x0",),
        saving=_saving(trace, found.union_ns) if spins else None,
        expected_share=EXPECTED_SHARE,
        best_confidence="low",
        assumes=WAITS_FOR_NONE if waits_ns is None else WAITS_FOR_NONE.removeprefix(NO_WAITS),
    )  # fmt: skip


def _waits_ns(trace: Trace) -> int | None:
    """How long it waits for other ranks inside its collectives; None where these are not replayed with it."""
    if not trace.peers or refusal(trace):
        return None
    run = ranks_of(trace)
    return None if run.meetings is None else int(run.waits_ns.sum())


def _waiting(waits_ns: int | None) -> str:
    if waits_ns is None:
        return ALONE
    if not waits_ns:
        return "; none of it is waiting for another rank."
    return "; for {wait_ns} of it collectives wait for another rank, which no overlap takes away."


def beside_other_ranks(found: Finding, waits_ns: float, late_ns: float) -> Finding:
    """The finding of a rank replayed alone, which per step waits so long for others, `late_ns` for one that could be on time.

    No overlap removes what it waits; the most that can go is less only by what has a finding of its own.
    """
    saving_ns = max(0.0, found.saving_ns - EXPECTED_SHARE * waits_ns)
    kept, without = saving_ns / found.saving_ns if found.saving_ns else 0.0, found.saving_unprofiled_ns
    text = "; of that it waits {waits_ns} a step for other ranks, which is not counted."
    return replace(
        _of_all_ranks(found, Text.of(text, waits_ns=waits_ns)),
        saving_ns=saving_ns,
        low_ns=min(found.low_ns, saving_ns),
        high_ns=max(saving_ns, found.high_ns - late_ns),
        saving_unprofiled_ns=None if without is None else kept * without,
        assumes=tuple(half.removeprefix(NO_WAITS) for half in found.assumes),
    )


def beside_unmatched_ranks(found: Finding, why: str) -> Finding:
    return _of_all_ranks(found, Text.of("; how much of it is waiting for other ranks cannot be told: {why}.", why=why))


def _of_all_ranks(found: Finding, text: Text) -> Finding:
    problem = Text(found.problem.template.removesuffix(ALONE) + text.template, {**found.problem.values, **text.values})
    return replace(found, problem=problem, advice=Text(found.advice.template.removesuffix(LOOK), found.advice.values))


def _exposed(trace: Trace) -> _Exposed | None:
    calls = collectives_of(trace)
    if not len(trace.device) or not len(calls):
        return None
    if _spins(trace):
        first = np.array([int(np.flatnonzero(calls.device == device)[0]) for device in np.unique(calls.device)])
        calls = calls[np.setdiff1d(np.arange(len(calls)), first)]
    work, compute = repaired_work(trace), work_class(trace) == COMPUTE
    ns, total_ns = calls.end_ns - calls.start_ns, 0
    for device in np.unique(calls.device):
        own, beside = calls.device == device, compute & (work.device == device)
        computing = union(work.start_ns[beside], work.end_ns[beside])
        ns[own] -= covered(*computing, calls.start_ns[own], calls.end_ns[own])
        start, end = union(calls.start_ns[own], calls.end_ns[own])
        total_ns += int((end - start - covered(*computing, start, end)).sum())
    return _Exposed(calls, ns, total_ns) if len(calls) else None


def _spins(trace: Trace) -> bool:
    """Whether a first collective only waits for another rank's profiler."""
    try:
        first = collectives(trace).first
    except MissingData:
        return False
    return first is not None and first.spins


def _kinds(trace: Trace, calls: Collectives) -> list[str]:
    """By what the arguments call it, else by the kernel's name."""
    told = [text if isinstance(text, str) else "" for text in argument(trace, calls, "Collective name")]
    texts = [own or str(trace.names[name]) for own, name in zip(told, calls.name.tolist(), strict=True)]
    of_text = {text: next(kind for kind, pattern in KINDS if re.search(pattern, text, re.IGNORECASE)) for text in set(texts)}
    return [of_text[text] for text in texts]


def _saving(trace: Trace, exposed_ns: int) -> Saving:
    """A replay would let the first collective's wait vanish, too: so the sum, over the steps."""
    per_step = exposed_ns / max(1, int((~marked_steps(trace)["aside"]).sum())) / len(np.unique(trace.device.device))
    return Saving(0, EXPECTED_SHARE * per_step, per_step)
