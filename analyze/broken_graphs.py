"""Regions of torch.compile -> proposals: what breaks their graphs, and what makes it compile again."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import trace as t
from .findings import NOTABLE_SHARE, Evidence, Text
from .intervals import length, union
from .proposals import Proposal, Saving
from .step_marks import marked_steps
from .step_time import row_at
from .trace import Ids, Trace

if TYPE_CHECKING:
    from .analyses.compiled_regions import CompiledRegions

REGION = re.compile(r"Torch-Compiled Region: (?P<frame>\d+)/(?P<version>\d+)")
COMPILING = re.compile(
    r"\(dynamo_timed\)$|^dynamo$|^(entire_frame_compile|backend_compile)\b"
)  # what torch marks while it compiles
NAMED_OPS = 4  # in a sentence


def breaks(found: "CompiledRegions") -> Iterator[Proposal]:
    """What a break costs cannot be replayed: without it there would be other kernels."""
    names = found.rows["name"].astype(str)
    frames = {match["frame"] for name in names if (match := REGION.match(name))}
    if found.regions_per_step < 2 or not (found.eager_ops or found.nested_per_step) or (frames and len(frames) < 2):
        return  # one frame called again and again is no broken graph
    yield Proposal(
        id="graph_breaks",
        title=Text.of("Find the graph breaks of torch.compile"),
        problem=_problem(found),
        advice=Text.of(
            'Run with TORCH_LOGS="graph_breaks", which prints the line and the reason of each, or with torch.compile(model, '
            "fullgraph=True), which stops at the first. Typical reasons: .item() and print in forward, data-dependent if, calls "
            "that torch.compile does not know."
        ),
        bound="host",
        phase="other",
        evidence=(
            Evidence("compiled regions in a step", "regions_count", found.regions_per_step),
            Evidence("those that run inside another", "nested_count", found.nested_per_step),
            Evidence("eager operators between them", "ops_count", len(found.eager_ops)),
            *([] if found.compiled_ns is None or found.untold else
              [Evidence("device time of work that is not compiled", "eager_ns", found.eager_ns)]),
        ),
        best_confidence="high" if found.nested_per_step else "medium",
    )  # fmt: skip


def _problem(found: "CompiledRegions") -> Text:
    """A region that runs inside another was resumed there; others may be compiled apart."""
    values = {"regions_count": round(found.regions_per_step), "ops_count": len(found.eager_ops), "ops": _listed(found.eager_ops)}
    operators = " with {ops_count:eager operator} between them ({ops})" if found.eager_ops else ""
    if not found.nested_per_step:
        unless = ": unless they are compiled apart on purpose, a graph break is likely there. Nothing is fused across it."
        return Text("Each step runs {regions_count:compiled region}" + operators + unless, values)
    inside = ", {nested_count} of them inside another, which is where torch.compile resumes after a graph break."
    more = " Before it run {unsure}; this backend does not mark which of them are compiled." if found.unsure_ops else ""
    more_values = {"nested_count": round(found.nested_per_step), "unsure": _listed(found.unsure_ops)}
    return Text("Each step runs {regions_count:compiled region}" + operators + inside + more, values | more_values)


def _listed(ops: Sequence[str]) -> str:
    names = list(dict.fromkeys(ops))
    return ", ".join(names[:NAMED_OPS]) + (", …" if len(names) > NAMED_OPS else "")


def recompiles(trace: Trace) -> Iterator[Proposal]:
    """Time in which the counted steps after the first compile: all of it goes where they need not; or none, if it is over."""
    steps = marked_steps(trace)
    later = steps[steps["counted"]].iloc[1:]
    rows = compiling(trace)
    rows = rows[row_at(later["start_ns"].to_numpy(), later["end_ns"].to_numpy(), trace.host.start_ns[rows]) >= 0]
    start, end = union(trace.host.start_ns[rows], trace.host.end_ns[rows])
    compile_ns = length(start, end)
    if not len(rows) or compile_ns < NOTABLE_SHARE * trace.window_ns:
        return
    longest = int(np.argmax(end - start))
    count = _versions(trace)
    versions = "; one region runs in {versions_count:version}" if count > 1 else ""
    per_step = compile_ns / (len(later) + 1)
    yield Proposal(
        id="recompiles",
        title=Text.of("Stop torch.compile from compiling again"),
        problem=Text.of(
            "torch.compile compiles in steps after the first one, {compile_ns} of the recorded {window_ns}" + versions + ".",
            compile_ns=compile_ns, window_ns=trace.window_ns, versions_count=count,
        ),
        advice=Text.of(
            'Run with TORCH_LOGS="recompiles", which prints the guard that failed. Where shapes change, compile with '
            "dynamic=True, use mark_dynamic, or pad batches to few sizes; keep Python numbers that change out of compiled code. "
            "If compiling ends after some steps, record later ones."
        ),
        bound="host",
        phase="other",
        evidence=(
            Evidence("compiling in steps after the first", "compile_ns", compile_ns),
            Evidence("the longest", "longest_ns", int(end[longest] - start[longest]), int(start[longest]), int(end[longest])),
        ),
        saving=Saving(0, per_step, per_step),
        best_confidence="medium",
        assumes="later steps go on compiling as these do",
    )  # fmt: skip


def compiling(trace: Trace) -> Ids:
    """Rows of the host ranges that torch marks while it compiles."""
    named = np.array([COMPILING.search(name) is not None for name in trace.names], bool)
    return np.flatnonzero(np.isin(trace.host.category, (t.OP, t.ANNOTATION)) & named[trace.host.name])


def _versions(trace: Trace) -> int:
    """In how many versions the region with most of them runs."""
    used = np.unique(trace.host.name[np.isin(trace.host.category, (t.OP, t.ANNOTATION))])
    matches = [REGION.match(trace.names[int(name)]) for name in used]
    counts = Counter(match["frame"] for match in matches if match)
    return max(counts.values(), default=0)
