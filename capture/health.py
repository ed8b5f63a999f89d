"""An exported trace -> what is missing or unusual in it."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .bundle import HealthNote

PARSE_LIMIT_BYTES = 256 * 2**20  # json needs about ten times the text in memory; a larger trace is left to the analysis


@dataclass(frozen=True)
class TraceCheck:
    """What a trace holds. `problem` says why it was not parsed; then all but `events` is unknown."""

    events: int
    step_ranges: int | None = None
    kernels: int | None = None
    threads: frozenset[int] = frozenset()  # that operators ran in, by their ids in the system
    problem: HealthNote | None = None


def checked(trace: Path) -> TraceCheck:
    """Open and parse a gzipped trace."""
    with gzip.open(trace) as file:
        text = file.read(PARSE_LIMIT_BYTES + 1)
    events = text.count(b'"ph"')
    if len(text) > PARSE_LIMIT_BYTES:
        return TraceCheck(events, problem=HealthNote("trace_unchecked", "The trace is too large to be checked when captured."))
    try:
        return _counted(json.loads(text)["traceEvents"])
    except (ValueError, KeyError, TypeError) as damage:
        if not text.rstrip().endswith(b"}"):
            return TraceCheck(
                events, problem=HealthNote("trace_invalid", "The trace that torch wrote is cut off: free disk space.")
            )
        message = (
            f"The trace that torch wrote is not valid JSON ({damage}): most often the name of a record_function range holds "
            "a quote or a backslash; rename it and capture again."
        )
        return TraceCheck(events, problem=HealthNote("trace_invalid", message))


def notes(check: TraceCheck, *, expected_step_ranges: int, kernels_expected: bool) -> list[HealthNote]:
    """One note for each thing that should be in the trace and is not."""
    if check.problem is not None:
        return [check.problem]
    found = []
    if check.step_ranges != expected_step_ranges:
        message = f"The trace holds {check.step_ranges} step ranges instead of {expected_step_ranges}."
        found.append(HealthNote("steps_missing", f"{message} A second profiler inside the loop takes them away."))
    if kernels_expected and not check.kernels:
        message = "The trace holds no GPU kernels although the GPU was recorded; see the profiler's messages on stderr:"
        found.append(HealthNote("kernels_missing", f"{message} most often another tool, or a lack of rights, blocks CUPTI."))
    return found


def _counted(events: list[dict[str, Any]]) -> TraceCheck:
    complete = [event for event in events if event.get("ph") == "X"]
    ranges = [event for event in complete if event.get("cat") == "user_annotation"]
    steps = sum(event["name"].startswith("ProfilerStep#") for event in ranges)
    threads = frozenset(event["tid"] for event in complete if event.get("cat") == "cpu_op")
    return TraceCheck(len(events), steps, sum(event.get("cat") == "kernel" for event in complete), threads)
