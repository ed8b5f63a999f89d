"""The snapshot of torch's GPU allocator -> plain JSON: segments, their blocks, and what the peak was made of.

The snapshot itself is the dictionary that `torch.cuda.memory._snapshot()` describes: large, with the paths of source files
in it, and usually kept as a pickle. Here it becomes sizes, counts and base names, bounded however much was allocated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any

# Together at most 20,000 blocks, about 1.5 MB of JSON; what is left out is the smallest, and counts tell how much that is.
SEGMENTS_KEPT = 200
BLOCKS_KEPT = 100
SITES_KEPT = 100

Frames = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Held:
    """Memory in use: what was asked for, and the Python frames that asked, innermost first; none where they were not recorded."""

    requested_bytes: int
    frames: Frames


def gpu_memory(snapshot: Mapping[str, Any], library: str, most_events: int | None) -> dict[str, Any]:
    """By device. `library`: torch's own folder, whose frames name no site; `most_events`: what the allocator keeps, if known."""
    traces = list(snapshot["device_traces"])
    segments: dict[int, list[Mapping[str, Any]]] = {}
    for segment in snapshot["segments"]:
        segments.setdefault(segment.get("device", 0), []).append(segment)
    devices = sorted({*segments, *(device for device, events in enumerate(traces) if events)})
    return {
        "units": {"memory": "bytes"},
        "devices": [
            _device(device, segments.get(device, []), traces[device] if device < len(traces) else [], library, most_events)
            for device in devices
        ],
    }


def _device(
    device: int, segments: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]], library: str, most_events: int | None
) -> dict[str, Any]:
    blocks = [block for segment in segments for block in segment["blocks"]]
    free_sizes = [block["size"] for block in blocks if block["state"] == "inactive"]
    largest = sorted(segments, key=lambda segment: -segment["total_size"])[:SEGMENTS_KEPT]
    streams = {stream: number for number, stream in enumerate(sorted({segment["stream"] for segment in segments}))}
    return {
        "device": device,
        "reserved_bytes": sum(segment["total_size"] for segment in segments),
        "allocated_bytes": sum(segment["allocated_size"] for segment in segments),
        "requested_bytes": sum(held.requested_bytes for held in _held(blocks).values()),
        "free_bytes": sum(free_sizes),
        "largest_free_bytes": max(free_sizes, default=0),
        "segments_count": len(segments),
        "segments": [_segment(segment, streams) for segment in largest],
        "events_count": len(events),
        "older_events_lost": None if most_events is None else len(events) >= most_events,
        "peak": _peak(_held(blocks), events, library) if events else None,
    }


def _segment(segment: Mapping[str, Any], streams: Mapping[int, int]) -> dict[str, Any]:
    largest = sorted(segment["blocks"], key=lambda block: -block["size"])[:BLOCKS_KEPT]
    return {
        "size_bytes": segment["total_size"],
        "allocated_bytes": segment["allocated_size"],
        "kind": segment["segment_type"],
        "stream": streams[segment["stream"]],  # a number of its own: torch gives an address
        "blocks_count": len(segment["blocks"]),
        "blocks": [
            {"size_bytes": block["size"], "requested_bytes": _requested(block), "state": block["state"]} for block in largest
        ],
    }


def _peak(at_end: Mapping[int, Held], events: Sequence[Mapping[str, Any]], library: str) -> dict[str, Any]:
    """When most was in use, as asked for: the events are taken back one by one, from what is in use at the end."""
    live, in_use = dict(at_end), sum(held.requested_bytes for held in at_end.values())
    most, place = in_use, len(events)
    for number in range(len(events) - 1, -1, -1):
        in_use += _take_back(live, events[number])
        if in_use > most:
            most, place = in_use, number
    at_peak = dict(at_end)
    for event in reversed(events[place:]):
        _take_back(at_peak, event)
    return {
        "requested_bytes": most,
        "blocks_count": len(at_peak),
        "events_before_count": place,
        "time_us": events[place - 1].get("time_us") if place else None,
        **_sites(at_peak.values(), library),
    }


def _take_back(live: dict[int, Held], event: Mapping[str, Any]) -> int:
    """By how much more was in use before an event than after it."""
    if event["action"] == "alloc":
        return -held.requested_bytes if (held := live.pop(event["addr"], None)) else 0
    if event["action"] == "free_requested":
        live[event["addr"]] = Held(event["size"], event.get("frames", ()))
        return event["size"]
    return 0


def _sites(held: Iterable[Held], library: str) -> dict[str, Any]:
    """Memory by the line that asked for it, most first; the site None is memory that tells none."""
    found: dict[str | None, list[int]] = {}
    for one in held:
        found.setdefault(_site(one.frames, library), []).append(one.requested_bytes)
    rows = [{"site": site, "requested_bytes": sum(sizes), "blocks_count": len(sizes)} for site, sizes in found.items()]
    rows.sort(key=lambda row: (-row["requested_bytes"], row["site"] or ""))
    left_out = rows[SITES_KEPT:]
    return {
        "sites": rows[:SITES_KEPT],
        "other_sites_count": len(left_out),
        "other_sites_bytes": sum(row["requested_bytes"] for row in left_out),
    }


def _site(frames: Frames, library: str) -> str | None:
    """`train.py:41 step`: the innermost Python frame outside torch, else the innermost one of torch."""
    python = [frame for frame in frames if str(frame["filename"]).endswith((".py", ">"))]  # `<string>`, `<stdin>` are Python's
    own = [frame for frame in python if not str(frame["filename"]).startswith(library)]
    if not python:
        return None
    frame = (own or python)[0]
    return f"{PureWindowsPath(frame['filename']).name}:{frame['line']} {frame['name']}"  # it knows both kinds of slash


def _held(blocks: Iterable[Mapping[str, Any]]) -> dict[int, Held]:
    in_use = (block for block in blocks if block["state"] == "active_allocated")
    return {block["address"]: Held(_requested(block), block.get("frames", ())) for block in in_use}


def _requested(block: Mapping[str, Any]) -> int:
    return block.get("requested_size", block["size"])
