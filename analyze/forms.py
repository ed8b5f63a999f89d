"""Trace -> whose it is: torch.profiler's own, another tool's ranges, or a snapshot alone; and why most of it is then withheld."""

from typing import Literal

from .trace import Trace

Form = Literal["pytorch", "ranges", "snapshot"]
LEGACY = "PyTorch legacy autograd profiler"  # Source.producer of the list that torch.autograd.profiler exported before Kineto
UNKNOWN = "unknown"  # Source.producer where nothing tells
LEGACY_NOTE = "per-op device time from CUDA events; no kernels and no streams were recorded"
UNTOLD = "steps, phases, launches, idle time and savings are told only of"


def form(trace: Trace) -> Form:
    """Decided by what the loader filled: a snapshot has no tables, another tool's trace only slices."""
    if trace.snapshot is not None:
        return "snapshot"
    return "ranges" if len(trace.slices) else "pytorch"


def tool(producer: str) -> str:
    """The producer inside a sentence."""
    return "a tool the file does not name" if producer == UNKNOWN else f"the {producer}" if producer == LEGACY else producer


def written_by(trace: Trace) -> str:
    """What made the recording, inside a sentence."""
    return {"pytorch": "torch.profiler", "snapshot": "key_averages()"}.get(form(trace)) or tool(trace.source.producer)


def withheld(trace: Trace) -> str:
    """Why most questions have no answer here; empty for a trace of torch.profiler."""
    if form(trace) == "pytorch":
        return ""
    if form(trace) == "snapshot":
        return f"A key_averages snapshot has totals by operator and no timeline: {UNTOLD} traces; export the trace as well."
    wrote = written_by(trace)
    return f"{wrote[0].upper()}{wrote[1:]} wrote this trace: {UNTOLD} traces that torch.profiler wrote."
