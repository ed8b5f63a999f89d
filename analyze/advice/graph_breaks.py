"""Does compiled code fall apart into pieces, or is it compiled again while the program runs?"""

import re
from collections.abc import Iterator

import numpy as np

from ...capture.errors import MissingData
from .. import trace as t
from ..analyses.compiled_regions import compiled_regions
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..intervals import length, union
from ..proposals import Proposal, Saving
from ..step_marks import marked_steps
from ..step_time import row_at
from ..trace import Ids, Trace

REGION = re.compile(r"Torch-Compiled Region: (?P<frame>\d+)/(?P<version>\d+)")
COMPILING = re.compile(r"\(dynamo_timed\)$|^(entire_frame_compile|backend_compile)\b")  # what torch marks while it compiles
NAMED_OPS = 4  # in a sentence


def graph_breaks(trace: Trace) -> Iterator[Proposal]:
    """Several compiled regions in a step with eager operators between them; compiling in steps after the first."""
    yield from _breaks(trace)
    yield from _recompiles(trace)


def _breaks(trace: Trace) -> Iterator[Proposal]:
    """What a break costs cannot be replayed: without it there would be other kernels."""
    try:
        found = compiled_regions(trace)
    except MissingData:
        return
    names = _regions(trace)
    frames = {match["frame"] for name in names if (match := REGION.match(name))}
    if found.regions_per_step < 2 or not found.eager_ops or (names and len(frames) < 2):
        return  # one frame called again and again is no broken graph
    eager = list(dict.fromkeys(found.eager_ops))
    yield Proposal(
        id="graph_breaks",
        title=Text.of("Find the graph breaks of torch.compile"),
        problem=Text.of(
            "Each step runs {regions_count} compiled regions with {ops_count} eager operators between them ({ops}): unless they "
            "are compiled apart on purpose, a graph break is likely there. Nothing is fused across it.",
            regions_count=round(found.regions_per_step), ops_count=len(found.eager_ops),
            ops=", ".join(eager[:NAMED_OPS]) + (", …" if len(eager) > NAMED_OPS else ""),
        ),
        advice=Text.of(
            'Run with TORCH_LOGS="graph_breaks", which prints the line and the reason of each, or with torch.compile(model, '
            "fullgraph=True), which stops at the first. Typical reasons: .item() and print in forward, data-dependent if, calls "
            "that torch.compile does not know."
        ),
        bound="host",
        phase="other",
        evidence=(
            Evidence("compiled regions in a step", "regions_count", found.regions_per_step),
            Evidence("eager operators between them", "ops_count", len(found.eager_ops)),
            Evidence("device time of work that is not compiled", "eager_ns", found.eager_ns),
        ),
        best_confidence="medium",
    )  # fmt: skip


def _regions(trace: Trace) -> list[str]:
    used = np.unique(trace.host.name[np.isin(trace.host.category, (t.OP, t.ANNOTATION))])
    return [str(trace.names[int(name)]) for name in used if REGION.match(trace.names[int(name)])]


def _recompiles(trace: Trace) -> Iterator[Proposal]:
    """Time in which the counted steps after the first compile: all of it goes where they need not; or none, if it is over."""
    steps = marked_steps(trace)
    later = steps[steps["counted"]].iloc[1:]
    rows = _compiling(trace)
    rows = rows[row_at(later["start_ns"].to_numpy(), later["end_ns"].to_numpy(), trace.host.start_ns[rows]) >= 0]
    start, end = union(trace.host.start_ns[rows], trace.host.end_ns[rows])
    compile_ns = length(start, end)
    if not len(rows) or compile_ns < NOTABLE_SHARE * trace.window_ns:
        return
    longest = int(np.argmax(end - start))
    per_step = compile_ns / (len(later) + 1)
    yield Proposal(
        id="recompiles",
        title=Text.of("Stop torch.compile from compiling again"),
        problem=Text.of(
            "torch.compile compiles in steps after the first one, {compile_ns} of the recorded {window_ns}.",
            compile_ns=compile_ns, window_ns=trace.window_ns,
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


def _compiling(trace: Trace) -> Ids:
    named = np.array([COMPILING.search(name) is not None for name in trace.names], bool)
    return np.flatnonzero(np.isin(trace.host.category, (t.OP, t.ANNOTATION)) & named[trace.host.name])
