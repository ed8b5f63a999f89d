"""Do kernels that only read, compute a little and write follow each other, which one kernel could do?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import trace as t
from ..analyses.compiled_regions import compiled_ranges
from ..durations import by_stream, repaired_work
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..grouping import group_sums
from ..host_tree import launched_in
from ..kernel_times import kernel_classes, kernel_times, recorded_ns
from ..links import links
from ..proposals import Proposal
from ..step_time import phase_ranges
from ..trace import Ids, Ints, Mask, Trace

KINDS = ("elementwise", "reduction", "normalisation")
# n kernels that each read and write once become one: all of a chain but its longest kernel can go at the most, as the fused one
# still reads and writes what that one did. Half of it is expected: several of them read more than one tensor, and keep theirs.
EXPECTED_SHARE = 0.5
# Kernels that torch.compile replaces by its own; a library's layout changes around a convolution are none.
OF_ATEN = re.compile(r"at::native|^void cudnn::bn_|layer_norm|SoftMax")
NOT_FUSED = re.compile(  # operators that stay kernels of their own, or that follow each other on tensors without a connection
    r"conv|mm|matmul|linear$|embedding|index|gather|scatter|sort|topk|unique|nonzero|foreach|fused|fill_|zero_|scalar"
)
MOST_NAMED = 8  # operators of the costliest chain
SOFTMAX, BATCHED = re.compile(r"softmax", re.IGNORECASE), re.compile(r"aten::(bmm|baddbmm)")
ATTENTION_WAY = (
    " Most of it is a softmax between two batched products, that is attention written out: "
    "torch.nn.functional.scaled_dot_product_attention does all three in one kernel."
)


@dataclass(frozen=True, eq=False)
class _Chains:
    """Chains of at least two operators: by row of device work its chain, -1 for none; by chain count, time, and what can go."""

    chain: Ids
    kernels_count: Ints
    ns: Ints
    saved_ns: Ints
    first: Ids  # rows of device work
    last: Ids
    of_attention: Mask


def elementwise_chains(trace: Trace) -> Iterator[Proposal]:
    """Kernels of different operators, next to each other on their stream, outside compiled regions and optimizers."""
    chains = _chains(trace)
    saved_ns = int(chains.saved_ns.sum())
    if saved_ns * EXPECTED_SHARE < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return
    work, worst = repaired_work(trace), int(chains.saved_ns.argmax())
    attention = 2 * int(chains.saved_ns[chains.of_attention].sum()) >= saved_ns
    yield Proposal(
        id="elementwise_chains",
        title=Text.of("Fuse chains of elementwise kernels"),
        problem=Text.of(
            "{chains_count:chain} of kernels that only read, compute a little and write, {kernels_count:kernel} in all: "
            "{chains_ns} in the recording. Each kernel writes to memory what the next one reads again. The costliest chain is "
            "{ops}.",
            chains_count=len(chains.ns), kernels_count=int(chains.kernels_count.sum()), chains_ns=int(chains.ns.sum()),
            ops=_ops(trace, chains, worst),
        ),
        advice=Text.of(
            "Compile the model, or the functions that hold these chains, with torch.compile; or call what is fused already "
            "(torch.nn.functional.rms_norm, layer_norm, scaled_dot_product_attention)." + (ATTENTION_WAY if attention else "")
        ),
        bound="compute",
        phase="other",
        evidence=(
            Evidence("their share of the recording", "recording_share", int(chains.ns.sum()) / recorded_ns(trace)),
            Evidence("the costliest chain", "chain_ns", int(chains.ns[worst]),
                     int(work.start_ns[chains.first[worst]]), int(work.end_ns[chains.last[worst]])),
        ),
        changes=_changes(trace, chains),
        expected_share=EXPECTED_SHARE,
        best_confidence="medium",
        assumes="each chain becomes one kernel that reads and writes once",
    )  # fmt: skip


def _chains(trace: Trace) -> _Chains:
    work, owner = repaired_work(trace), links(trace).owner
    order = np.concatenate([np.empty(0, np.int64), *(rows for _, _, rows in by_stream(work))])
    first_of_stream = np.concatenate([np.empty(0, bool), *(np.arange(len(rows)) == 0 for _, _, rows in by_stream(work))])
    taken, op = _fusible(trace)[order], owner[order]
    group = _group(trace, taken, op, first_of_stream)
    count = int(group.max(initial=-1)) + 1
    ns = (work.end_ns - work.start_ns)[order]
    per_op = np.zeros(len(order), np.int64)  # the time of an operator's kernels in a chain, at the first of them
    begins = np.flatnonzero(np.concatenate(([True], (op[1:] != op[:-1]) | (group[1:] != group[:-1])))[: len(order)])
    if len(begins):
        per_op[begins] = np.add.reduceat(ns, begins)
    longest, ops = np.zeros(count + 1, np.int64), np.bincount(group[begins] + 1, minlength=count + 1)[1:]
    np.maximum.at(longest, group, per_op)
    kept = np.append(ops >= 2, False)  # the last: of group -1
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    chain, total = number[group], group_sums(group, ns, count)
    places = np.flatnonzero(chain >= 0)
    _, first = np.unique(chain[places], return_index=True)
    last = np.append(first[1:], len(places)) - 1 if len(first) else first
    of_row = np.full(len(work), -1)
    of_row[order] = chain
    return _Chains(
        chain=of_row,
        kernels_count=np.bincount(chain[places], minlength=len(first)),
        ns=total[kept[:-1]],
        saved_ns=(total - longest[:-1])[kept[:-1]],
        first=order[places[first]],
        last=order[places[last]],
        of_attention=_of_attention(trace, order, chain, places[first], places[last]),
    )


def _fusible(trace: Trace) -> Mask:
    """For each piece of device work, whether torch.compile would make it part of a larger kernel, and has not done so."""
    work, owner = trace.device, links(trace).owner
    kinds = kernel_classes(trace)
    by_name = [kind in KINDS and OF_ATEN.search(name) is not None for kind, name in zip(kinds, trace.names, strict=True)]
    by_op = [name.startswith("aten::") and NOT_FUSED.search(name) is None for name in trace.names]
    found = np.array(by_name, bool)[work.name] & (work.category == t.KERNEL) & (owner >= 0)
    found[found] = np.array(by_op, bool)[trace.host.name[owner[found]]]
    return found & ~launched_in(trace, compiled_ranges(trace)) & ~launched_in(trace, phase_ranges(trace, "optimizer"))


def _group(trace: Trace, taken: Mask, op: Ids, first_of_stream: Mask) -> Ids:
    """For each row, in the order of streams, the number of its run of fusible kernels, or -1.

    The same operator twice in a row mostly works on two tensors, as in a loop over parameters or features: a new run begins.
    """
    name = np.append(trace.host.name, -1)[op]
    goes_on = np.zeros(len(taken), bool)
    goes_on[1:] = taken[1:] & taken[:-1] & ((op[1:] == op[:-1]) | (name[1:] != name[:-1]))
    goes_on &= ~first_of_stream
    return np.where(taken, np.cumsum(taken & ~goes_on) - 1, -1)


def _of_attention(trace: Trace, order: Ints, chain: Ids, first: Ints, last: Ints) -> Mask:
    """Chains that hold a softmax and lie between two batched products."""
    name = np.append(trace.host.name, -1)[links(trace).owner[order]]
    names = [*trace.names, ""]
    softmax = np.array([SOFTMAX.search(text) is not None for text in names], bool)[name]
    batched = np.array([BATCHED.fullmatch(text) is not None for text in names], bool)[name]
    held = np.zeros(len(first) + 1, bool)
    held[chain[softmax]] = True
    return held[:-1] & np.append(batched, False)[first - 1] & np.append(batched, False)[last + 1]


def _ops(trace: Trace, chains: _Chains, worst: int) -> str:
    """The names of a chain's operators, in order."""
    rows = np.flatnonzero(chains.chain == worst)
    owner = links(trace).owner[rows[np.argsort(trace.device.start_ns[rows], kind="stable")]]
    owner = owner[np.concatenate(([True], owner[1:] != owner[:-1]))]
    names = [str(trace.names[name]).removeprefix("aten::") for name in trace.host.name[owner]]
    return ", ".join([*names[:MOST_NAMED], *(["…"] if len(names) > MOST_NAMED else [])])


def _changes(trace: Trace, chains: _Chains) -> tuple[str, ...]:
    """Each class without what its part in the chains can save."""
    work, inside = repaired_work(trace), chains.chain >= 0
    ns = (work.end_ns - work.start_ns)[inside]
    saved = ns * (chains.saved_ns / np.maximum(1, chains.ns))[chains.chain[inside]]
    all_ns, kinds = kernel_times(trace), kernel_classes(trace)
    of_name = np.bincount(work.name[inside], weights=saved, minlength=len(kinds))
    parts = {kind: np.array([found == kind for found in kinds], bool) for kind in KINDS}
    return tuple(
        f"kernel:{kind} x{1 - of_name[part].sum() / all_ns[part].sum():.3f}"
        for kind, part in parts.items()
        if of_name[part].any()
    )
