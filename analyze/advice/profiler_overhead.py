"""Does the profiler itself take so much time that the figures cannot be trusted?"""

from collections.abc import Iterator

import numpy as np

from ...capture.bundle import unprofiled_times
from ..findings import Evidence, Text
from ..launches import is_launch
from ..links import calls_named
from ..profiler_overhead import Overhead
from ..profiler_overhead import profiler_overhead as measured_overhead
from ..proposals import Proposal
from ..step_marks import marked_steps
from ..trace import Trace

TRUSTED_RATIO = 1.5  # profiled ÷ unprofiled median step; profiled steps of 1.1 to 1.5 times are usual
TRUSTED_SHARE = 0.1  # of the recording in which the profiler works
TRUSTED_LAUNCH_SHARE = 0.5  # of the time of launch calls that is the profiler's own
LAUNCHES_SHARE = 0.05  # of the recording: launch calls that take less change no verdict
OPTIONS = {"with_stacks": "with_stack", "with_memory": "profile_memory", "with_shapes": "record_shapes"}


def profiler_overhead(trace: Trace) -> Iterator[Proposal]:
    """Worth knowing: the steps are slower because of it, and the host's part of them most."""
    ratio, overhead = _ratio(trace), measured_overhead(trace, np.flatnonzero(calls_named(trace, is_launch)))
    slow, told = ratio is not None and ratio >= TRUSTED_RATIO, overhead is not None and _is_large(overhead, trace.window_ns)
    if not (slow or told):
        return
    problems, values, evidence = [], {}, []
    if slow and ratio is not None:
        problems.append("A step takes {slow_ratio} its time without the profiler (medians), and most of that is the host's.")
        values["slow_ratio"] = ratio
        evidence.append(Evidence("profiled step ÷ unprofiled step", "slow_ratio", ratio))
    if told and overhead is not None:
        problems.append(
            "The profiler itself works in {overhead_ns} of the recorded {window_ns}, and in {inside_ns} of the {launch_ns} of "
            "launch calls: what looks like slow launches there is none."
        )
        values |= {
            "overhead_ns": overhead.overhead_ns, "window_ns": trace.window_ns, "inside_ns": overhead.launch_overhead_ns,
            "launch_ns": overhead.launch_ns,
        }  # fmt: skip
        evidence += [
            Evidence("work of the profiler itself", "overhead_ns", overhead.overhead_ns),
            Evidence("of it in launch calls", "inside_ns", overhead.launch_overhead_ns),
            Evidence("launch calls that it overlaps", "overlapped_count", overhead.overlapping_count),
        ]
    yield Proposal(
        id="profiler_overhead",
        title=Text.of("Record with less overhead"),
        problem=Text(" ".join(problems), values),
        advice=Text.of(_advice(trace)),
        bound="host",
        phase="other",
        evidence=tuple(evidence),
    )


def _ratio(trace: Trace) -> float | None:
    unprofiled = unprofiled_times(trace.manifest)
    if not unprofiled:
        return None
    steps = marked_steps(trace)
    return float(steps.loc[steps["counted"], "step_ns"].median()) / float(np.median(unprofiled))


def _is_large(overhead: Overhead, window_ns: int) -> bool:
    in_launches = overhead.launch_overhead_ns >= TRUSTED_LAUNCH_SHARE * max(1, overhead.launch_ns)
    return overhead.overhead_ns >= TRUSTED_SHARE * window_ns or (in_launches and overhead.launch_ns >= LAUNCHES_SHARE * window_ns)


def _advice(trace: Trace) -> str:
    costly = [option for field, option in OPTIONS.items() if getattr(trace.source, field)]
    without = f"Record without {' and '.join(costly)}, " if costly else "Record "
    return (
        without + "with a few steps of warmup in torch.profiler.schedule and few active steps, and compare times of steps that "
        "were measured without the profiler. Kernels take their own time in either case."
    )
