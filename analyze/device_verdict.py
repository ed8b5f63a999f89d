"""What the GPU does in a step, why it idles, and what a change would save -> the sentence of page one of a run with a GPU."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .analyses.buckets import Buckets
from .analyses.collectives import FirstCall
from .analyses.gpu_kernels import GpuKernels
from .analyses.savings import Savings
from .analyses.steps import Steps
from .findings import Confidence, Finding, Text, Verdict
from .step_buckets import COMMUNICATING, COMPUTING, COPYING

BUSY_SHARE = 0.9  # of the step: an idle tenth can hide little
DECISIVE_SHARE = 0.1  # of the step: a change that saves less does not say what limits it
LEADING_SHARE = 0.3  # of the step: a part below this does not stand out
APART_SHARE = 0.05  # of the step on the host: then the step until its work is done is another figure
MAIN_SHARE = 0.5  # of device work: one class of kernels is most of it
COMPUTE, COMMUNICATION, COPY, LAUNCH, HOST, UNKNOWN, BALANCED = (
    "compute", "communication", "copy", "launch", "host", "unknown", "balanced",
)  # fmt: skip
OF_BUSY = {COMPUTING: COMPUTE, COMMUNICATING: COMMUNICATION, COPYING: COPY}
OF_IDLE = {"h2d_wait": "copy", "other": UNKNOWN}  # the other causes are bounds by their own names
TAGS = {
    COMPUTE: "GPU-bound", COMMUNICATION: "Communication-bound", COPY: "Copy-bound", "input_pipeline": "Input-bound",
    "synchronization": "Sync-bound", LAUNCH: "Launch-bound", HOST: "Host-bound", BALANCED: "Balanced",
    UNKNOWN: "Not yet explained",
}  # fmt: skip
SENTENCES = {  # where the part of that bound is large
    COMMUNICATION: "The GPU only communicates for {part_share} of {whole}",
    COPY: "The GPU copies and computes nothing, or waits for copies, in {part_share} of {whole}",
    "input_pipeline": "The GPU waits for data in {part_share} of {whole}",
    "synchronization": "The GPU stands idle after the host has waited for it, {part_share} of {whole}",
    LAUNCH: "The host cannot launch work fast enough: the GPU idles {part_share} of {whole}",
    HOST: "The GPU idles while the host does other work, {part_share} of {whole}",
}
REASONS = {  # where it is small, and yet what the first change is about
    COMMUNICATION: "communication holds up the step",
    COPY: "copies hold up the step",
    "input_pipeline": "the step waits for its input",
    "synchronization": "waits of the host for the GPU hold up the step",
    LAUNCH: "launching holds up the step",
    HOST: "work on the host holds up the step",
}
KINDS = {"gemm": "matrix products", "convolution": "convolutions", "copy": "copies"}
SAVES = {"high": "saves", "medium": "should save", "low": "may save"}


def device_verdict(result: Mapping[str, Any], findings: tuple[Finding, ...]) -> Verdict:
    """What limits the step of a run with a GPU; `result`: those of its analyses by name.

    The GPU's own computing, where it leaves no tenth of the step; else what the first change is about, if it saves a tenth of
    the step; else computing, where all else is small; else the largest part of the rest, if it is large.
    """
    gpu, steps, found = result["gpu_kernels"], result["steps"], result.get("savings")
    spinning = _spinning(result)
    parts = pd.Series(dtype=float) if spinning else _parts(result.get("buckets"))
    top = findings[0] if findings and findings[0].saving_ns > 0 else None
    bound = _spinning_bound(spinning) if spinning else _bound(parts, top, found.step_ns if found else steps.mean_ns)
    sentence = _spinning_sentence(spinning) if spinning else _sentence(gpu, steps, bound, parts)
    leading = [_kernel(gpu)] if bound in (COMPUTE, BALANCED, UNKNOWN) else []  # else it is not what holds up the step
    texts = [*leading, *([_span(steps)] if steps.window == "steps" else []), _first_change(bound, top, found, steps)]
    lede = Text(" ".join(text.template for text in texts), {k: v for text in texts for k, v in text.values.items()})
    return Verdict(TAGS[bound], sentence, lede, bound, _confidence(bound, gpu, top, found), top.id if top else None)


def _spinning(result: Mapping[str, Any]) -> FirstCall | None:
    """A first collective that waits for another rank's profiler: what it takes is no part of the workload."""
    first = result["collectives"].first if result.get("collectives") else None
    return first if first and first.spins and first.trimmed_window_ns else None


def _spinning_bound(first: FirstCall) -> str:
    if first.trimmed_compute_share >= 1 - LEADING_SHARE:
        return COMPUTE
    return COMMUNICATION if first.trimmed_comm_ns >= MAIN_SHARE * first.trimmed_window_ns else UNKNOWN


def _spinning_sentence(first: FirstCall) -> Text:
    return Text.of(
        "After a first collective that waits for another rank's profiler, the GPU computes {compute_share} of the remaining "
        "{window_ns}",
        compute_share=first.trimmed_compute_share, window_ns=first.trimmed_window_ns,
    )  # fmt: skip


def _parts(buckets: Buckets | None) -> pd.Series:
    """Shares of the step by bound, the mean of all GPUs; empty where they cannot be told."""
    if buckets is None or not buckets.told:
        return pd.Series(dtype=float)
    rows = buckets.whole
    kinds = zip(rows["kind"].astype(str), rows["of"].astype(str), strict=True)
    bounds = [OF_BUSY.get(kind) or OF_IDLE.get(of, of) for kind, of in kinds]
    return rows["step_share"].groupby(bounds).sum()


