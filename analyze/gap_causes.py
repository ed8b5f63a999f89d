"""Idle gaps -> their causes, in each step: what the thread is doing that launches the next work, each instant once.

An instant gets the first cause that holds on the thread of the call behind the work that ends the gap, in this order: inside a
data loader; inside a copy call; inside a synchronisation, which is `other`; from the end of a synchronisation to the next launch;
inside a launch or within NEAR_LAUNCH_NS of one; inside any other range, a step included.

What limits a step is judged more narrowly (`blamed`). Once the work that ends the gap has been launched the GPU no longer waits
for the host: from NEAR_LAUNCH_NS after that call the cause is `other`, as for what waits for another stream, or for work that the
file lacks. Before, any range that makes or fetches input counts as a data loader; a call that waits for its copy to the host to
start counts as a synchronisation; and the time after one counts for as long as the host had waited, for without the wait it would
have been that much earlier.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Self

import numpy as np

from . import trace as t
from .analyses.copies import TO_HOST
from .durations import repaired_work
from .gpu_gaps import Gaps, idle_gaps, loader_ranges
from .input_ranges import input_ranges
from .intervals import covered, union
from .kernels import COMPUTE, work_class
from .launches import is_launch
from .links import calls_named, launching_call
from .step_marks import marked_steps
from .step_time import row_at
from .syncs import NOT_TOLD, Syncs, syncs
from .trace import HostRanges, Ids, Ints, Mask, Trace

CAUSES = ("input_pipeline", "h2d_wait", "synchronization", "launch", "host", "other")
INPUT, COPY, SYNC, LAUNCH, HOST, OTHER = range(len(CAUSES))
NEAR_LAUNCH_NS = 10_000  # the way of a launch to the GPU and of its end back take a few microseconds each
NOBODY = -1  # the thread of a gap next to work none of which has a call


@dataclass(frozen=True, eq=False)
class IdleTime:
    """Idle gaps, cut at the borders of steps not set aside and of other GPUs' computing: one row a piece, by device and time.

    `gap`: row of `idle_gaps`; `by_cause`, `blamed`: a row for each of CAUSES, which add up to the piece; `queued`: what of it
    passes after the work that ends the gap was launched; `beside`: whether another GPU computes meanwhile.
    """

    device: Ids
    start: Ints
    gap: Ids
    by_cause: Ints
    blamed: Ints
    queued: Ints
    beside: Mask


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def idle_time(trace: Trace) -> IdleTime:
    """All idle time of all devices with its causes, also where idle time is withheld: callers ask for that."""
    gaps, marked, others = idle_gaps(trace), marked_steps(trace), _others(trace)
    steps = marked.loc[~marked["aside"], ["start_ns", "end_ns"]].to_numpy().ravel()
    pieces, gap = _cut(gaps, np.unique(np.concatenate((steps, *(times for spans in others.values() for times in spans)))))
    beside = np.zeros(len(gap), bool)
    for device, spans in others.items():
        beside[pieces.device == device] = row_at(*spans, pieces.start[pieces.device == device]) >= 0
    thread = _launching_thread(trace, gaps)[gap]
    until = np.clip(_launched(trace, gaps)[gap], pieces.start, pieces.end)
    kinds, queued = _Kinds.of(trace), pieces.end - until
    blamed = _by_cause(trace, Gaps(pieces.start, until, pieces.device), thread, partial(_blame, kinds, _copy_start(trace)))
    blamed[OTHER] += queued
    return IdleTime(
        pieces.device, pieces.start, gap, _by_cause(trace, pieces, thread, partial(_claims, kinds)), blamed, queued, beside
    )  # fmt: skip


def _others(trace: Trace) -> dict[int, tuple[Ints, Ints]]:
    """By device, when another one computes; nothing of a single device."""
    work, computes, devices = repaired_work(trace), work_class(trace) == COMPUTE, np.unique(trace.device.device).tolist()
    rows = {device: computes & (work.device != device) for device in devices if len(devices) > 1}
    return {device: union(work.start_ns[other], work.end_ns[other]) for device, other in rows.items()}


def _cut(gaps: Gaps, borders: Ints) -> tuple[Gaps, Ids]:
    """The gaps cut at the borders inside them; and for each piece the row of its gap."""
    first = np.searchsorted(borders, gaps.start, side="right")
    count = np.searchsorted(borders, gaps.end) - first + 1
    gap = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(gap)) - np.repeat(np.cumsum(count) - count, count)  # 0: the first piece of its gap
    border = np.append(borders, 0)[np.minimum(first[gap] + place, len(borders))]
    end = np.where(place == count[gap] - 1, gaps.end[gap], border)
    start = np.where(place == 0, gaps.start[gap], np.roll(end, 1))
    return Gaps(start, end, gaps.device[gap]), gap


Claims = Iterable[tuple[int, Ints, Ints]]  # causes and the times that they claim on a thread: an earlier claim goes first


def _by_cause(trace: Trace, gaps: Gaps, thread: Ids, claims_of: Callable[[Mask, Syncs], Claims]) -> Ints:
    """For each cause the time that it has in each gap; `claims_of`: of the host ranges of a thread, and its waits."""
    waits = syncs(trace)
    found = np.zeros((len(CAUSES), len(gaps.start)), np.int64)
    found[OTHER] = gaps.end - gaps.start
    unplaced = waits.thread == NOT_TOLD  # a wait without a call may be of any thread that launches work for its device
    keys = np.stack((thread, gaps.device if unplaced.any() else np.zeros_like(thread)), axis=1)
    for key in np.unique(keys[thread != NOBODY], axis=0):
        mine, (one, device) = (keys == key).all(axis=1), key.tolist()
        own_waits = waits[(waits.thread == one) | unplaced & np.isin(waits.device, (device, NOT_TOLD))]
        claims = claims_of(trace.host.thread == one, own_waits)
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


def _launched(trace: Trace, gaps: Gaps) -> Ints:
    """For each gap, until when the GPU waits for the host to launch the work that ends it; its end where no call is known."""
    call, until = launching_call(trace), gaps.end.copy()
    for device in np.unique(gaps.device):
        mine, known = np.flatnonzero(gaps.device == device), np.flatnonzero((trace.device.device == device) & (call >= 0))
        gap = mine[np.minimum(np.searchsorted(gaps.end[mine], trace.device.start_ns[known]), len(mine) - 1)]
        ends = gaps.end[gap] == trace.device.start_ns[known]
        np.minimum.at(until, gap[ends], trace.host.end_ns[call[known[ends]]] + NEAR_LAUNCH_NS)
    return until


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Which host ranges are of each kind."""

    host: HostRanges
    loads: Mask
    inputs: Mask
    copies: Mask
    launches: Mask
    rest: Mask  # and all of these, and the calls that wait

    @classmethod
    def of(cls, trace: Trace) -> Self:
        copies, launches = calls_named(trace, lambda name: "Memcpy" in name), calls_named(trace, is_launch)
        rest = trace.host.category != t.OVERHEAD
        return cls(trace.host, loader_ranges(trace), input_ranges(trace), copies, launches, rest)

    def spans(self, rows: Mask) -> tuple[Ints, Ints]:
        return self.host.start_ns[rows], self.host.end_ns[rows]


