"""Graph and a change -> which edges it scales and which it cuts; ChangeError where a pattern matches nothing."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...capture.errors import ChangeError
from .. import trace as t
from ..analyses.copies import FROM_HOST, PINNED
from ..analyses.modules import MODULE_FRAME
from ..backward_ops import forward_ops
from ..durations import repaired_work
from ..gpu_gaps import LOADING
from ..host_tree import thread_offsets
from ..intervals import covered, union
from ..kernels import COMMUNICATION, COPY, kernel_class, work_class
from ..links import launching_call, links
from ..statistics import Floats
from ..step_time import phases_at, row_at
from ..trace import Ids, Ints, Mask, Trace
from . import what
from .edges import CALL, CALL_END, CONT, EVENT, HAND, HOST, KERN, LAUNCH, QUEUE, STREAM, SYNC, XS
from .graph import Graph
from .host_shares import host_shares, kept_of_edges
from .what import WhatIf

NAMES_SHOWN, NAME_LENGTH = 3, 60  # in a message; of a kernel a part of the name is enough to name it
DIRECTIONS = {
    "h2d": ("HtoD", "HtoA", "HostToDevice", "H2D", "M2D"),
    "d2h": ("DtoH", "AtoH", "DeviceToHost", "D2H", "D2M"),
    "pageable": ("HtoD (Pageable", "HtoA (Pageable"),
    "d2d": ("DtoD", "DeviceToDevice", "D2D", "PtoP"),
}
FREE_ON_HOST = (HOST, CALL, HAND, LAUNCH, STREAM, SYNC, QUEUE, XS, EVENT)  # what launching at no cost frees from
LAUNCH_GAPS = (LAUNCH, STREAM)


class NothingSuchError(ChangeError):
    """A pattern matches nothing. `what`: a sentence that says so; the message also names what there is."""

    def __init__(self, what: str, there_is: Sequence[str]) -> None:
        super().__init__("; ".join((what, *there_is)) + ".")
        self.what = f"{what}."


@dataclass(frozen=True, eq=False)
class Effect:
    """For each edge how much of what can be scaled is left, and whether the edge is gone.

    `pieces`: for each piece of host_shares the same, beside that of its edge; None: nothing changes there.
    """

    keep: Floats
    cut: Mask
    pieces: Floats | None = None

    def on(self, origin: Ids) -> "Effect":
        """The same of a graph whose edges are these, -1: of none."""
        return Effect(np.append(self.keep, 1.0)[origin], np.append(self.cut, False)[origin])


def joint_effect(found: Graph, changes: Sequence[WhatIf]) -> Effect:
    """Of several changes at once; of what two of them scale the smaller part is left. ChangeError where one matches nothing."""
    return joint(found, [effect_of(found, change) for change in changes])


def effect_of(found: Graph, change: WhatIf) -> Effect:
    """Of one change alone."""
    return EFFECTS[change.kind](found, change)


def joint(found: Graph, effects: Sequence[Effect]) -> Effect:
    """All at once; without any nothing changes."""
    keep, cut = np.ones(len(found.edges)), np.zeros(len(found.edges), bool)
    for effect in effects:
        keep, cut = np.minimum(keep, effect.keep), cut | effect.cut
    pieces = [effect.pieces for effect in effects if effect.pieces is not None]
    return Effect(keep * kept_of_edges(found, np.min(pieces, axis=0)) if pieces else keep, cut)


def _effect(found: Graph, keep: Floats | None = None, pieces: Floats | None = None) -> Effect:
    count = len(found.edges)
    return Effect(np.ones(count) if keep is None else keep, np.zeros(count, bool), pieces)


def _device(found: Graph, left: Floats) -> Floats:
    """`left`: for each piece of device work how much of its time; -> for each edge."""
    keep = np.ones(len(found.edges))
    works = np.flatnonzero(np.isin(found.edges.kind, (KERN, CONT)))
    keep[works] = left[found.edges.work[works]]
    return keep


def _scaled(found: Graph, taken: Mask, factor: float) -> Effect:
    return _effect(found, _device(found, np.where(taken, factor, 1.0)))


def _left(pieces: Mask, factor: float) -> Floats:
    return np.where(pieces, factor, 1.0)


def _left_inside(found: Graph, spans: tuple[Ints, Ints], factor: float) -> Floats:
    """For each piece of host time how much of it is left, if what lies inside these spans of HostTree's line is scaled."""
    pieces = host_shares(found)
    return 1 - (1 - factor) * covered(*spans, pieces.moment, pieces.moment + pieces.ns) / np.maximum(pieces.ns, 1)


