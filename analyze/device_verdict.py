"""What the GPU does in a step, why it idles, and what a change would save -> the sentence of page one of a run with a GPU."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .analyses.buckets import APART_SHARE, Buckets
from .analyses.collectives import FirstCall
from .analyses.gpu_kernels import GpuKernels
from .analyses.idle_causes import IdleCauses
from .analyses.savings import Savings
from .analyses.steps import Steps
from .findings import Confidence, Finding, Text, Verdict
from .joint import of_these
from .limits import (
    BALANCED,
    COMMUNICATION,
    COMPUTE,
    COPY,
    DECISIVE_SHARE,
    HOST,
    INPUT,
    LAUNCH,
    LEADING_SHARE,
    SYNC,
    UNKNOWN,
    Limit,
    bound_of,
    limit_of,
    share_of,
)

MAIN_SHARE = 0.5  # of device work, or of idle time: one kind is most of it
NEARLY = 0.9  # of idle time: then its largest cause is its cause
TAGS = {
    COMPUTE: "GPU-bound", COMMUNICATION: "Communication-bound", COPY: "Copy-bound", INPUT: "Input-bound",
    SYNC: "Sync-bound", LAUNCH: "Launch-bound", HOST: "Host-bound", BALANCED: "Balanced",
    UNKNOWN: "Not yet explained",
}  # fmt: skip
SENTENCES = {  # where the part of that bound is large
    COMMUNICATION: "The GPU only communicates for {part_share} of {whole}",
    COPY: "The GPU copies and computes nothing, or waits for copies, in {part_share} of {whole}",
    INPUT: "The GPU waits for data in {part_share} of {whole}",
    SYNC: "The GPU stands idle after the host has waited for it, {part_share} of {whole}",
    LAUNCH: "The host cannot launch work fast enough: the GPU idles {part_share} of {whole}",
    HOST: "The GPU idles while the host does other work, {part_share} of {whole}",
    UNKNOWN: "The GPU idles in {part_share} of {whole}, and the recording does not show why",
}
TURNS = "The GPUs take turns: GPU {device} computes in {own_share} of {whole}, and waits for others in {turns_share} of it"
REASONS = {  # where it is small, and yet what the first change is about
    COMMUNICATION: "communication holds up the step",
    COPY: "copies hold up the step",
    INPUT: "the step waits for its input",
    SYNC: "waits of the host for the GPU hold up the step",
    LAUNCH: "launching holds up the step",
    HOST: "work on the host holds up the step",
}
MEANWHILE = {  # why another GPU idles
    INPUT: "while it waits for data", "h2d_wait": "while the host is in copy calls", SYNC: "after the host has waited for it",
    LAUNCH: "while the host launches", HOST: "while the host does other work", "other": "for reasons that are not recorded",
}  # fmt: skip
KINDS = {"gemm": "matrix products", "convolution": "convolutions", "copy": "copies"}
SAVES = {"high": "saves", "medium": "should save", "low": "may save"}


def device_verdict(result: Mapping[str, Any], findings: tuple[Finding, ...]) -> Verdict:
    """What limits the step of a run with a GPU; `result`: those of its analyses by name. The rule: `bound_of`."""
    gpu, steps, found, buckets = result["gpu_kernels"], result["steps"], result.get("savings"), result.get("buckets")
    spinning = _spinning(result)
    limit = Limit() if spinning else limit_of(buckets)
    top = _first(findings)
    bound = _spinning_bound(spinning) if spinning else bound_of(limit, top, found.step_ns if found else steps.mean_ns)
    sentence = _spinning_sentence(spinning) if spinning else _sentence(gpu, bound, limit, _whole(steps, buckets))
    leading = [_kernel(gpu)] if bound in (COMPUTE, BALANCED, UNKNOWN) else []  # else it is not what holds up the step
    span = [_span(steps, buckets)] if steps.window == "steps" else []
    texts = [
        *leading,
        *span,
        *_starving(limit),
        *_waiting(bound, result.get("idle_causes")),
        _first_change(bound, findings, found, steps, buckets),
    ]
    lede = Text(" ".join(text.template for text in texts), {k: v for text in texts for k, v in text.values.items()})
    return Verdict(TAGS[bound], sentence, lede, bound, _confidence(bound, gpu, top, found), top.id if top else None)


def _first(findings: tuple[Finding, ...]) -> Finding | None:
    """That which saves most."""
    return findings[0] if findings and findings[0].saving_ns > 0 else None


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


def _whole(steps: Steps, buckets: Buckets | None) -> Text:
    """What shares are of."""
    if buckets and buckets.between_ns:
        return Text("the {mean_ns} from the end of one step to that of the next", {"mean_ns": buckets.period_ns})
    return Text("a step of {mean_ns}" if steps.window == "steps" else "the recorded {mean_ns}", {"mean_ns": steps.mean_ns})


def _sentence(gpu: GpuKernels, bound: str, limit: Limit, whole: Text) -> Text:
    part = share_of(limit, bound) if bound != HOST else limit.parts.get(HOST, 0.0)
    if bound in SENTENCES and part >= DECISIVE_SHARE:
        template = limit.named(SENTENCES[bound]).replace("{whole}", whole.template)
        return Text(template, {"part_share": part, **whole.values})
    if bound == COMPUTE and limit.turns_share >= LEADING_SHARE:
        own = {"device": str(limit.device), "own_share": part - limit.turns_share, "turns_share": limit.turns_share}
        return Text(TURNS.replace("{whole}", whole.template), {**own, **whole.values})
    busy = _busy_sentence(gpu, bound, limit.device if bound == COMPUTE else None)
    return Text(f"{busy.template}; {REASONS[bound]}", busy.values) if bound in REASONS and limit.parts else busy


def _busy_sentence(gpu: GpuKernels, bound: str, limiting: int | None) -> Text:
    """`limiting`: of several GPUs that which is to be named; None: all of them together."""
    devices, one = gpu.devices, len(gpu.devices) == 1
    values: dict[str, Any] = {"window_ns": int(devices["window_ns"].iloc[0]), "busy_ns": int(devices["busy_ns"].max())}
    if gpu.busy_withheld:
        return Text("The GPU works {busy_ns}; what share of the recorded {window_ns} that is cannot be told", values)
    at_least = "at least " if gpu.lower_bound else ""
    named, rest = (
        (devices, devices[:0]) if one else (devices[devices["device"] == limiting], devices[devices["device"] != limiting])
    )
    if named.empty:
        values |= {"devices_count": len(rest), **_range(rest)}
        return Text(
            f"{{devices_count}} GPUs are busy {at_least}{{low_share}} to {{high_share}} of the recorded {{window_ns}}", values
        )
    kind, share = _main_class(gpu, None if one else limiting)
    text = f"{'The GPU' if one else 'GPU {device}'} is busy {at_least}{{busy_share}} of the recorded {{window_ns}}"
    text += ", mostly in {kind}" if bound == COMPUTE and kind and share >= MAIN_SHARE else ""
    values |= {"device": str(limiting), "busy_share": float(named["busy_share"].iloc[0]), "kind": kind}
    if len(rest):
        text += "; GPU {other} {low_share}" if len(rest) == 1 else "; the others {low_share} to {high_share}"
        values |= {"other": str(rest["device"].iloc[0]), **_range(rest)}
    return Text(text, values)


def _range(devices: pd.DataFrame) -> dict[str, float]:
    return {"low_share": float(devices["busy_share"].min()), "high_share": float(devices["busy_share"].max())}


def _starving(limit: Limit) -> list[Text]:
    """Of several GPUs the one that idles most, and most often why."""
    if limit.starving is None:
        return []
    idle = limit.idle[limit.starving]
    cause = max(idle, key=lambda one: idle[one])
    values = {"starving": str(limit.starving), "idle_share": sum(idle.values()), "cause_share": idle[cause]}
    mostly = "" if idle[cause] >= NEARLY * values["idle_share"] else " in {cause_share}"
    return [Text("GPU {starving} idles in {idle_share} of it," + mostly + f" {MEANWHILE[cause]}.", values)]


def _main_class(gpu: GpuKernels, device: int | None) -> tuple[str, float]:
    """The class of kernels that takes most time, and its share of all work of that GPU."""
    rows = gpu.kernels if device is None else gpu.kernels[gpu.kernels["device"] == device]
    by_class = rows.groupby("kernel_class")["total_ns"].sum()
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


def _span(steps: Steps, buckets: Buckets | None) -> Text:
    """How long a step takes on the host."""
    count = "one step" if steps.count == 1 else "mean of {steps_count} steps"
    before_ns = buckets.between_ns if buckets else 0.0
    text = "On the host a step takes {host_ns} (" + count + (")" if not before_ns else "), and {before_ns} pass before the next")
    return Text(text + ".", {"host_ns": steps.mean_ns, "steps_count": steps.count, "before_ns": before_ns})


def _waiting(bound: str, found: IdleCauses | None) -> list[Text]:
    """Where nothing explains that a GPU idles: for how long the work that it runs next is launched already."""
    if bound != UNKNOWN or found is None or found.queued_ns < max(1, MAIN_SHARE * found.unexplained_ns):
        return []
    text = "For {queued_ns} of its idle time the next work is launched already: it waits for another rank, or for work that "
    return [Text(text + "the file lacks.", {"queued_ns": found.queued_ns})]


def _first_change(
    bound: str, findings: tuple[Finding, ...], found: Savings | None, steps: Steps, buckets: Buckets | None
) -> Text:
    """What the first change saves, and the first few at once; or why nothing can be said."""
    if found is None:
        return Text("What a change would save is not told.", {})
    if found.refusal:
        return Text("What a change would save is not replayed: {why}.", {"why": found.refusal})
    top = _first(findings)
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
    text = "The first change below " + saves + " {saving_ns} of a step of {step_ns}" + _until(step_ns, steps, buckets)
    text += " ({saving_share}; {low_ns} to {high_ns})"
    told = [t for t in of_these(found.together, findings, found.findings) if t.ids == tuple(f.id for f in findings[: len(t.ids)])]
    if told and told[-1].adds:
        both = told[-1]
        text += ", the first {changes_count} at once bring it to {after_ns}"
        values |= {"changes_count": len(both.ids), "after_ns": both.after_ns}
    return Text(text + ".", values)


def _until(step_ns: float, steps: Steps, buckets: Buckets | None) -> str:
    """What makes a step longer in the replay than on the host."""
    if abs(step_ns - steps.mean_ns) <= APART_SHARE * steps.mean_ns:
        return ""
    if buckets and buckets.between_ns:
        return " with the time between steps"
    return " until its work on the GPU is done"


def _confidence(bound: str, gpu: GpuKernels, top: Finding | None, found: Savings | None) -> Confidence:
    """That of the first change; without one, whether a replay could have told."""
    if gpu.idle_withheld:
        return "low"
    return top.confidence if top else "medium" if bound != COMPUTE or (found and found.reason) else "high"
