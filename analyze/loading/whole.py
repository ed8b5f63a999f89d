"""Which steps of a file that was cut off lack nothing?"""

import re

import numpy as np

from .. import trace as t
from ..launches import launches_of_missing_work
from ..trace import Ints, Trace

PROFILER_STEP = re.compile(r"ProfilerStep#\d+$")  # the range that torch.profiler's step() marks
MOST_NAMED = 4


def whole_steps(trace: Trace, host_until_ns: int) -> tuple[str, ...]:
    """Names of the steps that end by the time until which host events are known, and all of whose launches have their work."""
    steps = trace.host[_steps(trace)]
    lost = np.sort(trace.host.start_ns[launches_of_missing_work(trace)[0]])
    without_lost = np.searchsorted(lost, steps.start_ns) == np.searchsorted(lost, steps.end_ns)
    whole = steps[without_lost & (steps.end_ns <= host_until_ns)]
    return tuple(str(trace.names[row]) for row in whole.name[np.argsort(whole.start_ns, kind="stable")])


def whole_sentence(trace: Trace) -> str:
    """Which steps are whole, of a cut file that marks steps; empty for any other."""
    count = len(_steps(trace))
    if trace.whole_steps is None or not count:
        return ""
    named = ", ".join(trace.whole_steps[:MOST_NAMED])
    more = f" and {len(trace.whole_steps) - MOST_NAMED} more" if len(trace.whole_steps) > MOST_NAMED else ""
    steps = "1 step" if count == 1 else f"{count} steps"
    if not named:
        return f"Of {steps} none is whole."
    return f"{len(trace.whole_steps)} of {steps} {'lacks' if len(trace.whole_steps) == 1 else 'lack'} nothing: {named}{more}."


def _steps(trace: Trace) -> Ints:
    named = np.array([PROFILER_STEP.match(name) is not None for name in trace.names], np.bool_)
    return (
        np.flatnonzero((trace.host.category == t.ANNOTATION) & named[trace.host.name])
        if len(trace.names)
        else np.empty(0, np.int64)
    )
