"""Does the GPU idle while the program prepares data outside of a DataLoader, which it then copies to the GPU?"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from .. import trace as t
from ..analyses.copies import FROM_HOST
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..gpu_gaps import LOADING, idle_gaps, idle_withheld, loader_ranges
from ..intervals import covered, union
from ..launches import is_launch
from ..links import calls_named
from ..proposals import Proposal
from ..step_marks import marked_steps, step_ranges
from ..trace import Ids, Ints, Trace

SHORTEST_GAP_NS = 1_000_000  # the way to a copy takes the host less than that; what takes longer is making the data
ABOUT = 0.8  # of a range in such gaps, and of the gaps in it: then the range is what the GPU waits for


def unmarked_input(trace: Trace) -> Iterator[Proposal]:
    """Long gaps of the GPU that end with a copy to it, and the outermost function or annotation that is about them.

    Expected: it runs beside the rest of the step, so that the shorter of the two is gone; at least nothing, for the next input
    may depend on this result.
    """
    if not len(trace.device) or idle_withheld(trace):
        return
    start, end = _input_gaps(trace)
    gap_ns = int((end - start).sum())
    if gap_ns < NOTABLE_SHARE * trace.window_ns:
        return
    rows = _preparing(trace, start, end)
    if len(rows):
        yield _proposal(trace, rows, covered(start, end, trace.host.start_ns[rows], trace.host.end_ns[rows]))


def _input_gaps(trace: Trace) -> tuple[Ints, Ints]:
    """Of all devices, without those in which a data loader works."""
    gaps, copies = idle_gaps(trace), trace.device[trace.device.category == t.MEMCPY]
    from_host = np.array([FROM_HOST.match(name) is not None for name in trace.names], bool)
    begun = copies.start_ns[from_host[copies.name]]
    loads = trace.host[loader_ranges(trace)]
    loaded = covered(*union(loads.start_ns, loads.end_ns), gaps.start, gaps.end) > 0
    mine = np.isin(gaps.end, begun) & ~loaded & (gaps.end - gaps.start >= SHORTEST_GAP_NS)
    return union(gaps.start[mine], gaps.end[mine])


def _preparing(trace: Trace, start: Ints, end: Ints) -> Ids:
    """Rows of the host ranges of one name that launch nothing and fill the gaps; of several names the one that takes longest."""
    host = trace.host
    named = np.isin(host.category, (t.PYTHON, t.ANNOTATION)) & (host.end_ns - host.start_ns >= ABOUT * SHORTEST_GAP_NS)
    rows = np.flatnonzero(named & ~step_ranges(trace))
    launches = np.sort(host.start_ns[calls_named(trace, is_launch)])
    rows = rows[np.searchsorted(launches, host.start_ns[rows]) == np.searchsorted(launches, host.end_ns[rows])]
    inside = covered(start, end, host.start_ns[rows], host.end_ns[rows])
    rows = rows[inside >= ABOUT * (host.end_ns[rows] - host.start_ns[rows])]
    sums = pd.Series(host.end_ns[rows] - host.start_ns[rows]).groupby(host.name[rows]).sum()
    sums = sums[sums >= ABOUT * (end - start).sum()]
    return rows[host.name[rows] == sums.idxmax()] if len(sums) else rows[:0]


def _proposal(trace: Trace, rows: Ids, inside: Ints) -> Proposal:
    name, idle_ns, longest = str(trace.names[int(trace.host.name[rows[0]])]), int(inside.sum()), rows[int(np.argmax(inside))]
    steps = marked_steps(trace)
    rest_ns = max(0, int(steps.loc[~steps["aside"], "step_ns"].sum()) - idle_ns)
    return Proposal(
        id="unmarked_input",
        title=Text.of("Prepare the next input while the GPU works"),
        problem=Text.of(
            "The GPU idles {idle_ns} of the recorded {window_ns} while {name} runs, and then gets data from the host.",
            idle_ns=idle_ns, window_ns=trace.window_ns, name=name,
        ),
        advice=Text.of(
            "Do that for the next batch while the GPU works on this one: in a Dataset behind a DataLoader with workers, or in a "
            "thread with a queue; or do it on the GPU. Where it is done again for the same data, store the result."
        ),
        bound="input_pipeline",
        phase=LOADING,
        evidence=(
            Evidence("the GPU idles meanwhile", "idle_ns", idle_ns),
            Evidence("calls", "calls_count", len(rows)),
            Evidence(
                "the longest", "longest_ns", int(inside.max()), int(trace.host.start_ns[longest]), int(trace.host.end_ns[longest])
            ),
        ),
        changes=(f"host:{name} x0",),
        expected_share=min(1.0, rest_ns / max(1, idle_ns)),
        best_confidence="medium",
        assumes="the next input is known while the GPU works on this one, and a core is free to prepare it",
    )  # fmt: skip
