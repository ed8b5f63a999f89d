"""Is the memory of a GPU nearly full, far from full, growing, or asked for in every step?"""

import re
from collections.abc import Iterator

import numpy as np

from ...capture.errors import MissingData
from .. import trace as t
from ..allocations import HOST
from ..analyses.memory import Memory, Pool, memory
from ..durations import repaired_work
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..gpu_gaps import idle_withheld
from ..intervals import length, union
from ..proposals import Proposal
from ..step_marks import WHOLE_TRACE, marked_steps
from ..step_time import row_at
from ..trace import Trace

NEAR_SHARE = 0.9  # of the memory: what the allocator holds beside what is in use, and the context, take most of the rest
FAR_SHARE = 0.5  # twice the batch would need less than all of it
IDLE_SHARE = 0.1  # of the recording: a GPU that idles less gains little from a larger batch
REPEATED_STEPS = 2  # beyond the first: an allocator that still asks for memory then has not just been warming up
MEMORY_CALL = re.compile(r"(cuda|hip)(Malloc|Free)$|cu(MemCreate|MemMap|MemUnmap|MemRelease)$")
RELEASE = re.compile(r"Free$|Unmap$|Release$")


def memory_headroom(trace: Trace) -> Iterator[Proposal]:
    """What the calls of the allocator cost in each step; and what is worth knowing about the room that is left."""
    yield from _allocator_calls(trace)
    try:
        found = memory(trace)
    except MissingData:
        return
    for pool in found.pools:
        if pool.device != HOST:
            yield from _room(trace, pool)
            yield from _growth(found, pool)


def _allocator_calls(trace: Trace) -> Iterator[Proposal]:
    """Calls for memory in steps after the first: torch keeps what it has, unless it must give it back to find a larger piece."""
    steps = marked_steps(trace)
    steps = steps[steps["counted"] & (steps["name"] != WHOLE_TRACE)].iloc[1:]
    host = trace.host
    wanted = np.array([MEMORY_CALL.match(name) is not None for name in trace.names], bool)
    rows = np.flatnonzero((host.category == t.RUNTIME) & wanted[host.name])
    step = row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), host.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    ns, names = host.end_ns[rows] - host.start_ns[rows], [str(trace.names[name]) for name in np.unique(host.name[rows]).tolist()]
    if len(np.unique(step)) < REPEATED_STEPS or int(ns.sum()) < max(1, NOTABLE_SHARE * int(steps["step_ns"].sum())):
        return
    worst = rows[int(ns.argmax())]
    frees = any(RELEASE.search(name) for name in names)
    yield Proposal(
        id="memory_calls_in_steps",
        title=Text.of("Stop asking the driver for memory in every step"),
        problem=Text.of(
            "In {steps_count} of {all_count:step} after the first, {calls_count:call} of {names}, {calls_ns} in "
            "all"
            + ("; memory that is given back makes the host wait for the whole GPU." if frees else "."),
            steps_count=len(np.unique(step)), all_count=len(steps), calls_count=len(rows),
            names=", ".join(names), calls_ns=int(ns.sum()),
        ),
        advice=Text.of(
            "Take torch.cuda.empty_cache() and gc.collect() out of the loop. If there are none, the allocator runs short "
            "and flushes its cache: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_ALLOC_CONF from torch 2.9 "
            "on), pad batches to few sizes, or take a smaller batch; torch.cuda.memory_stats()['num_alloc_retries'] counts "
            "the flushes."
        ),
        bound="host",
        phase="other",
        evidence=(
            Evidence("calls in steps after the first", "calls_count", len(rows)),
            Evidence("the longest of them", "call_ns", int(ns.max()), int(host.start_ns[worst]), int(host.end_ns[worst])),
        ),
        changes=tuple(f"host:{name} x0" for name in names),
        best_confidence="medium",
        assumes="the allocator finds what it needs in its cache",
    )  # fmt: skip


def _room(trace: Trace, pool: Pool) -> Iterator[Proposal]:
    sizes = trace.source.device_bytes
    size = sizes[pool.device] if pool.device < len(sizes) else 0
    if pool.peak_bytes is None or not size:
        return
    share = pool.peak_bytes / size
    problem = Text.of(
        "At the peak {peak_bytes} of the {device_bytes} of GPU {gpu} are in use, {peak_share}.",
        peak_bytes=pool.peak_bytes, device_bytes=size, gpu=str(pool.device), peak_share=share,
    )  # fmt: skip
    evidence = (Evidence("the peak", "peak_bytes", pool.peak_bytes, pool.peak_ts_ns, pool.peak_ts_ns),)
    if share >= NEAR_SHARE:
        yield Proposal(
            id=f"memory_nearly_full{_suffix(trace, pool)}",
            title=Text.of("Make room in the GPU's memory"),
            problem=problem,
            advice=Text.of(
                "The allocator soon has to flush its cache, which stops the GPU. Set "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, recompute activations (torch.utils.checkpoint), run the "
                "forward pass in bfloat16 autocast, or take a smaller batch."
            ),
            bound="compute", phase="other", evidence=evidence, best_confidence="medium",
        )  # fmt: skip
    elif share <= FAR_SHARE and _idles(trace, pool.device):
        yield Proposal(
            id=f"memory_mostly_free{_suffix(trace, pool)}",
            title=Text.of("Try a larger batch"),
            problem=problem,
            advice=Text.of(
                "The GPU idles in part, and its memory has room: a larger batch gives each launch more work. In training, "
                "adjust the learning rate; in serving, admit more sequences at once. Other processes on this GPU are not in "
                "the recording."
            ),
            bound="launch", phase="other", evidence=evidence, best_confidence="low",
        )  # fmt: skip


def _idles(trace: Trace, device: int) -> bool:
    """Whether the GPU stands idle for a notable part of the recording, as far as that can be told."""
    work = repaired_work(trace)[trace.device.device == device]
    busy_ns = length(*union(work.start_ns, work.end_ns))
    return not idle_withheld(trace) and len(work) > 0 and busy_ns <= (1 - IDLE_SHARE) * trace.window_ns


def _growth(found: Memory, pool: Pool) -> Iterator[Proposal]:
    if not pool.growth_bytes:
        return
    yield Proposal(
        id="memory_grows" if len([p for p in found.pools if p.device != HOST]) < 2 else f"memory_grows_{pool.device}",
        title=Text.of("Find what keeps memory from step to step"),
        problem=Text.of(
            "Each of {steps_count} steps keeps at least {growth_bytes} on GPU {gpu} that it does not release.",
            steps_count=len(pool.step_net_bytes), growth_bytes=pool.growth_bytes, gpu=str(pool.device),
        ),
        advice=Text.of(
            "Look for tensors that are kept with their graph, as in total += loss or losses.append(loss): keep "
            "loss.detach(). torch.cuda.memory._record_memory_history() and _dump_snapshot() show who allocated what stays."
        ),
        bound="compute",
        phase="other",
        evidence=(Evidence("kept by each step at least", "growth_bytes", pool.growth_bytes),),
        best_confidence="medium",
    )  # fmt: skip


def _suffix(trace: Trace, pool: Pool) -> str:
    """The device, where the trace holds several: an id names one proposal."""
    return f"_{pool.device}" if len(np.unique(trace.allocations.device[trace.allocations.device >= 0])) > 1 else ""