def _copy_start(trace: Trace) -> Ints:
    """For each host range its start; of calls that copy to the host that of the copy, for until then they wait for other work."""
    call, start = launching_call(trace), trace.host.start_ns.copy()
    to_host = np.array([TO_HOST.match(name) is not None for name in trace.names], bool)[trace.device.name]
    copies = np.flatnonzero(to_host & (call >= 0))
    start[call[copies]] = np.clip(trace.device.start_ns[copies], start[call[copies]], trace.host.end_ns[call[copies]])
    return start


def _claims(kinds: _Kinds, on_thread: Mask, waits: Syncs) -> Claims:
    launch_start, launch_end = kinds.spans(kinds.launches & on_thread)
    yield INPUT, *kinds.spans(kinds.loads & on_thread)
    yield COPY, *kinds.spans(kinds.copies & on_thread)
    yield OTHER, waits.start_ns, waits.end_ns
    _, ended, next_launch = _until_next(waits, launch_start)
    yield SYNC, ended, next_launch
    yield LAUNCH, launch_start - NEAR_LAUNCH_NS, launch_end + NEAR_LAUNCH_NS
    yield HOST, *kinds.spans(kinds.rest & on_thread)


def _blame(kinds: _Kinds, copy_start: Ints, on_thread: Mask, waits: Syncs) -> Claims:
    """More narrowly; `copy_start`: for each host range from when on it copies."""
    launch_start, launch_end = kinds.spans(kinds.launches & on_thread)
    copies, host = kinds.copies & on_thread, kinds.host
    rows, ended, next_launch = _until_next(waits, launch_start)
    took = (waits.end_ns - waits.start_ns)[rows]
    yield INPUT, *kinds.spans(kinds.inputs & on_thread)
    yield COPY, copy_start[copies], host.end_ns[copies]
    yield OTHER, np.append(waits.start_ns, host.start_ns[copies]), np.append(waits.end_ns, copy_start[copies])
    yield SYNC, ended, np.minimum(next_launch, ended + took)
    yield LAUNCH, launch_start - NEAR_LAUNCH_NS, launch_end + NEAR_LAUNCH_NS
    yield HOST, *kinds.spans(kinds.rest & on_thread)


def _until_next(waits: Syncs, start: Ints) -> tuple[Ids, Ints, Ints]:
    """Which waits a start follows, their ends, and the next start after each."""
    start = np.sort(start)
    following = np.searchsorted(start, waits.end_ns)
    rows = np.flatnonzero(following < len(start))
    return rows, waits.end_ns[rows], start[following[rows]]


def _claimed(claims: Claims, low: Ints, high: Ints) -> Ints:
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
