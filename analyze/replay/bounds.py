"""Graph and changes -> what no step can be shorter than: its busiest stream, and all its work that is not communication."""

import numpy as np

from ..durations import by_stream, repaired_work
from ..intervals import length, union
from ..kernels import COMMUNICATION, work_class
from ..statistics import Floats
from ..trace import Mask
from .changes import Effect
from .edges import KERN
from .graph import Graph
from .steps import step_of_work


def least_step_ns(found: Graph, effect: Effect) -> float:
    """The mean over the kept steps: the larger of the busiest stream and the union of work without communication.

    The union of changed work is not known without a replay: it is the measured one less all that is taken out.
    """
    trace, steps = found.trace, found.reported["row"].to_numpy()
    work, of = repaired_work(trace), step_of_work(trace)
    took = (work.end_ns - work.start_ns).astype(np.float64)
    left = took.copy()
    kern = np.flatnonzero(found.edges.kind == KERN)
    left[found.edges.work[kern]] = found.weight_ns[kern] * effect.keep[kern]  # of collectives without waiting for other ranks
    quiet = work_class(trace) != COMMUNICATION
    return float(np.mean([_least(found, of == step, took, left, quiet) for step in steps])) if len(steps) else 0.0


def _least(found: Graph, own: Mask, took: Floats, left: Floats, quiet: Mask) -> float:
    work = repaired_work(found.trace)
    rows = np.flatnonzero(own)
    # Work of one stream may overlap: what is taken out of it is taken out of its union at most.
    streams = [rows[place] for _, _, place in by_stream(work[rows])]
    groups = [*streams, np.flatnonzero(own & quiet)]
    spans = [length(*union(work.start_ns[group], work.end_ns[group])) - (took[group] - left[group]).sum() for group in groups]
    return float(max(0.0, *spans)) if spans else 0.0
