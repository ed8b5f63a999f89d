"""Where does the GPU run dry because the host waited for it?"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .. import trace as t
from ..analyses.copies import TO_HOST
from ..callers import Calls, calling_line, calling_op
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..gpu_gaps import idle_withheld
from ..host_tree import thread_offsets
from ..host_waits import HostWaits, host_waits
from ..links import launching_call
from ..proposals import Proposal
from ..step_marks import marked_steps
from ..step_time import row_at
from ..trace import Ids, Ints, Mask, Trace

READS, MASKS, TO_GPU, BACK, EXPLICIT, OTHER = "reads", "masks", "copies_to_gpu", "copies_back", "explicit", "other"
EXPECTED_SHARE = 0.75  # of what goes without these waits: some values are needed at once, in an `if` or a log line
KIND_OF_OP = {
    "aten::_local_scalar_dense": READS, "aten::item": READS, "aten::is_nonzero": READS,
    "aten::nonzero": MASKS, "aten::index": MASKS, "aten::masked_select": MASKS, "aten::_unique2": MASKS,
    "aten::unique_dim": MASKS, "aten::unique_consecutive": MASKS, "aten::repeat_interleave": MASKS, "aten::bincount": MASKS,
    "aten::copy_": BACK, "aten::to": BACK, "aten::_to_copy": BACK,
}  # fmt: skip
TELLING_SHARE = 0.5  # of what all waits cost: where no kind alone costs that, they only help together


@dataclass(frozen=True)
class Words:
    """What a kind of wait is called, and what to do about it."""

    title: str
    what: str
    advice: str


WORDS = {
    READS: Words(
        "Read numbers out of GPU tensors less often",
        "reads of single numbers (.item(), float(), print or `if` of a tensor)",
        "Keep losses and metrics as tensors, add them up on the GPU, and call .item() once every many steps; instead of an `if` "
        "on a tensor use torch.where.",
    ),
    MASKS: Words(
        "Select with masks of fixed size instead of boolean indexing",
        "operators whose result has a size that the host must know (boolean masks, nonzero, unique)",
        "Use torch.where(mask, a, b), masked_fill or a product with the mask, which keep the shape; torch.nonzero_static(mask, "
        "size=n) where a list of places is needed; repeat_interleave with output_size=n.",
    ),
    BACK: Words(
        "Copy results back to the host less often, and without waiting",
        "copies back to the host (.cpu(), .numpy(), .tolist(), printing a tensor)",
        "Keep results on the GPU and copy them together every many steps; what is needed in every step, copy into pinned memory "
        "with non_blocking=True, and wait for an event only when it is used, a step later.",
    ),
    TO_GPU: Words(
        "Copy to the GPU without waiting",
        "copies to the GPU that hold the host until they are done",
        "Take them from pinned memory (pin_memory=True in the DataLoader) with .to(device, non_blocking=True); make constants "
        "and index tensors on the GPU (device=…) instead of copying them in each step.",
    ),
    EXPLICIT: Words(
        "Take explicit synchronisations out of the loop",
        "calls that wait for the GPU outside of any operator",
        "Leave out torch.cuda.synchronize(): work on a stream keeps its order without it. To measure time, record "
        "torch.cuda.Event(enable_timing=True) and read it after the loop.",
    ),
    OTHER: Words(
        "Avoid operators that wait for the GPU",
        "operators that wait for the GPU",
        "torch.cuda.set_sync_debug_mode(1) warns of each line that waits; look for a form of the operator whose result does not "
        "depend on values on the GPU.",
    ),
}  # fmt: skip


def host_syncs(trace: Trace) -> Iterator[Proposal]:
    """Waits by kind, those after which the GPU idles: a wait for a GPU that has more to do costs nothing.

    What the waits of a kind cost together is told by HostWaits. Expected is all of what the replay saves, but the host may need
    the value at once: at least nothing.
    """
    if not len(trace.device) or idle_withheld(trace):
        return
    waits = host_waits(trace)
    mine = _of_the_loop(trace, waits)
    least_ns, all_ns = NOTABLE_SHARE * trace.window_ns, waits.filled_ns(mine).sum()
    if all_ns < least_ns:
        return
    rows = _rows(trace, waits)
    alone = {kind: waits.filled_ns(mine & (rows["kind"] == kind).to_numpy()) for kind in WORDS}
    if max(filled.sum() for filled in alone.values()) < TELLING_SHARE * all_ns:
        yield _proposal(tuple(rows.loc[mine & (rows["waited_ns"] > 0), "kind"]), rows, waits.filled_ns(mine), trace)
        return
    for kind, filled in alone.items():
        if filled.sum() >= least_ns:
            yield _proposal((kind,), rows, filled, trace)


def _of_the_loop(trace: Trace, waits: HostWaits) -> Mask:
    """Not the profiler's own: those outside of the marked steps, or for what was launched before the recording."""
    steps = marked_steps(trace)
    steps = steps[~steps["aside"]]
    return (waits.launched > 0) & (row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), waits.start_ns) >= 0)


