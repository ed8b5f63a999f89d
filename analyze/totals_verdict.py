"""Another tool's ranges, a snapshot, or sums of two runs -> the sentence of page one; it says nothing of what limits the step."""

import math
from typing import Any

from .analyses.op_table import STEP_NAME, OpTable
from .analyses.slices import SliceTimes
from .diffs.total_changes import TotalChanges
from .findings import Text, Verdict
from .forms import LEGACY_NOTE, tool
from .short_names import short_name


def ranges_verdict(found: SliceTimes) -> Verdict:
    """What holds most of another tool's trace; what limits its step is not told."""
    lead = _lead_of_ranges(found)
    values: dict[str, Any] = {
        "tool": tool(found.producer),
        "window_ns": found.window_ns,
        "ranges_count": found.ranges_count,
        "names_count": found.names_count,
        **lead.values,
    }
    if found.device_busy_share is not None:
        sentence = "A device is busy {busy_share} of the {window_ns} recorded by {tool}"
        values |= {"busy_share": found.device_busy_share}
    else:
        sentence = "{lead} holds {lead_share} of the {lead_of} recorded by {tool}"
    lede = (
        "longpole can tell {ranges_count:named range} of {names_count:name}; " + lead.template + " What limits the step is "
        "told only of traces that torch.profiler wrote."
    )
    if found.from_cuda_events:
        lede += f" Device time is {LEGACY_NOTE}."
    return Verdict("Ranges only", Text(sentence, values), Text(lede, values), "unknown", "low")


def _lead_of_ranges(found: SliceTimes) -> Text:
    """The name that holds most: of device time, else of host time, else of asynchronous time."""
    for rows, column, share, of in (
        (found.device, "total_ns", "total_share", "device time"),
        (found.host, "self_ns", "self_share", "host time"),
        (found.asynchronous, "total_ns", "total_share", "asynchronous time"),
    ):
        if len(rows):
            first = rows.iloc[0]
            return Text.of(
                "most {lead_of} is in {lead}, {lead_ns} in {calls_count:call}.",
                lead=str(first["name"]), lead_ns=int(first[column]), lead_share=float(first[share]), lead_of=of,
                calls_count=int(first["count"]),
            )  # fmt: skip
    raise ValueError("ranges without a row")


def snapshot_verdict(table: OpTable) -> Verdict:
    """What holds most of the totals of a snapshot; without a timeline, what limits the step is not told."""
    kernels = table.kernels
    on_device = table.self_device_ns > 0
    total_ns = table.self_device_ns if on_device else table.self_cpu_ns
    by_name = (
        kernels.groupby("name", sort=False)["self_device_ns"] if on_device else table.rows.groupby("name")["self_cpu_ns"]
    ).sum()
    name = str(by_name.idxmax())
    lead = short_name(name) if on_device else "Time outside operators" if name == STEP_NAME else name
    values: dict[str, Any] = {
        "lead": lead,
        "lead_share": float(by_name.max()) / max(1, total_ns),
        "torch": f"torch {table.torch}" if table.torch else "torch",
        "time": "device time" if on_device else "CPU time",
        "total_ns": total_ns,
        "rows_count": len(table.rows),
        "calls_count": table.calls_count,
    }
    lede = "The snapshot of {torch} has totals by operator and no timeline: {rows_count:row}, {calls_count:call}, "
    lede += "{total_ns} of {time}"
    if table.step_ns is not None:
        lede += ", {steps_count} steps of {step_ns} on average" if table.steps_count != 1 else ", one step of {step_ns}"
        values |= {"steps_count": table.steps_count, "step_ns": table.step_ns}
    lede += ". What limits the step is told only of traces."
    sentence = Text("{lead} holds {lead_share} of the {time} in this key_averages snapshot", values)
    return Verdict("Totals only", sentence, Text(lede, values), "unknown", "low")


def total_change_verdict(found: TotalChanges) -> Verdict:
    """Totals before and after; without a time for each step there is no word for whether that is more than noise."""
    totals = found.device_total if found.device_total.before_ns and found.device_total.after_ns else found.host_total
    values: dict[str, Any] = {
        "what": totals.what,
        "before_ns": totals.before_ns,
        "after_ns": totals.after_ns,
        "change_share": totals.change_share,
        "per": "per step" if found.per_step else "in the whole recording",
    }
    sentence = "{what}: {before_ns} → {after_ns} {per}" + ("" if math.isnan(totals.change_share) else ", {change_share}")
    lede = (
        "Totals over {before_count} and {after_count:step} are divided by their number"
        if found.per_step
        else "Totals of the whole recordings are compared, for a number of steps is not known on both sides; they differ also "
        "where one ran longer"
    )
    if found.per_step:
        values |= {"before_count": found.before_steps, "after_count": found.after_steps}
    lede += ". Without a time for each step nothing can be said about noise, so no change is called real."
    return Verdict("Totals only", Text(sentence, values), Text(lede, values), "unknown", "low")
