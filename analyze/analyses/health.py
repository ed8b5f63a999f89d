"""What in this trace cannot be trusted?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from .. import trace as t
from ..clocks import CLOCK_TOLERANCE_NS, clocks
from ..intervals import length, union
from ..launches import is_graph_launch, launches_of_missing_work, launches_without_record
from ..links import calls_named, launching_call
from ..python_frames import clamped_frames
from ..step_marks import marked_steps
from ..trace import Ids, Trace, TraceWarning

UNKNOWN_NAMES = ("unknown", "<unknown>")
MOST_NAMED = 3  # of steps in a sentence
NO_TIME = float("nan")
CLOCKS_DISAGREE = "Host and device clocks disagree: the GPU's busy share, its idle time and the causes are withheld."
NOT_COUNTED = "Statistics of steps leave them out."
TOLD_ELSEWHERE = {  # codes that the sections on steps, the GPU and launches tell, in more detail
    "kernel_before_launch", "kernel_after_sync_returned", "untimed_work", "launch_without_kernel",
    "graph_launch_without_kernels", "unattributable_kernels", "profiler_overhead", "partial_steps", "overlapping_steps",
}  # fmt: skip
LOWER_BOUND = "GPU busy time is a lower bound, and idle time is withheld."


@dataclass(frozen=True)
class Doubt:
    """A code for tools, what it is, how often it was met, what it withholds or changes, and how long it lasts where it does."""

    code: str
    what: str
    count: int
    effect: str
    time_ns: float = NO_TIME
    harmless: bool = False  # nothing that was recorded is lost or changed


@dataclass(frozen=True, eq=False)
class Health:
    """`doubts`: what was found; none is an answer too. `clamped_frames`: None where no Python frames were recorded."""

    doubts: Sequence[Doubt]
    unknown_names: int
    clamped_frames: int | None

    @property
    def rows(self) -> pd.DataFrame:
        """`doubts` as a table."""
        return pd.DataFrame([vars(doubt) for doubt in self.doubts], columns=[f.name for f in fields(Doubt)])

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        """Those that no other section warns of."""
        told = (d for d in self.doubts if d.code not in TOLD_ELSEWHERE)
        return tuple(TraceWarning(d.code, d.count, f"{d.what}: {d.count:,}. {d.effect}", d.harmless) for d in told)

    @property
    def measures(self) -> Mapping[str, int]:
        frames = {} if self.clamped_frames is None else {"clamped_frames": self.clamped_frames}
        return {"ranges_named_unknown": self.unknown_names, **frames}


def health(trace: Trace) -> Health:
    """Everything that makes figures of this trace uncertain."""
    clamped, unknown = clamped_frames(trace), _named_unknown(trace)
    doubts = [*_clocks(trace), *_lost_work(trace), *_not_recorded(trace), *_cut(trace, clamped), *_profiler(trace, unknown)]
    has_frames = bool((trace.host.category == t.PYTHON).any())
    return Health([doubt for doubt in doubts if doubt.count], unknown, len(clamped) if has_frames else None)


def _clocks(trace: Trace) -> list[Doubt]:
    found = clocks(trace)
    early, late = (int((ns > CLOCK_TOLERANCE_NS).sum()) for ns in (found.early_ns, found.late_ns))
    return [
        Doubt("kernel_before_launch", "GPU work that starts before the call that launched it", early, CLOCKS_DISAGREE),
        Doubt("kernel_after_sync_returned", "GPU work that ends after a wait for it returned", late, CLOCKS_DISAGREE),
    ]


def _lost_work(trace: Trace) -> list[Doubt]:
    """Work or its launch that is not in the file; where one kind is missing altogether, `_not_recorded` says so."""
    lost = launches_without_record(trace) if len(trace.device) else np.empty(0, np.int64)
    graphs = int(calls_named(trace, is_graph_launch)[lost].sum())
    calls = bool((trace.host.category == t.RUNTIME).any())
    unlaunched = (launching_call(trace) < 0) & (trace.device.category == t.KERNEL) & calls
    plain = max(0, len(lost) - graphs - launches_of_missing_work(trace)[1])  # work without a time may be that of any launch
    return [
        Doubt("untimed_work", "GPU work without a time", len(trace.untimed), LOWER_BOUND),
        Doubt("launch_without_kernel", "Launches without a record of their work", plain, LOWER_BOUND),
        Doubt(
            "graph_launch_without_kernels", "CUDA graph launches without a record of their kernels", graphs,
            "One can hold any number of kernels: the GPU's busy share and idle time are withheld.",
        ),
        Doubt(
            "unattributable_kernels", "Kernels whose launch is not in the file", int(unlaunched.sum()),
            "They belong to no step, and GPU time by step leaves them out.",
        ),
    ]  # fmt: skip


def _not_recorded(trace: Trace) -> list[Doubt]:
    """Whole kinds of events that others of the file, or its header, let one expect."""
    host, source = trace.host, trace.source
    work, ops, calls, frames = (len(trace.device), *((host.category == kind).sum() for kind in (t.OP, t.RUNTIME, t.PYTHON)))
    launches = 0 if work else len(launches_without_record(trace))
    stacks = "Call stack" in {trace.argument_keys[key] for key in np.unique(trace.host_arguments.key)}
    return [
        Doubt("no_device_work", "Launches, but no GPU work at all", launches, "Nothing can be told about the GPU."),
        Doubt(
            "no_runtime_calls", "GPU work, but no runtime call at all", 0 if calls else work,
            "Launches, queue delays and waits cannot be told.", harmless=True,
        ),
        Doubt(
            "no_ops", "Runtime calls, but no operator at all", 0 if ops else int(calls),
            "GPU work belongs to no operator.", harmless=True,
        ),
        _unmet("no_python_frames", "with_stack", source.with_stacks and not frames and not stacks, "No code can be named."),
        _unmet("no_shapes", "record_shapes", source.with_shapes and bool(ops) and not (host.shapes >= 0).any(),
               "Operators cannot be told apart by shape."),
        _unmet("no_memory_events", "profile_memory", source.with_memory and not len(trace.allocations),
               "Nothing can be told about memory."),
    ]  # fmt: skip


def _unmet(code: str, option: str, unmet: bool, effect: str) -> Doubt:
    return Doubt(code, f"Asked for with {option}, but nothing of it recorded", int(unmet), effect, harmless=True)


def _cut(trace: Trace, clamped: Ids) -> list[Doubt]:
    steps = marked_steps(trace)
    partial, named = steps.loc[steps["partial"], "name"], ""
    if len(partial):
        named = f" ({', '.join(partial[:MOST_NAMED])}{', …' if len(partial) > MOST_NAMED else ''})"
    return [
        Doubt("partial_steps", f"Steps that were cut off{named}", len(partial), NOT_COUNTED, harmless=True),
        Doubt(
            "overlapping_steps", "Steps that overlap others, or run on another thread than most", int(steps["aside"].sum()),
            NOT_COUNTED, harmless=True,
        ),
        Doubt(
            "unfinished_ranges", "Ranges still open when the profiler stopped", int((~trace.host.finished).sum()),
            "They end with the recording; as in torch's tables, they hold nothing and have no self time.",
        ),
        Doubt(
            "clamped_frames", "Python frames whose return the profiler missed", len(clamped),
            "They last until it stopped: their time, and that of the frames inside them, is wrong.",
        ),
    ]  # fmt: skip


def _profiler(trace: Trace, unknown: int) -> list[Doubt]:
    own = trace.host[trace.host.category == t.OVERHEAD]
    return [
        Doubt(
            "names_unknown", "Ranges named “unknown”", unknown,
            "Torch writes that for a name with characters outside ASCII; such ranges are added up as one.",
        ),
        Doubt(
            "profiler_overhead", "Pieces of work of the profiler itself", len(own),
            "Host calls during them look longer than they are.", length(*union(own.start_ns, own.end_ns)),
        ),
    ]  # fmt: skip


def _named_unknown(trace: Trace) -> int:
    """Host ranges and device work."""
    named = np.array([name in UNKNOWN_NAMES for name in trace.names], bool)
    return int(named[trace.host.name].sum() + named[trace.device.name].sum())