def _rows(trace: Trace, waits: HostWaits) -> pd.DataFrame:
    host = trace.host[waits.call]
    calls = Calls(host.start_ns, host.thread, host.external_id)
    op, line = calling_op(trace, calls), calling_line(trace, calls)
    text = np.array([*trace.names, ""], object)
    rows = pd.DataFrame({"op": text[op], "line": text[line], "call": text[host.name]})
    rows = rows.assign(start_ns=waits.start_ns, end_ns=waits.end_ns, waited_ns=waits.waited_ns)
    kind = rows["op"].map(KIND_OF_OP).fillna(OTHER).where(rows["op"] != "", EXPLICIT)
    copies = (kind == BACK) | (kind == EXPLICIT) & rows["call"].str.contains("Memcpy")
    return rows.assign(kind=np.where(copies, np.where(_from_gpu(trace, waits.call), BACK, TO_GPU), kind))


def _from_gpu(trace: Trace, calls: Ids) -> Mask:
    """Whether the last copy that the thread had called by the end of each call goes to the host."""
    call, host = launching_call(trace), trace.host
    copies = np.flatnonzero((trace.device.category == t.MEMCPY) & (call >= 0))
    if not len(copies):
        return np.ones(len(calls), bool)
    offset = thread_offsets(host)
    line = host.start_ns[call[copies]] + offset[host.thread[call[copies]]]
    copies, line = copies[np.argsort(line, kind="stable")], np.sort(line)
    place = np.searchsorted(line, host.start_ns[calls] + offset[host.thread[calls]], side="right") - 1
    names = [trace.names[name] for name in trace.device.name[copies[np.maximum(place, 0)]]]
    return np.array([TO_HOST.match(str(name)) is not None for name in names], bool)


def _proposal(kinds: tuple[str, ...], rows: pd.DataFrame, filled: Ints, trace: Trace) -> Proposal:
    """Of one kind, or of all that occur."""
    rows = rows.assign(filled_ns=filled)[rows["kind"].isin(kinds) & (rows["waited_ns"] > 0)]
    words = [told for kind, told in WORDS.items() if kind in kinds]
    names = sorted(set(rows["op"].where(rows["op"] != "", rows["call"])))
    by_line = rows.groupby("line")["filled_ns"].sum().drop("", errors="ignore")
    where = {"line": str(by_line.idxmax())} if len(by_line) else {}
    return Proposal(
        id=f"host_syncs:{kinds[0]}" if len(words) == 1 else "host_syncs",
        title=Text.of(words[0].title if len(words) == 1 else "Let the host run ahead of the GPU"),
        problem=Text(
            "The host waits until the GPU has caught up, and then the GPU waits for the host: {filled_ns} of the recorded "
            "{window_ns}. What waits: {what}; {waits_count} in all, in {names}."
            + ("" if len(words) == 1 else " Without one of these kinds alone the host would wait at the next.")
            + (" Most of it comes after {line}." if where else ""),
            {"what": " and ".join(told.what for told in words), "filled_ns": int(filled.sum()), "window_ns": trace.window_ns,
             "waits_count": len(rows), "names": ", ".join(names), **where},
        ),
        advice=Text.of(" ".join(told.advice for told in words)),
        bound="synchronization",
        phase="other",
        evidence=_evidence(rows, int(filled.sum())),
        changes=tuple(f"sync:{name} x0" for name in names),
        expected_share=EXPECTED_SHARE,
        best_confidence="medium",
        assumes="the host does not need the values at once",
    )  # fmt: skip


def _evidence(rows: pd.DataFrame, filled_ns: int) -> tuple[Evidence, ...]:
    worst = rows.iloc[int(rows["filled_ns"].argmax())]
    return (
        Evidence("waits for a GPU at work", "waits_count", len(rows)),
        Evidence("the host waits in them", "waited_ns", int(rows["waited_ns"].sum())),
        Evidence("idle time after them that a host ahead could fill", "filled_ns", filled_ns),
        Evidence("after the costliest", "worst_ns", int(worst["filled_ns"]), int(worst["start_ns"]), int(worst["end_ns"])),
    )