def _bound(parts: pd.Series, top: Finding | None, step_ns: float) -> str:
    if parts.get(COMPUTE, 0.0) >= BUSY_SHARE:
        return COMPUTE
    if top and top.saving_ns >= DECISIVE_SHARE * step_ns:
        return top.bound
    if parts.empty:
        return UNKNOWN
    others = parts.drop(COMPUTE, errors="ignore")
    if others.sum() <= LEADING_SHARE:
        return COMPUTE
    return str(others.idxmax()) if others.max() >= LEADING_SHARE else BALANCED


def _sentence(gpu: GpuKernels, steps: Steps, bound: str, parts: pd.Series) -> Text:
    part = parts.get(bound, 0.0) + (parts.get(HOST, 0.0) if bound == LAUNCH else 0.0)  # a host that is late dispatches, too
    if bound in SENTENCES and part >= DECISIVE_SHARE:
        whole = "a step of {mean_ns}" if steps.window == "steps" else "the recorded {mean_ns}"
        return Text(SENTENCES[bound].replace("{whole}", whole), {"part_share": float(part), "mean_ns": steps.mean_ns})
    busy = _busy_sentence(gpu, bound)
    return Text(f"{busy.template}; {REASONS[bound]}", busy.values) if bound in REASONS and not parts.empty else busy


def _busy_sentence(gpu: GpuKernels, bound: str) -> Text:
    devices = gpu.devices
    values: dict[str, Any] = {
        "devices_count": len(devices),
        "window_ns": int(devices["window_ns"].iloc[0]),
        "busy_ns": int(devices["busy_ns"].max()),
        "low_share": float(devices["busy_share"].min()),
        "busy_share": float(devices["busy_share"].max()),
    }
    if gpu.busy_withheld:
        return Text("The GPU works {busy_ns}; what share of the recorded {window_ns} that is cannot be told", values)
    at_least = "at least " if gpu.lower_bound else ""
    if len(devices) > 1:
        most = "{devices_count} GPUs are busy " + at_least + "{low_share} to {busy_share} of the recorded {window_ns}"
        return Text(most, values)
    kind, share = _main_class(gpu)
    mostly = ", mostly in {kind}" if bound == COMPUTE and kind and share >= MAIN_SHARE else ""
    return Text("The GPU is busy " + at_least + "{busy_share} of the recorded {window_ns}" + mostly, values | {"kind": kind})


def _main_class(gpu: GpuKernels) -> tuple[str, float]:
    """The class of kernels that takes most time, and its share of all device work."""
    by_class = gpu.kernels.groupby("kernel_class")["total_ns"].sum()
    name, share = str(by_class.idxmax()), float(by_class.max() / max(1, by_class.sum()))
    return "" if name == "other" else KINDS.get(name, f"{name} kernels"), share


def _kernel(gpu: GpuKernels) -> Text:
    """The first of the kernels."""
    kernel = gpu.kernels.iloc[0]
    return Text.of(
        "Of kernels and copies {kernel} takes most, {total_share} of their time: {total_ns} in {calls_count:call}.",
        kernel=str(kernel["short_name"]), total_share=float(kernel["total_share"]), total_ns=int(kernel["total_ns"]),
        calls_count=int(kernel["count"]),
    )  # fmt: skip


def _span(steps: Steps) -> Text:
    """How long a step takes on the host."""
    count = "one step" if steps.count == 1 else "mean of {steps_count} steps"
    return Text("On the host a step takes {mean_ns} (" + count + ").", {"mean_ns": steps.mean_ns, "steps_count": steps.count})


def _first_change(bound: str, top: Finding | None, found: Savings | None, steps: Steps) -> Text:
    """What the first change saves, and the first few at once; or why nothing can be said."""
    if found is None:
        return Text("What a change would save is not told.", {})
    if found.refusal:
        return Text("What a change would save is not replayed: {why}.", {"why": found.refusal})
    if top is None:
        why = found.reason
        nothing = "none of the checks found a change that would save a notable part of the step."
        nothing = f"Nothing stands out: {nothing}" if bound == COMPUTE else nothing[0].upper() + nothing[1:]
        return Text.of(nothing + " Only a range could be given for any: {why}.", why=why) if why else Text(nothing)
    step_ns = max(found.step_ns, 1.0)
    values: dict[str, Any] = {
        "saving_ns": top.saving_ns, "step_ns": step_ns, "saving_share": top.saving_ns / step_ns,
        "low_ns": top.low_ns, "high_ns": top.high_ns,
    }  # fmt: skip
    saves = SAVES[top.confidence]
    until = " until its work on the GPU is done" if abs(step_ns - steps.mean_ns) > APART_SHARE * steps.mean_ns else ""
    text = "The first change below " + saves + " {saving_ns} of a step of {step_ns}" + until
    text += " ({saving_share}; {low_ns} to {high_ns})"
    if found.together:
        both = found.together[-1]
        text += ", the first {changes_count} at once bring it to {after_ns}"
        values |= {"changes_count": len(both.ids), "after_ns": both.after_ns}
    return Text(text + ".", values)


def _confidence(bound: str, gpu: GpuKernels, top: Finding | None, found: Savings | None) -> Confidence:
    """That of the first change; without one, whether a replay could have told."""
    if gpu.idle_withheld:
        return "low"
    return top.confidence if top else "medium" if bound != COMPUTE or (found and found.reason) else "high"