def _kernels(found: Graph, change: WhatIf) -> Effect:
    """By class; else by a part of the name; else by the operator that launched them."""
    trace, wanted = found.trace, change.pattern.lower()
    classes = _classes(trace)
    fits = [name for name, kind in classes.items() if kind == wanted]
    fits = fits or [name for name in classes if wanted in trace.names[name].lower()]
    taken = np.isin(trace.device.name, fits) & (trace.device.category == t.KERNEL)
    if not taken.any():
        rows = _named(trace, change.pattern, (t.OP,))
        taken = np.append(rows, False)[links(trace).owner] & (trace.device.category == t.KERNEL) if rows.any() else taken
    _some(found, taken, change, "kernel", {trace.names[name] for name in classes})
    return _scaled(found, taken, change.factor)


def _ops(found: Graph, change: WhatIf) -> Effect:
    rows = _named(found.trace, change.pattern, (t.OP, t.ANNOTATION))
    _some(found, rows, change, "operator", _host_names(found.trace, (t.OP, t.ANNOTATION)))
    return _inside(found, rows, change.factor)


def _modules(found: Graph, change: WhatIf) -> Effect:
    """Frames of the module, and the backward operators of what ran in them."""
    trace, wanted = found.trace, change.pattern.rsplit(".", 1)[-1]
    rows = _named(trace, MODULE_FRAME + wanted, (t.PYTHON,))
    modules = {name.removeprefix(MODULE_FRAME) for name in _host_names(trace, (t.PYTHON,)) if name.startswith(MODULE_FRAME)}
    _some(found, rows, change, "module", modules)
    backward, forward = forward_ops(trace)
    rows[backward[_covers(_spans(trace, rows), _line(trace, forward))]] = True
    return _inside(found, rows, change.factor)


def _inside(found: Graph, rows: Mask, factor: float) -> Effect:
    """All that runs or is launched inside these host ranges."""
    trace, spans = found.trace, _spans(found.trace, rows)
    work = links(trace)
    launched = np.zeros(len(trace.device), bool)
    known = work.call >= 0
    launched[known] = _covers(spans, _line(trace, work.call[known]))
    launched |= ~known & np.append(rows, False)[work.owner]
    return _effect(found, _device(found, _left(launched, factor)), _left_inside(found, spans, factor))


def _phases(found: Graph, change: WhatIf) -> Effect:
    trace = found.trace
    taken = _phase_at(trace, host_shares(found).start_ns) == change.pattern
    _some(found, taken, change, "phase", ())
    call = launching_call(trace)
    launched = np.zeros(len(trace.device), bool)
    launched[call >= 0] = _phase_at(trace, trace.host.start_ns[call[call >= 0]]) == change.pattern
    return _effect(found, _device(found, _left(launched, change.factor)), _left(taken, change.factor))


def _all_host(found: Graph, change: WhatIf) -> Effect:
    if change.pattern:
        return _host_part(found, change)
    if change.factor == 0:
        return _free(found, change)
    return _effect(found, np.where(np.isin(found.edges.kind, (HOST, CALL)), change.factor, 1.0))


