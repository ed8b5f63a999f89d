"""Trace -> what each GPU does in each step: disjoint buckets that add up to the step exactly, in integer nanoseconds.

An instant of a step at which the GPU computes goes to the phase that launched the work; where work of two phases runs at once, to
that of the work that started last (of equal starts the one that ends first, of equal ends the later row of the file). Else it is
communication, else a copy, else idle time with its cause. Only what falls between the step's start and end counts, whoever
launched it; what falls between two steps is told apart, by the same buckets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from .durations import repaired_work
from .gap_causes import CAUSES, idle_time
from .gap_causes import OTHER as OTHER_CAUSE
from .grouping import group_sums
from .intervals import covered, innermost, union
from .kernels import COMPUTE, COPY, work_class
from .links import links
from .step_marks import with_time_before
from .step_time import OTHER, PHASES, phases_at, row_at
from .step_work import StepWork, busy_inside, step_work
from .trace import Ids, Ints, Trace

COMPUTING, COMMUNICATING, COPYING, IDLE = KINDS = ("compute", "comm_exposed", "copy_exposed", "idle")
UNLINKED = "unlinked"  # the phase of work whose launch is not in the file, where there are phases
SERVING_ORDER = ("prefill", "decode")
BEFORE, WITHIN = range(2)  # a step
BLAMED = "blamed"  # beside IDLE: the same time, by what it is blamed on
BLAMED_KINDS = (COMPUTING, COMMUNICATING, COPYING, BLAMED)
TURNS = ("turns", "")  # beside the buckets: a part of one of them


@dataclass(frozen=True, eq=False)
class StepBuckets:
    """`rows`: int64 ns; one row per (step of marked_steps, device), one column per (kind of KINDS, of): the phase that computes,
    the cause of idling, else "". Each row adds up to its step. Those of steps set aside, and of steps that may lack device work,
    are left out. `work`: which are those, and why.

    `blamed`: the same, idle time by what it is blamed on (gap_causes); `before`: likewise of the time between the step before and
    each. `turns`: of both, by step and device, what of `other` passes while another GPU computes.
    `after_ns`: by device, for how long it works after the end of the last step that is not set aside.
    """

    rows: pd.DataFrame
    blamed: pd.DataFrame
    before: pd.DataFrame
    turns: pd.Series
    work: StepWork
    after_ns: Mapping[int, int]


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def step_buckets(trace: Trace) -> StepBuckets:
    """Buckets of every step whose device time can be told; no rows without device work."""
    work, steps = step_work(trace), with_time_before(trace)
    last = int(steps["end_ns"].max())
    steps = steps[work.timed[steps.index]]
    devices = np.unique(trace.device.device).tolist()
    tables = [_device(trace, _spans(steps), device) for device in devices]
    if not tables:
        return StepBuckets(pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), pd.Series(dtype=np.int64), work, {})
    both = pd.concat(tables).fillna(0).astype(np.int64)
    part = both.index.get_level_values("part")
    within, before = (both[part == one].droplevel("part") for one in (WITHIN, BEFORE))
    return StepBuckets(
        rows=_kinds(within, KINDS),
        blamed=_kinds(within, BLAMED_KINDS),
        before=_kinds(before, BLAMED_KINDS),
        turns=both[[TURNS]].sum(axis=1).groupby(level=["step", "device"]).sum(),
        work=work,
        after_ns={device: _after(trace, device, last) for device in devices},
    )


def _kinds(table: pd.DataFrame, kinds: tuple[str, ...]) -> pd.DataFrame:
    """The columns of these kinds, in the order of a step."""
    names = [(str(kind), str(of)) for kind, of in table.columns.tolist()]
    found = table[[name for name in names if name[0] in kinds]].rename(columns={BLAMED: IDLE}, level=0)
    return found[sorted(((str(kind), str(of)) for kind, of in found.columns.tolist()), key=_place)].sort_index()


def _spans(steps: pd.DataFrame) -> pd.DataFrame:
    """The time before each step, and the step: start_ns, end_ns by (step, part)."""
    before = pd.DataFrame({"start_ns": steps["since_ns"], "end_ns": steps["start_ns"]})
    both = pd.concat({BEFORE: before, WITHIN: steps[["start_ns", "end_ns"]]}, names=["part", "step"])
    return both.swaplevel().sort_index()


def _place(bucket: tuple[str, str]) -> tuple[int, int, str]:
    """In the order of a step."""
    kind, of = bucket
    known = CAUSES if kind == IDLE else (*PHASES[:-1], *SERVING_ORDER)
    last = {OTHER: 1, UNLINKED: 2}.get(of, 0) if kind == COMPUTING else 0
    return KINDS.index(kind), known.index(of) if of in known else len(known) + last, of


def _device(trace: Trace, spans: pd.DataFrame, device: int) -> pd.DataFrame:
    kind, mine = work_class(trace), trace.device.device == device
    buckets = {(COMPUTING, phase): ns for phase, ns in _computing(trace, spans, np.flatnonzero(mine & (kind == COMPUTE)))}
    compute = sum(buckets.values(), np.zeros(len(spans), np.int64))
    without_copies, busy = (busy_inside(trace, spans, rows) for rows in (mine & (kind != COPY), mine))
    buckets |= {(COMMUNICATING, ""): without_copies - compute, (COPYING, ""): busy - without_copies}
    causes, blamed, turns = _idle(trace, spans, device)
    for kind, found in ((IDLE, causes), (BLAMED, blamed)):
        buckets |= {(kind, cause): ns for cause, ns in zip(CAUSES, found, strict=True)}
    buckets[TURNS] = turns
    index = pd.MultiIndex.from_tuples([(step, part, device) for step, part in spans.index], names=["step", "part", "device"])
    return pd.DataFrame(np.stack(list(buckets.values()), axis=1), index, pd.MultiIndex.from_tuples(buckets, names=["kind", "of"]))


def _computing(trace: Trace, spans: pd.DataFrame, rows: Ids) -> Iterator[tuple[str, Ints]]:
    """Phases, and how much of each span their work holds; `rows`: those of one device that compute."""
    begin, stop = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    phase, phases = launch_phases(trace)
    cover = innermost(trace.device.start_ns[rows], repaired_work(trace).end_ns[rows])
    owner = phase[rows][cover.owner]
    for one in np.unique(owner).tolist():
        own = owner == one
        yield phases[one], covered(cover.start[own], cover.end[own], begin, stop)


def _idle(trace: Trace, spans: pd.DataFrame, device: int) -> tuple[Ints, Ints, Ints]:
    """For each cause the idle time of the device in each span; the same as it is blamed; and what of `other` of that passes while
    another GPU computes.
    """
    found = idle_time(trace)
    mine = found.device == device
    span = row_at(spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy(), found.start[mine])
    tables = [table[:, mine] for table in (found.by_cause, found.blamed)]
    causes, blamed = (np.stack([group_sums(span, ns, len(spans)) for ns in table]) for table in tables)
    return causes, blamed, group_sums(span, tables[1][OTHER_CAUSE] * found.beside[mine], len(spans))


def _after(trace: Trace, device: int, moment: int) -> int:
    mine = trace.device.device == device
    start, end = union(trace.device.start_ns[mine], repaired_work(trace).end_ns[mine])
    return int(covered(start, end, np.array([moment]), np.array([max(moment, trace.window_ns)]))[0])


@lru_cache(maxsize=2)
def launch_phases(trace: Trace) -> tuple[Ids, list[str]]:
    """For each piece of device work the row of the phase in which it was launched; and the phases.

    Of serving traces the phase that the step names. What has no launch call counts by the start of the operator that owns it;
    what has neither is UNLINKED, or OTHER like all else where nothing marks phases.
    """
    moment = _launch_moment(trace)
    phase, phases = _serving_phases(trace, moment) if step_work(trace).steps["kind"].any() else _host_phases(trace, moment)
    if set(np.unique(phase[moment >= 0]).tolist()) <= {phases.index(OTHER)}:
        return phase, phases
    return np.where(moment >= 0, phase, len(phases)), [*phases, UNLINKED]


def _launch_moment(trace: Trace) -> Ints:
    """Start of the call behind each piece of device work, else of the operator that owns it; else -1."""
    found = links(trace)
    row = np.where(found.call >= 0, found.call, found.owner)
    return np.append(trace.host.start_ns, -1)[row]


def _host_phases(trace: Trace, moment: Ints) -> tuple[Ids, list[str]]:
    phase, phases = phases_at(trace, moment)
    return phase, phases.tolist()


def _serving_phases(trace: Trace, moment: Ints) -> tuple[Ids, list[str]]:
    """By the kind of the step that holds each moment."""
    steps = step_work(trace).steps
    steps = steps[~steps["aside"]]
    kind, kinds = pd.factorize(steps["kind"].replace("", OTHER))
    row = row_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), moment)
    names = [*kinds.tolist(), *[OTHER] * (OTHER not in kinds)]
    return np.append(kind, names.index(OTHER))[row], names
