"""Are data copied to the host and back, or cast to another type and back?"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import trace as t
from ..analyses.copies import FROM_HOST, TO_HOST
from ..durations import by_stream, repaired_work
from ..findings import NOTABLE_SHARE, Evidence, Text
from ..kernel_times import kernel_classes, kernel_times, recorded_ns
from ..links import links
from ..proposals import Proposal
from ..trace import Ids, Ints, Mask, Trace

LEAST_BYTES = 65_536  # of a copy: smaller ones are often of the same size by chance
REPEATED = 2  # times: once may be a coincidence
NARROW = {"c10::BFloat16", "c10::Half", "at::BFloat16", "at::Half"}


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Rows of device work: there and back again, next to each other."""

    there: Ids
    back: Ids
    ns: Ints

    def those(self, count: int) -> Mask:
        found = np.zeros(count, bool)
        found[self.there] = found[self.back] = True
        return found


def redundant_copies(trace: Trace) -> Iterator[Proposal]:
    """Pairs of which the second undoes the first, next to each other on one stream."""
    yield from _round_trips(trace)
    yield from _casts(trace)


def round_trip_copies(trace: Trace) -> Mask:
    """Which device work is of notable pairs of copies to the host and back."""
    return _there_and_back(trace).those(len(trace.device))


def _there_and_back(trace: Trace) -> _Pairs:
    """A copy to the host, and the next copy brings as many bytes to the device; none where they are not notable."""
    work, (to_host, to_device) = trace.device, _ways(trace)
    copies = np.flatnonzero(work.category == t.MEMCPY)
    pairs = _pairs(trace, copies, to_host, to_device & (work.size_bytes >= LEAST_BYTES), work.size_bytes)
    if len(pairs.there) < REPEATED or pairs.ns.sum() < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return _Pairs(pairs.there[:0], pairs.back[:0], pairs.ns[:0])
    return pairs


def _ways(trace: Trace) -> tuple[Mask, Mask]:
    """Which device work copies to the host, and which from it."""
    to_host, from_host = (np.array([way.match(name) is not None for name in trace.names], bool) for way in (TO_HOST, FROM_HOST))
    return to_host[trace.device.name], from_host[trace.device.name]


def _round_trips(trace: Trace) -> Iterator[Proposal]:
    work, pairs, (to_host, to_device) = trace.device, _there_and_back(trace), _ways(trace)
    if not len(pairs.there):
        return
    yield Proposal(
        id="copies_to_the_host_and_back",
        title=Text.of("Keep data on the GPU instead of copying them to the host and back"),
        problem=Text.of(
            "{copies_count:time} a copy from the GPU is followed by one of as many bytes to the GPU, {copy_bytes} each way "
            "in all and {copies_ns} in the recording.",
            copies_count=len(pairs.there), copy_bytes=int(work.size_bytes[pairs.there].sum()), copies_ns=int(pairs.ns.sum()),
        ),
        advice=Text.of(
            "Do on the GPU what happens between .cpu() or .numpy() and .to(device); most NumPy functions have a torch one "
            "of the same name. If it must run on the host, copy in parts with non_blocking=True from and to pinned memory."
        ),
        bound="copy",
        phase="other",
        evidence=_evidence(trace, pairs, "the longest pair"),
        changes=(*_scaled(trace, pairs, to_host, "d2h"), *_scaled(trace, pairs, to_device, "h2d")),
        best_confidence="medium",
        assumes="the work between the two copies can run on the GPU in no more time than on the host",
    )  # fmt: skip


