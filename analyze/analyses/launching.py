"""Which host call launched which device work, and how long does launching take?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..clocks import CLOCK_TOLERANCE_NS, clocks
from ..device_measures import by_device
from ..durations import repaired_work
from ..findings import Caution, Text
from ..grouping import group_sums
from ..launch_queue import LaunchQueue, QueueLengths, launch_queue, queue_lengths
from ..launches import (
    clock_offset,
    graphs_without_kernels,
    hidden_in_graphs,
    is_graph_launch,
    is_launch,
    launches_of_missing_work,
    launches_without_record,
)
from ..links import calls_named, links
from ..profiler_overhead import Overhead, profiler_overhead
from ..trace import Ids, Trace

LISTED_DELAYS = 1000  # a longer list says less than its statistics
QUEUE_MEASURES = (
    "queue_delay_mean_ns", "queue_delay_median_ns", "queue_delay_p95_ns", "queue_delay_max_ns", "unqueued_launches_share",
)  # fmt: skip
LENGTH_MEASURES = {"queue_length_max": "most_count", "queue_length_mean": "mean_count", "queue_empty_share": "empty_share"}
CLOCKS_DISAGREE = "Host and device clocks disagree. {what}: {pieces_count}, by up to {worst_ns}."


@dataclass(frozen=True, eq=False)
class Launching:
    """Flat figures over the whole file.

    `calls`: launch calls by name, most time first: name; count; host_ns, mean_ns (of the calls); kernel_count (that they
    launched, where these have a time); lost_count (calls without a record of their work).
    `ops`: device work by the operator that it belongs to, most time first: name; work_count; device_ns; device_share (of all).
    """

    calls: pd.DataFrame
    ops: pd.DataFrame
    unattributed_share: float  # of the time of kernels, what belongs to no operator; NaN without kernels
    queue: LaunchQueue
    lengths: QueueLengths
    overhead: Overhead | None
    measures: Mapping[str, Any]
    withheld: Mapping[str, str]
    warnings: tuple[Caution, ...]


def launching(trace: Trace) -> Launching:
    """Launch calls, what they launched, and to which operator it belongs."""
    called = bool((trace.host.category == t.RUNTIME).any())
    if not (called or len(trace.device)):
        raise MissingData("The trace holds neither runtime calls nor GPU work; on a GPU machine capture with CUDA activity on.")
    rows = np.flatnonzero(calls_named(trace, is_launch))
    calls, ops, queue, overhead = _calls(trace, rows), _ops(trace), launch_queue(trace), profiler_overhead(trace, rows)
    lengths, (kernels_ns, of_nobody_ns) = queue_lengths(trace), _kernel_times(trace)
    of_calls = _of_calls(calls) | {"graph_launches_without_kernels": graphs_without_kernels(trace)[0]} if called else {}
    of_work = _of_work(trace, ops) | {"unattributed_kernel_ns": of_nobody_ns} if len(trace.device) else {}
    return Launching(
        calls=calls,
        ops=ops,
        unattributed_share=of_nobody_ns / kernels_ns if kernels_ns else float("nan"),
        queue=queue,
        lengths=lengths,
        overhead=overhead,
        measures={**of_calls, **of_work, **_of_clocks(trace), **_of_queue(queue, lengths), **_of_overhead(overhead)},
        withheld=_withheld(trace, calls, queue, lengths),
        warnings=(*_clock_cautions(trace), *_overhead_cautions(overhead), *(_link_cautions(of_work) if called else ())),
    )


def _calls(trace: Trace, rows: Ids) -> pd.DataFrame:
    host, call = trace.host, links(trace).call
    name_of, names = pd.factorize(np.array(trace.names, object))

    def by_name(calls: Ids) -> Ids:
        return np.bincount(name_of[host.name[calls]], minlength=len(names))

    count, lost = by_name(rows), by_name(launches_without_record(trace))
    kernels = by_name(call[(call >= 0) & (trace.device.category == t.KERNEL)])
    host_ns = group_sums(name_of[host.name[rows]], host.end_ns[rows] - host.start_ns[rows], len(names))
    kinds = np.flatnonzero(count)
    found = pd.DataFrame({"name": names[kinds], "count": count[kinds], "host_ns": host_ns[kinds]})
    found["mean_ns"] = found["host_ns"] / found["count"]
    found = found.assign(kernel_count=kernels[kinds], lost_count=lost[kinds])
    return found.sort_values(["host_ns", "name"], ascending=[False, True], ignore_index=True)


def _ops(trace: Trace) -> pd.DataFrame:
    work, owner = repaired_work(trace), links(trace).owner
    owned, ns = owner >= 0, work.end_ns - work.start_ns
    name_of, names = pd.factorize(np.array(trace.names, object))
    group = name_of[trace.host.name[owner[owned]]]
    count, device_ns = np.bincount(group, minlength=len(names)), group_sums(group, ns[owned], len(names))
    kinds = np.flatnonzero(count)
    found = pd.DataFrame({"name": names[kinds], "work_count": count[kinds], "device_ns": device_ns[kinds]})
    found["device_share"] = found["device_ns"] / max(1, int(ns.sum()))
    return found.sort_values(["device_ns", "name"], ascending=[False, True], ignore_index=True)


def _kernel_times(trace: Trace) -> tuple[int, int]:
    """Sums over all kernels, and over those that belong to no operator in the file, ns."""
    work = repaired_work(trace)
    ns = np.where(work.category == t.KERNEL, work.end_ns - work.start_ns, 0)
    return int(ns.sum()), int(ns[links(trace).owner < 0].sum())


def _of_calls(calls: pd.DataFrame) -> dict[str, Any]:
    graphs = calls[calls["name"].map(is_graph_launch).astype(bool)]
    count, recorded = int(calls["count"].sum()), int((graphs["count"] - graphs["lost_count"]).sum())
    per_graph = {"kernels_per_graph_launch": int(graphs["kernel_count"].sum()) / recorded} if recorded else {}
    return {
        "launch_count": count,
        "launches": count,
        "launch_host_ns": int(calls["host_ns"].sum()),
        "launches_without_kernel": int(calls["lost_count"].sum()),
        "graph_launches": int(graphs["count"].sum()),
    } | per_graph


def _of_work(trace: Trace, ops: pd.DataFrame) -> dict[str, Any]:
    without_call = links(trace).call < 0
    return {
        "kernels_without_launch": int((without_call & (trace.device.category == t.KERNEL)).sum()),
        "device_events_without_call": int(without_call.sum()),
        "device_time_ns_by_op": dict(zip(ops["name"], ops["device_ns"].tolist(), strict=True)),
    }


def _of_clocks(trace: Trace) -> dict[str, Any]:
    """Counts of kernels; offsets of all work. A start before the launch within the tolerance counts, and does no harm."""
    if not (links(trace).call >= 0).any():
        return {}
    found, is_kernel = clocks(trace), trace.device.category == t.KERNEL
    worst, latest = int(found.early_ns.max()), int(found.late_ns.max())
    return {
        "kernels_before_launch": int((is_kernel & (found.early_ns > 0)).sum()),
        "kernels_after_their_sync": int((is_kernel & (found.late_ns > CLOCK_TOLERANCE_NS)).sum()),
        **({"worst_skew_ns": worst} if worst > 0 else {}),
        **({"min_clock_offset_ns": latest} if latest > CLOCK_TOLERANCE_NS else {}),
    }


def _of_queue(queue: LaunchQueue, lengths: QueueLengths) -> dict[str, Any]:
    of_lengths = by_device(lengths.devices, LENGTH_MEASURES) if len(lengths.devices) else {}
    if not len(delay := queue.delay_ns):
        return of_lengths
    statistics = (float(delay.mean()), *np.percentile(delay, (50, 95)).tolist(), int(delay.max()), queue.unqueued_share)
    listed = {"queue_delay_ns_valid": delay.tolist()} if len(delay) <= LISTED_DELAYS else {}
    return {**dict(zip(QUEUE_MEASURES, statistics, strict=True)), **of_lengths, **listed}


def _of_overhead(overhead: Overhead | None) -> dict[str, Any]:
    if overhead is None:
        return {}
    return {
        "overhead_ns": overhead.overhead_ns,
        "launches_overlapping_overhead": overhead.overlapping_count,
        "launch_host_ns_without_overhead": overhead.launch_ns - overhead.launch_overhead_ns,
    }


def _withheld(trace: Trace, calls: pd.DataFrame, queue: LaunchQueue, lengths: QueueLengths) -> dict[str, str]:
    reasons: dict[str, str] = {}
    if len(calls) and (unknown := launches_of_missing_work(trace)[1]):
        reasons["launches_without_kernel"] = f"device events without a time, whose launches are not known: {unknown}"
    if (hidden := hidden_in_graphs(trace)) and "kernels_per_graph_launch" not in _of_calls(calls):
        reasons["kernels_per_graph_launch"] = hidden
    if offset := clock_offset(trace):
        reasons |= {} if len(queue.delay_ns) else dict.fromkeys(QUEUE_MEASURES, offset)
        reasons |= {} if len(lengths.devices) else dict.fromkeys(LENGTH_MEASURES, offset)
    return reasons


def _clock_cautions(trace: Trace) -> tuple[Caution, ...]:
    found = clocks(trace)
    said = (
        ("kernels_before_launch", found.early_ns, "GPU work that starts before the call that launched it"),
        (
            "kernels_after_their_sync",
            found.late_ns,
            "GPU work that ends after the return of a synchronisation that waited for it",
        ),
    )
    return tuple(
        Caution(code, count, Text.of(CLOCKS_DISAGREE, what=what, pieces_count=count, worst_ns=int(ns.max())))
        for code, ns, what in said
        if (count := int((ns > CLOCK_TOLERANCE_NS).sum()))
    )


def _overhead_cautions(overhead: Overhead | None) -> tuple[Caution, ...]:
    if overhead is None or not overhead.overlapping_count:
        return ()
    message = Text.of(
        "Of {launch_ns} in launch calls, {inside_ns} is the work of the profiler itself; calls that it overlaps: {calls_count}.",
        launch_ns=overhead.launch_ns, inside_ns=overhead.launch_overhead_ns, calls_count=overhead.overlapping_count,
    )  # fmt: skip
    return (Caution("profiler_overhead", overhead.overlapping_count, message),)


def _link_cautions(of_work: Mapping[str, Any]) -> tuple[Caution, ...]:
    """Of a file that holds calls; of one without any it is plain."""
    count = of_work.get("kernels_without_launch", 0)
    message = (
        "Kernels whose launch call the file does not hold: {kernels_count}. They count as GPU work; no step can be said to have "
        "launched them."
    )
    return (Caution("kernels_without_launch", count, Text.of(message, kernels_count=count)),) if count else ()
