"""Why does the GPU idle: what is the thread doing that launches the next work?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..gpu_gaps import Gaps, idle_gaps, idle_withheld, loader_ranges
from ..intervals import covered, union
from ..launches import is_launch
from ..links import calls_named, launching_call
from ..syncs import NOT_TOLD, Syncs, syncs
from ..trace import HostRanges, Ids, Ints, Mask, Trace

CAUSES = ("input_pipeline", "h2d_wait", "synchronization", "launch", "host", "other")
INPUT, COPY, SYNC, LAUNCH, HOST, OTHER = range(len(CAUSES))
NEAR_LAUNCH_NS = 10_000  # the way of a launch to the GPU and of its end back take a few microseconds each
NOBODY = -1  # the thread of a gap next to work none of which has a call


@dataclass(frozen=True, eq=False)
class IdleCauses:
    """`rows`: one per (device, cause), by device, the longest first: device; cause; idle_ns; idle_share (of the device's idle
    time, NaN where it has none); longest_ns (the most in one gap). The causes of a device add up to its idle time.

    `gap_count`, `idle_ns`: over all devices.
    """

    rows: pd.DataFrame
    gap_count: int
    idle_ns: int


def idle_causes(trace: Trace) -> IdleCauses:
    """Each instant of each gap gets the first cause that holds on the thread of the call behind the work that ends the gap.

    In this order: inside a data loader; inside a copy call; inside a synchronisation, which is `other`; from the end of a
    synchronisation to the next launch; inside a launch or within NEAR_LAUNCH_NS of one; inside any other range, a step included.
    """
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work, so there is no idle GPU to explain.")
    if reason := idle_withheld(trace):
        raise MissingData(f"Idle time is withheld: {reason}.")
    gaps = idle_gaps(trace)
    by_cause = _by_cause(trace, gaps)
    tables = [_device(int(device), by_cause[:, gaps.device == device]) for device in np.unique(trace.device.device)]
    return IdleCauses(pd.concat(tables, ignore_index=True), len(gaps.start), int(by_cause.sum()))


def _device(device: int, by_cause: Ints) -> pd.DataFrame:
    idle = by_cause.sum(axis=1)
    rows = pd.DataFrame({
        "device": device,
        "cause": CAUSES,
        "idle_ns": idle,
        "idle_share": idle / idle.sum() if idle.any() else float("nan"),
        "longest_ns": by_cause.max(axis=1, initial=0),
    })  # fmt: skip
    return rows.sort_values("idle_ns", ascending=False, kind="stable", ignore_index=True)


def _by_cause(trace: Trace, gaps: Gaps) -> Ints:
    """For each cause the time that it has in each gap."""
    thread, kinds, waits = _launching_thread(trace, gaps), _Kinds.of(trace), syncs(trace)
    found = np.zeros((len(CAUSES), len(gaps.start)), np.int64)
    found[OTHER] = gaps.end - gaps.start
    unplaced = waits.thread == NOT_TOLD  # a wait without a call may be of any thread that launches work for its device
    keys = np.stack((thread, gaps.device if unplaced.any() else np.zeros_like(thread)), axis=1)
    for key in np.unique(keys[thread != NOBODY], axis=0):
        mine, (one, device) = (keys == key).all(axis=1), key.tolist()
        own_waits = waits[(waits.thread == one) | unplaced & np.isin(waits.device, (device, NOT_TOLD))]
        claims = _claims(trace.host, kinds, trace.host.thread == one, own_waits)
        found[:, mine] = _claimed(claims, gaps.start[mine], gaps.end[mine])
    return found


def _launching_thread(trace: Trace, gaps: Gaps) -> Ids:
    """For each gap, the thread of the call behind the work that ends it.

    Where that has no call, of the next work of the device that has one; after all of these, of the last one; else NOBODY.
    """
    call = launching_call(trace)
    thread = np.full(len(gaps.start), NOBODY)
    for device in np.unique(gaps.device):
        mine, known = gaps.device == device, np.flatnonzero((trace.device.device == device) & (call >= 0))
        if len(known):
            known = known[np.argsort(trace.device.start_ns[known], kind="stable")]
            following = np.searchsorted(trace.device.start_ns[known], gaps.end[mine])
            thread[mine] = trace.host.thread[call[known[np.minimum(following, len(known) - 1)]]]
    return thread


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Which host ranges are of each kind."""

    loads: Mask
    copies: Mask
    launches: Mask
    rest: Mask  # and all of these, and the calls that wait

    @classmethod
    def of(cls, trace: Trace) -> Self:
        copies = calls_named(trace, lambda name: "Memcpy" in name)
        return cls(loader_ranges(trace), copies, calls_named(trace, is_launch), trace.host.category != t.OVERHEAD)


def _claims(host: HostRanges, kinds: _Kinds, on_thread: Mask, waits: Syncs) -> Iterator[tuple[int, Ints, Ints]]:
    """Causes and the times that they claim on a thread: an earlier claim goes first."""

    def spans(kind: Mask) -> tuple[Ints, Ints]:
        rows = kind & on_thread
        return host.start_ns[rows], host.end_ns[rows]

    launch_start, launch_end = spans(kinds.launches)
    yield INPUT, *spans(kinds.loads)
    yield COPY, *spans(kinds.copies)
    yield OTHER, waits.start_ns, waits.end_ns
    yield SYNC, *_until_next(waits.end_ns, launch_start)
    yield LAUNCH, launch_start - NEAR_LAUNCH_NS, launch_end + NEAR_LAUNCH_NS
    yield HOST, *spans(kinds.rest)


def _until_next(moment: Ints, start: Ints) -> tuple[Ints, Ints]:
    """From each moment to the next start; nothing where there is none."""
    start = np.sort(start)
    following = np.searchsorted(start, moment)
    comes = following < len(start)
    return moment[comes], start[following[comes]]


def _claimed(claims: Iterable[tuple[int, Ints, Ints]], low: Ints, high: Ints) -> Ints:
    """For each cause the time that it gets in each window [low, high); what nobody claims is `other`."""
    found = np.zeros((len(CAUSES), len(low)), np.int64)
    start = end = np.empty(0, np.int64)
    taken = np.zeros(len(low), np.int64)
    for cause, more_start, more_end in claims:
        start, end = union(np.append(start, more_start), np.append(end, more_end))
        reached = covered(start, end, low, high)
        found[cause] += reached - taken
        taken = reached
    found[OTHER] += high - low - taken
    return found