def _host_part(found: Graph, change: WhatIf) -> Effect:
    """Inside a phase, or inside ranges of that name, Python frames too."""
    if (taken := _phase_at(found.trace, host_shares(found).start_ns) == change.pattern).any():
        return _effect(found, pieces=_left(taken, change.factor))
    kinds = (t.OP, t.ANNOTATION, t.RUNTIME, t.PYTHON)
    rows = _named(found.trace, change.pattern, kinds)
    _some(found, rows, change, "range on the host", _host_names(found.trace, kinds))
    return _effect(found, pieces=_left_inside(found, _spans(found.trace, rows), change.factor))


def _free(found: Graph, change: WhatIf) -> Effect:
    """Nothing takes time on the host, and work starts as soon as what it waits for is done."""
    _launches(found, change)
    return _effect(found, np.where(np.isin(found.edges.kind, FREE_ON_HOST), change.factor, 1.0))


def _launch_gaps(found: Graph, change: WhatIf) -> Effect:
    _launches(found, change)
    return _effect(found, np.where(np.isin(found.edges.kind, LAUNCH_GAPS), change.factor, 1.0))


def _launches(found: Graph, change: WhatIf) -> None:
    if not len(found.trace.device):
        raise ChangeError(
            f"The trace holds no GPU work, so that {change} frees nothing; write, for instance, phase:optimizer x0.5."
        )


def _communication(found: Graph, change: WhatIf) -> Effect:
    taken = work_class(found.trace) == COMMUNICATION
    _some(found, taken, change, "kernel of communication", ())
    return _scaled(found, taken, change.factor)


def _copies(found: Graph, change: WhatIf) -> Effect:
    trace, wanted = found.trace, change.pattern.lower()
    taken = work_class(trace) == COPY
    if wanted:
        if wanted not in DIRECTIONS:
            raise ChangeError(f"There is no direction of copies called {change.pattern}; possible are {', '.join(DIRECTIONS)}.")
        directions = {one: taken & _with_any(trace, words)[trace.device.name] for one, words in DIRECTIONS.items()}
        taken = directions[wanted]
        _some(found, taken, change, "copy", {one for one, rows in directions.items() if rows.any()})
    _some(found, taken, change, "copy", ())
    return _pinned(found, taken) if change.pinned else _scaled(found, taken, change.factor)


def _pinned(found: Graph, taken: Mask) -> Effect:
    """Each copy from the host at the speed of those from pinned memory, if that is faster."""
    trace, work = found.trace, repaired_work(found.trace)
    took = (work.end_ns - work.start_ns).astype(np.float64)
    is_pinned, from_host = (
        np.array([bool(kind.match(name)) for name in trace.names], bool)[work.name] for kind in (PINNED, FROM_HOST)
    )
    fast = is_pinned & (work.category == t.MEMCPY) & (work.size_bytes >= 0) & (took > 0)
    if not fast.any():
        raise ChangeError(
            "The trace holds no copy from pinned memory, so that its speed is not known; write, for instance, copy:h2d x0.5."
        )
    speed = work.size_bytes[fast].sum() / took[fast].sum()
    better = np.where(work.size_bytes >= 0, work.size_bytes / speed, took)
    slow = taken & from_host & ~is_pinned & (took > 0)
    return _effect(found, _device(found, np.where(slow, np.minimum(1, better / np.maximum(took, 1)), 1.0)))


def _waits(found: Graph, change: WhatIf) -> Effect:
    """The calls no longer wait, and take no time themselves."""
    trace, nodes = found.trace, found.nodes
    ends = np.flatnonzero(found.waiting & (nodes.kind == CALL_END))
    if change.pattern:
        rows = _named(trace, change.pattern, (t.RUNTIME, t.OP, t.ANNOTATION, t.PYTHON))
        call = nodes.row[ends]
        ends = ends[rows[call] | _covers(_spans(trace, rows), _line(trace, call))]
    known = {str(trace.names[name]) for name in np.unique(trace.host.name[nodes.row[found.waiting]])}
    _some(found, ends, change, "wait for the device", known)
    chosen = np.zeros(len(nodes), bool)
    chosen[ends] = True
    to_chosen, kind = chosen[found.edges.target], found.edges.kind
    return Effect(np.where(to_chosen & (kind == CALL), change.factor, 1.0), to_chosen & (kind == SYNC))


