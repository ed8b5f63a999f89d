"""Does the GPU copy while nothing computes?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .. import trace as t
from ..analyses.copies import FROM_HOST, PAGEABLE, TO_HOST
from ..analyses.copies import copies as copies_of
from ..callers import Calls, calling_line
from ..durations import repaired_work
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..intervals import covered, union
from ..kernel_times import recorded_ns
from ..kernels import COPY, work_class
from ..links import launching_call, links
from ..proposals import Proposal
from ..trace import Ids, Ints, Mask, Trace
from .redundant_copies import round_trip_copies

MOST_NAMED = 3  # operators


@dataclass(frozen=True)
class Way:
    """Copies one way: how their names begin, the word of `longpole whatif`, what is said of them, and what is expected to go.

    `expected_share`: a judgement. An input is known a step ahead: three quarters, for some small ones are made on the way. Of
    what is read back, and of copies on the GPU, half is taken to be needed where and when it is.
    """

    id: str
    name: re.Pattern[str]
    word: str
    phase: str
    title: str
    what: str
    advice: str
    assumes: str
    expected_share: float


WAYS = (
    Way(
        "copies_to_gpu", FROM_HOST, "h2d", "input", "Copy the next input while the GPU computes", "to the GPU",
        "Copy the next batch on a stream of its own while this one computes: inside torch.cuda.stream(side) call "
        ".to(device, non_blocking=True), then current_stream().wait_stream(side) before the batch is used, and "
        "batch.record_stream(current_stream()). On the stream that computes, non_blocking=True frees the host and not the GPU. "
        "Send fewer bytes: images as uint8, converted on the GPU.",
        "the next input is there while the GPU works on this one", 0.75,
    ),
    Way(
        "copies_to_host", TO_HOST, "d2h", "output", "Copy results to the host while the GPU computes", "to the host",
        "Keep on the GPU what the host does not need, reduce it there, and copy it once every many steps. Copy the rest into a "
        "buffer of pinned memory (torch.empty(…, pin_memory=True)) with copy_(…, non_blocking=True) on a stream of its own, and "
        "wait for an event only where the host uses it; .cpu() and .numpy() go through pageable memory and hold the host.",
        "the host does not need the results at once", 0.5,
    ),
    Way(
        "copies_on_gpu", re.compile(r"Memcpy (DtoD|DtoA|AtoD|PtoP|D2D)|CopyDeviceToDevice"), "d2d", "other",
        "Avoid copies from one place on the GPU to another", "within and between GPUs",
        "Write results where they are needed (out=, slices of one preallocated tensor instead of torch.cat, in-place operators), "
        "leave out .clone() and .contiguous() where a view does, and keep on one GPU what is used together.",
        "another place for the data makes them needless", 0.5,
    ),
)  # fmt: skip


def exposed_copies(trace: Trace) -> Iterator[Proposal]:
    """One proposal for each way in which copies without other work beside them are notable.

    Without those that have an advice of their own: to the host and back, and from pageable memory. Where the latter are notable
    none to the GPU counts: memory is pinned first, and then all of them are other copies.
    """
    work = trace.device
    copies = work.category == t.MEMCPY
    if not copies.any():
        return
    pageable, from_host = (
        np.array([kind.match(name) is not None for name in trace.names], bool)[work.name] for kind in (PAGEABLE, FROM_HOST)
    )
    left = from_host if copies_of(trace).costly else pageable
    own, exposed_ns = copies & ~round_trip_copies(trace) & ~left, _exposed(trace)
    for way in WAYS:
        named = np.array([way.name.match(name) is not None for name in trace.names], bool)[work.name]
        rows = np.flatnonzero(own & named)
        if exposed_ns[rows].sum() * way.expected_share >= max(1, NOTABLE_SHARE * recorded_ns(trace)):
            yield _proposal(trace, way, rows, exposed_ns[rows], named & copies)


def _exposed(trace: Trace) -> Ints:
    """For each piece of device work how much of it nothing but copies runs beside on its device."""
    work, copies = repaired_work(trace), work_class(trace) == COPY
    exposed = work.end_ns - work.start_ns
    for device in np.unique(work.device).tolist():
        own = work.device == device
        busy = union(work.start_ns[own & ~copies], work.end_ns[own & ~copies])
        exposed[own] -= covered(*busy, work.start_ns[own], work.end_ns[own])
    return exposed


def _proposal(trace: Trace, way: Way, rows: Ids, exposed_ns: Ints, every: Mask) -> Proposal:
    """`every`: all copies that way, those with advice of their own too."""
    work = repaired_work(trace)
    took, worst = work.end_ns - work.start_ns, rows[int(exposed_ns.argmax())]
    ops, line = _callers(trace, rows, exposed_ns)
    left = 1 - took[rows].sum() / max(1, took[every].sum())
    return Proposal(
        id=way.id,
        title=Text.of(way.title),
        problem=Text(
            "{copies_count:copy|copies} " + way.what + " take {copies_ns}, and in {exposed_ns} of that, {exposed_share} of the "
            "recording, no kernel runs beside them." + (" They come from {ops}." if ops else "")
            + (" Most of it comes after {line}." if line else ""),
            {"copies_count": len(rows), "copies_ns": int(took[rows].sum()), "exposed_ns": int(exposed_ns.sum()),
             "exposed_share": exposed_ns.sum() / recorded_ns(trace), "ops": ops, "line": line},
        ),
        advice=Text(way.advice, {}),
        bound="copy",
        phase=way.phase,
        evidence=(
            Evidence("copies", "copies_count", len(rows)),
            Evidence("nothing runs beside them", "exposed_ns", int(exposed_ns.sum())),
            Evidence("the longest", "longest_ns", int(took[worst]), int(work.start_ns[worst]), int(work.end_ns[worst])),
        ),
        changes=(f"copy:{way.word} x{left:.3g}",),
        expected_share=way.expected_share,
        best_confidence="medium",
        assumes=way.assumes,
    )  # fmt: skip


def _callers(trace: Trace, rows: Ids, exposed_ns: Ints) -> tuple[str, str]:
    """The operators that copy longest, and the line of the program; empty where they are not known."""
    call, owner = launching_call(trace)[rows], links(trace).owner[rows]
    made = trace.host[call[call >= 0]]
    line = np.full(len(rows), -1)
    line[call >= 0] = calling_line(trace, Calls(made.start_ns, made.thread, made.external_id))
    ops = _longest(np.append(trace.host.name, -1)[owner], exposed_ns)
    return ", ".join(str(trace.names[op]) for op in ops), "".join(str(trace.names[one]) for one in _longest(line, exposed_ns)[:1])


def _longest(name: Ids, ns: Ints) -> list[int]:
    """The names that hold most time, without -1."""
    return pd.Series(ns).groupby(name).sum().drop(-1, errors="ignore").nlargest(MOST_NAMED).index.tolist()
