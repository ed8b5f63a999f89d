"""Does the GPU idle while the program prepares data outside of a DataLoader, which it then copies to the GPU?"""

from collections.abc import Iterator

import numpy as np

from ..findings import NOTABLE_SHARE, Evidence, Text
from ..gpu_gaps import LOADING, idle_withheld
from ..input_ranges import unmarked_input_of
from ..intervals import covered
from ..proposals import Proposal
from ..step_marks import with_time_before
from ..trace import Ids, Ints, Trace


def unmarked_input(trace: Trace) -> Iterator[Proposal]:
    """Long gaps of the GPU that end with a copy to it, and the outermost function or annotation that is about them.

    Expected: it runs beside the rest of the step, so that the shorter of the two is gone; at least nothing, for the next input
    may depend on this result.
    """
    if not len(trace.device) or idle_withheld(trace):
        return
    found = unmarked_input_of(trace)
    if len(found.rows) and (found.end_ns - found.start_ns).sum() >= NOTABLE_SHARE * trace.window_ns:
        made = trace.host[found.rows]
        yield _proposal(trace, found.rows, covered(found.start_ns, found.end_ns, made.start_ns, made.end_ns))


def _proposal(trace: Trace, rows: Ids, inside: Ints) -> Proposal:
    name, idle_ns, longest = str(trace.names[int(trace.host.name[rows[0]])]), int(inside.sum()), rows[int(np.argmax(inside))]
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
        expected_share=_hidden_share(trace),
        best_confidence="medium",
        assumes="the next input is known while the GPU works on this one, and a core is free to prepare it",
    )  # fmt: skip


def _hidden_share(trace: Trace) -> float:
    """Of the gaps what the rest of the steps, with the time before them, is long enough to hide."""
    found, steps = unmarked_input_of(trace), with_time_before(trace)
    since, end = steps["since_ns"].to_numpy(), steps["end_ns"].to_numpy()
    idle_ns = int(covered(found.start_ns, found.end_ns, since, end).sum())
    return min(1.0, max(0, int((end - since).sum()) - idle_ns) / max(1, idle_ns))
