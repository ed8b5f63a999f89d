"""key_averages() snapshots: beside a trace in its bundle, or alone -> a Trace that has nothing else."""

import hashlib
import json
from collections import Counter
from typing import Any

from ...capture.errors import BundleError
from .. import trace as t
from .streams import File, refuse_altered


def beside(file: File | None) -> dict[str, Any] | None:
    """A snapshot of a bundle, checked against its manifest; None where it was not made."""
    if file is None:
        return None
    refuse_altered(file)
    with file.open() as stream:
        content = stream.read()
    try:
        snapshot = json.loads(content)
    except (ValueError, RecursionError) as damage:
        raise BundleError(f"{file.name} is not valid JSON ({damage}); capture again.") from damage
    if not is_snapshot(snapshot):
        raise BundleError(f"{file.name} is not a key_averages snapshot (it has no rows); capture again.")
    return snapshot


def is_snapshot(content: Any) -> bool:
    """Whether JSON is what longpole's capture writes of key_averages()."""
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        return False
    return all(isinstance(row, dict) and isinstance(row.get("key"), str) for row in content["rows"])


def trace_of(file: File, text: bytes) -> t.Trace:
    """The snapshot as a Trace without a timeline; BundleError where the JSON is something else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as damage:
        raise BundleError(
            f"{file.name} is not valid JSON ({damage}) and has no list of events; it may be cut off, capture again."
        ) from damage
    if not is_snapshot(content) or not content["rows"]:
        raise BundleError(f"{file.name} is not a trace: {_what_it_is(content)}; name a chrome trace or a bundle.")
    nothing = t.no_rows(t.DeviceRanges)
    return t.Trace(
        source=t.Source(
            path=file.name,
            files=(t.SourceFile(file.name, hashlib.sha256(text).hexdigest()),),
            producer="key_averages snapshot",
            rank=None,
            world_size=None,
            devices=(),
            runtime=None,
            with_shapes=bool(content.get("group_by_input_shape")),
            with_stacks=False,
            with_memory=False,
        ),
        manifest=None,
        origin_ns=0,
        window_ns=0,
        profiler_start_ns=None,
        host=t.no_rows(t.HostRanges),
        device=nothing,
        device_marks=nothing,
        allocations=t.no_rows(t.Allocations),
        names=(),
        threads=(),
        shapes=(),
        coverage=t.Coverage(0, 0, 0, 0, Counter()),
        snapshot=content,
    )


def _what_it_is(content: Any) -> str:
    if not isinstance(content, dict):
        return "it holds no object"
    if "format_version" in content and "ranks" in content:
        return "it is the manifest of a bundle, whose folder is what to name"
    if "nodes" in content and "schema" in content:
        return "it is an execution trace (torch.profiler.ExecutionTraceObserver), which has no times"
    return "it has no list traceEvents"