def _casts(trace: Trace) -> Iterator[Proposal]:
    """A cast of a tensor to another type, and the next kernel casts one of the same shape back."""
    source, target, shape = _cast_kinds(trace)
    narrowing = (source == "float") & np.isin(target, list(NARROW))
    widening = np.isin(source, list(NARROW)) & (target == "float")
    pairs = _pairs(trace, np.arange(len(trace.device)), narrowing & (shape >= 0), widening, shape)
    total_ns = int(pairs.ns.sum())
    if len(pairs.there) < REPEATED or total_ns < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return
    elementwise_ns = int(kernel_times(trace)[[kind == "elementwise" for kind in kernel_classes(trace)]].sum())
    yield Proposal(
        id="casts_there_and_back",
        title=Text.of("Leave tensors in one type instead of casting them there and back"),
        problem=Text.of(
            "{casts_count:time} a cast from float32 to half precision is followed by a cast of a tensor of the same shape "
            "back, {casts_ns} in the recording.",
            casts_count=len(pairs.there), casts_ns=total_ns,
        ),
        advice=Text.of(
            "Drop the .float(), .half() or .to(dtype) calls between operators that autocast runs in the same type, or end "
            "the autocast region before the part that needs float32; keep autocast's cache_enabled=True, so that weights "
            "are cast once."
        ),
        bound="compute",
        phase="other",
        evidence=_evidence(trace, pairs, "the longest pair"),
        changes=(f"kernel:elementwise x{max(0.0, 1 - total_ns / max(1, elementwise_ns)):.3f}",),
        best_confidence="medium",
        assumes="both casts of a pair are of one tensor",
    )  # fmt: skip


def _pairs(trace: Trace, rows: Ints, there: Mask, back: Mask, alike: Ids | Ints) -> _Pairs:
    """Of these rows, those next to each other on their stream that go there and back, alike in size or shape."""
    work = repaired_work(trace)
    firsts, seconds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for _, _, place in by_stream(work[rows]):
        first, second = rows[place][:-1], rows[place][1:]
        both = there[first] & back[second] & (alike[first] == alike[second])
        firsts.append(first[both])
        seconds.append(second[both])
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    return _Pairs(
        first, second, sum((work.end_ns[row] - work.start_ns[row] for row in (first, second)), np.zeros(len(first), np.int64))
    )


def _cast_kinds(trace: Trace) -> tuple[np.ndarray, np.ndarray, Ids]:
    """For each piece of device work that a cast launched: from which type, to which, of which shapes; "" and -1 if untold."""
    host, owner = trace.host, links(trace).owner
    source, target = (np.full(len(owner), "", object) for _ in range(2))
    shape = np.full(len(owner), -1)
    casts = np.array([name == "aten::copy_" for name in trace.names], bool)
    rows = np.flatnonzero((owner >= 0) & (trace.device.category == t.KERNEL))
    rows = rows[casts[host.name[owner[rows]]]]
    if not len(rows) or "Input type" not in trace.argument_keys:
        return source, target, shape
    given = trace.host_arguments[trace.host_arguments.key == list(trace.argument_keys).index("Input type")]
    value_of = np.full(len(host), -1, np.int32)
    value_of[given.row] = given.value
    kinds = {code: _types(str(trace.argument_values[code])) for code in np.unique(value_of[owner[rows]]).tolist() if code >= 0}
    for row, code in zip(rows.tolist(), value_of[owner[rows]].tolist(), strict=True):
        target[row], source[row] = kinds.get(code, ("", ""))
    shape[rows] = host.shapes[owner[rows]]
    return source, target, shape


def _types(text: str) -> tuple[str, str]:
    """Of aten::copy_(self, src): the type that is written, and the one that is read."""
    try:
        found = json.loads(text)
    except ValueError:
        return "", ""
    return (str(found[0]), str(found[1])) if isinstance(found, list) and len(found) >= 2 else ("", "")


def _scaled(trace: Trace, pairs: _Pairs, way: Mask, word: str) -> tuple[str, ...]:
    """The part that the pairs are of all copies that way, gone."""
    ns = trace.device.end_ns - trace.device.start_ns
    own, every = int(ns[way & pairs.those(len(ns))].sum()), int(ns[way].sum())
    return (f"copy:{word} x{1 - own / every:.3f}",) if own else ()


def _evidence(trace: Trace, pairs: _Pairs, label: str) -> tuple[Evidence, ...]:
    work, worst = repaired_work(trace), int(pairs.ns.argmax())
    start, end = int(work.start_ns[pairs.there[worst]]), int(work.end_ns[pairs.back[worst]])
    return (
        Evidence("their share of the recording", "recording_share", int(pairs.ns.sum()) / recorded_ns(trace)),
        Evidence(label, "pair_ns", int(pairs.ns[worst]), start, end),
    )
