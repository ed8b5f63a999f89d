"""Does the first recorded step cost much more than the others?"""

import re
from collections.abc import Iterator

import numpy as np

from .. import trace as t
from ..broken_graphs import COMPILING
from ..durations import repaired_work
from ..findings import Evidence, Text
from ..intervals import covered, length, union
from ..kernels import COMMUNICATION, work_class
from ..proposals import Proposal
from ..step_marks import OUTLIER_FACTOR, marked_steps
from ..trace import Trace

FEWEST_STEPS = 3  # a first one, and others that agree
STEADY_FACTOR = 1.3  # the slowest of the others ÷ their median: where they vary more, the first is not special
TELLING_SHARE = 0.1  # of the step's extra time: calls that take less do not explain it
WAITING_SHARE = 0.5  # the same of collectives, which take time in every step
WAITS = "a collective waits for other ranks, whose profilers may have started later"
KINDS = (t.OP, t.ANNOTATION, t.RUNTIME, t.OVERHEAD)
CAUSES = (  # names of calls and ranges, and what they do in a first step
    (COMPILING.pattern, "torch.compile compiles"),
    (r"cudaMalloc|hipMalloc|cuMemAlloc|cuMemCreate", "the allocator asks for memory"),
    (r"Module ?Load|ModuleGetFunction|LibraryLoad|Lazy Function Loading", "kernels are loaded"),
    (r"cudnnFind|miopenFind|benchmark", "convolution algorithms are tried out"),
)


def first_step(trace: Trace) -> Iterator[Proposal]:
    """Worth knowing: it saves nothing in other steps, but averages and a short recording are wrong with it."""
    steps = marked_steps(trace)
    steps = steps[steps["counted"]]
    if not len(trace.device) or len(steps) < FEWEST_STEPS:
        return
    times = steps["step_ns"].to_numpy()
    median = float(np.median(times[1:]))
    if times[0] <= OUTLIER_FACTOR * median or times[1:].max() > STEADY_FACTOR * median:
        return
    start, end = int(steps["start_ns"].iloc[0]), int(steps["end_ns"].iloc[0])
    causes = _causes(trace, start, end, float(times[0]) - median)
    yield Proposal(
        id="first_step",
        title=Text.of("Leave the first step out of measurements"),
        problem=Text(
            "The first recorded step takes {first_ns}, the others {median_ns} in the median"
            + ("; in it {causes}." if causes else "."),
            {"first_ns": int(times[0]), "median_ns": median, **({"causes": " and ".join(causes)} if causes else {})},
        ),
        advice=Text.of(
            "Record steps that are warm: torch.profiler.schedule with wait and warmup of a few steps. Compiling, the search for "
            "convolution algorithms (torch.backends.cudnn.benchmark), loading of kernels and the allocator's first requests are "
            "paid once."
        ),
        bound="host",
        phase="other",
        evidence=(
            Evidence("the first step", "first_ns", int(times[0]), start, end),
            Evidence("median of the others", "median_ns", median),
        ),
    )


def _causes(trace: Trace, start: int, end: int, extra_ns: float) -> list[str]:
    """Those whose calls take a telling part of what the step takes longer."""
    host = trace.host
    inside = host[(host.start_ns >= start) & (host.start_ns < end) & np.isin(host.category, KINDS)]
    named = ((np.array([re.search(pattern, name) is not None for name in trace.names], bool), cause) for pattern, cause in CAUSES)
    took = ((inside[names[inside.name]], cause) for names, cause in named)
    found = [cause for rows, cause in took if length(*union(rows.start_ns, rows.end_ns)) >= TELLING_SHARE * extra_ns]
    return [*found, *([WAITS] if _communicating(trace, start, end) >= WAITING_SHARE * extra_ns else [])]


def _communicating(trace: Trace, start: int, end: int) -> int:
    rows = work_class(trace) == COMMUNICATION
    spans = union(trace.device.start_ns[rows], repaired_work(trace).end_ns[rows])
    return int(covered(*spans, np.array([start]), np.array([end]))[0])