def _data(found: Graph, change: WhatIf) -> Effect:
    taken = _phase_at(found.trace, host_shares(found).start_ns) == LOADING
    _some(found, taken, change, "wait for data", ())
    return _effect(found, pieces=_left(taken, change.factor))


EFFECTS: dict[str, Callable[[Graph, WhatIf], Effect]] = {
    what.KERNEL: _kernels, what.OP: _ops, what.MODULE: _modules, what.PHASE: _phases, what.HOST: _all_host, what.COPY: _copies,
    what.COMM: _communication, what.SYNC: _waits, what.LAUNCH: _launch_gaps, what.GRAPH: _free, what.DATA: _data,
}  # fmt: skip


def _some(found: Graph, taken: Mask | Ids, change: WhatIf, kind: str, names: Iterable[str]) -> None:
    """NothingSuchError where nothing was taken, with the names nearest to the one asked for, and all classes and phases."""
    if np.any(taken) or (taken.dtype != bool and len(taken)):
        return
    what = f"{'The replayed steps hold' if found.trace.excerpt else 'The trace holds'} no {kind}"
    there_is = {
        "nearest names": _like(change.pattern, set(names)) if change.pattern else [],
        "classes of kernels": sorted(set(_classes(found.trace).values())),
        "phases": sorted(set(_phase_at(found.trace, host_shares(found).start_ns).tolist())),
    }
    listed = [f"{head}: {', '.join(of)}" for head, of in there_is.items() if of]
    raise NothingSuchError(f"{what} called {change.pattern}" if change.pattern else what, listed)


def _like(pattern: str, names: set[str]) -> list[str]:
    """Those with the pattern inside, else the nearest."""
    inside = sorted(name for name in names if pattern.lower() in name.lower())
    near = inside or difflib.get_close_matches(pattern, sorted(names), NAMES_SHOWN, cutoff=0)
    return [name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…" for name in near[:NAMES_SHOWN]]


def _classes(trace: Trace) -> dict[int, str]:
    """The class of each kernel, by row of its name."""
    used = np.unique(trace.device.name[trace.device.category == t.KERNEL])
    return {int(name): kernel_class("kernel", str(trace.names[name])) for name in used}


def _with_any(trace: Trace, words: tuple[str, ...]) -> Mask:
    """Which names hold one of them."""
    return np.array([any(word in name for word in words) for name in trace.names], bool)


def _named(trace: Trace, name: str, categories: tuple[int, ...]) -> Mask:
    """Host ranges of exactly that name."""
    is_it = np.array([one == name for one in trace.names], bool)
    return np.append(is_it, False)[trace.host.name] & np.isin(trace.host.category, categories)


def _host_names(trace: Trace, categories: tuple[int, ...]) -> set[str]:
    return {str(trace.names[name]) for name in np.unique(trace.host.name[np.isin(trace.host.category, categories)])}


def _line(trace: Trace, rows: Ids) -> Ints:
    """Starts of host ranges on HostTree's line."""
    return trace.host.start_ns[rows] + thread_offsets(trace.host)[trace.host.thread[rows]]


def _spans(trace: Trace, rows: Mask) -> tuple[Ints, Ints]:
    offset = thread_offsets(trace.host)[trace.host.thread[rows]]
    return union(trace.host.start_ns[rows] + offset, trace.host.end_ns[rows] + offset)


def _covers(spans: tuple[Ints, Ints], moment: Ints) -> Mask:
    return row_at(*spans, moment) >= 0


def _phase_at(trace: Trace, moment: Ints) -> np.ndarray:
    """For each moment the innermost phase, "other" without one."""
    row, phases = phases_at(trace, moment)
    return phases[row]
