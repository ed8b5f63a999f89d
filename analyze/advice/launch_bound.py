"""Is the GPU done with each small kernel before the host has launched the next one?"""

from collections.abc import Iterator

import numpy as np

from .. import trace as t
from ..findings import Evidence, Text
from ..gpu_gaps import Gaps, idle_gaps, idle_withheld, loader_ranges
from ..host_waits import waiting_calls
from ..intervals import covered, union
from ..launch_queue import QUEUE_EMPTY_NS
from ..links import launching_call
from ..proposals import Proposal
from ..trace import Ids, Mask, Trace

# An operator of eager PyTorch takes the host 5 to 50 µs with the Python around it, and up to 200 µs while stacks are recorded;
# what keeps the GPU waiting for longer than that is something else than launching.
SHORT_GAP_NS = 200_000
TINY_KERNEL_NS = 50_000  # a longer kernel gives the host time to launch the next one
FEWEST_GAPS = 10  # fewer are a few slow operators
LEAST_SHARE = 0.1  # of the recording: a GPU that waits less is fed well enough
LATE_SHARE = 0.1  # of the kernels: where nine of ten wait in the queue for their turn, the host is ahead
# The gap between two kernels of a graph is about a tenth of that between short kernels launched one by one (9.6 against 3.4 µs a
# kernel of 2.9 µs, NVIDIA's introduction to CUDA graphs); a third is for what cannot be captured.
EXPECTED_SHARE = 0.6
SLOWED = " Recording stacks or memory slows the host: without that the gaps are shorter."
IN_EAGER = 'Use torch.compile(model, mode="reduce-overhead")'
IN_COMPILED = 'Pass mode="reduce-overhead" to torch.compile'
ADVICE = (
    ", which fuses small kernels and replays them as CUDA graphs, or capture the step with torch.cuda.graph; or give each kernel "
    "more work with a larger batch. The kernels themselves are not slow."
)
COMPILED = ("Torch-Compiled Region", "CompiledFunction")


def launch_bound(trace: Trace) -> Iterator[Proposal]:
    """Short gaps before kernels whose launch came late, where they add up to a notable part of the recording.

    Gaps in which a wait for the GPU ended, a batch was loaded or the profiler itself worked have that cause. Free launches are a
    ceiling; at least nothing, for what the host decides by values on the GPU cannot be captured.
    """
    if not len(trace.device) or idle_withheld(trace):
        return
    gaps, mine = idle_gaps(trace), _late_launches(trace)
    kernels = trace.device[trace.device.category == t.KERNEL]
    if mine.sum() < max(FEWEST_GAPS, LATE_SHARE * len(kernels)) or np.median(kernels.end_ns - kernels.start_ns) > TINY_KERNEL_NS:
        return
    ns, devices = gaps.end - gaps.start, len(np.unique(trace.device.device))
    gap_ns = int(ns[mine].sum())
    if gap_ns >= LEAST_SHARE * trace.window_ns * devices:
        yield _proposal(trace, gap_ns // devices, int(mine.sum()), float(np.median(ns[mine])), kernels)


def _late_launches(trace: Trace) -> Mask:
    """Which idle gaps are short and end with work that the host launched too late, doing nothing but launching."""
    gaps, host = idle_gaps(trace), trace.host
    call = _call_after(trace, gaps)
    late = (call >= 0) & (np.append(host.start_ns, 0)[call] >= gaps.start - QUEUE_EMPTY_NS)
    explained = loader_ranges(trace) | (host.category == t.OVERHEAD)
    beside = covered(*union(host.start_ns[explained], host.end_ns[explained]), gaps.start, gaps.end) > 0
    ended = np.sort(host.end_ns[waiting_calls(trace)])
    waited = np.searchsorted(ended, gaps.end) > np.searchsorted(ended, gaps.start)
    return late & ~beside & ~waited & (gaps.end - gaps.start <= SHORT_GAP_NS)


def _call_after(trace: Trace, gaps: Gaps) -> Ids:
    """For each gap the call that launched the work at its end, or -1."""
    call, found = launching_call(trace), np.full(len(gaps.start), -1)
    for device in np.unique(gaps.device):
        rows = np.flatnonzero(trace.device.device == device)
        rows = rows[np.argsort(trace.device.start_ns[rows], kind="stable")]
        mine = np.flatnonzero((gaps.device == device) & (gaps.end <= trace.device.start_ns[rows[-1]]))
        found[mine] = call[rows[np.searchsorted(trace.device.start_ns[rows], gaps.end[mine])]]
    return found


def _proposal(trace: Trace, gap_ns: int, count: int, median_ns: float, kernels: t.DeviceRanges) -> Proposal:
    slowed = trace.source.with_stacks or trace.source.with_memory
    compiled = any(name.startswith(COMPILED) for name in trace.names)
    kernel_ns = float(np.median(kernels.end_ns - kernels.start_ns))
    return Proposal(
        id="launch_bound",
        title=Text.of("Launch fewer and larger pieces of work"),
        problem=Text.of(
            "The host cannot feed the GPU: {gaps_count:time} the GPU was done before the next kernel was launched, {gap_ns} of "
            "the recorded {window_ns}. A kernel takes {kernel_ns}, the gap before it {median_ns} (medians)."
            + (SLOWED if slowed else ""),
            gaps_count=count, gap_ns=gap_ns, window_ns=trace.window_ns, kernel_ns=kernel_ns, median_ns=median_ns,
        ),
        advice=Text.of((IN_COMPILED if compiled else IN_EAGER) + ADVICE),
        bound="launch",
        phase="other",
        evidence=(
            Evidence("gaps before kernels that were launched late", "gaps_count", count),
            Evidence("these gaps", "gap_ns", gap_ns),
            Evidence("median kernel", "kernel_ns", kernel_ns),
            Evidence("median gap", "median_ns", median_ns),
        ),
        changes=("graph",),
        expected_share=EXPECTED_SHARE,
        best_confidence="low" if slowed else "medium",
        assumes="the work between two waits for the GPU can be captured as a graph or batched",
    )  # fmt: skip
