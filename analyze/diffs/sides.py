"""Runs -> a side of a comparison: one run, or several of the same program, whose differences then count as noise."""

from collections.abc import Sequence

from ..analyses.steps import steps
from ..step_marks import settled
from ..trace import Trace

Side = Sequence[Trace]  # at least one


def typical(side: Side) -> Trace:
    """The run whose mean step is the median of all; of two in the middle the faster one."""
    return sorted(side, key=lambda trace: steps(trace).mean_ns)[(len(side) - 1) // 2] if len(side) > 1 else side[0]


def compared(side: Side) -> Side:
    """The runs as they are compared: first steps that still warm up do not count."""
    return tuple(settled(trace) for trace in side)
