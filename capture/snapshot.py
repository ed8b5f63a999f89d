"""key_averages() -> rows of the bundle's snapshot: torch's own numbers, kept beside ours."""

import json
import math
from collections.abc import Iterable
from typing import Any

# Reading the events back costs 65 to 130 us each: at this many, up to 25 seconds in the middle of the user's program.
EVENT_BUDGET = 200_000

# Every attribute that differs between rows of FunctionEventAvg; the rest is derived from these.
ROW_ATTRIBUTES = (
    "key",
    "count",
    "node_id",
    "is_async",
    "is_remote",
    "is_legacy",
    "is_user_annotation",
    "device_type",
    "use_device",
    "scope",
    "overload_name",
    "input_shapes",
    "stack",
    "flops",
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
)
OLDER_NAMES = {name: name.replace("device_", "cuda_") for name in ROW_ATTRIBUTES if "device_time" in name or "device_mem" in name}


def snapshot(averages: Iterable[Any], *, by_shape: bool, events: int, options: dict[str, Any]) -> dict[str, Any]:
    """The rows in torch's order, below a header that says how they were made.

    Times are torch's microseconds, memory is bytes. An attribute that this torch lacks is None.
    """
    import torch

    return {
        "torch": torch.__version__,
        "units": {"time": "us", "memory": "bytes"},
        "group_by_input_shape": by_shape,
        "group_by_stack_n": 0,
        "events": events,
        "options": options,
        "rows": [row(average) for average in averages],
    }


def row(average: Any) -> dict[str, Any]:
    """One FunctionEventAvg as JSON types."""
    return {name: _plain(_attribute(average, name)) for name in ROW_ATTRIBUTES}


def encoded(content: dict[str, Any]) -> bytes:
    """A snapshot as the bytes of its file."""
    return (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _attribute(average: Any, name: str) -> Any:
    return getattr(average, name, getattr(average, OLDER_NAMES.get(name, name), None))


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return getattr(value, "name", str(value))  # device_type is an enumeration
