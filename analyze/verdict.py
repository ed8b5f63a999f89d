"""Sections -> the one sentence of page one: what limits the step, or what the change did."""

from typing import Any

from .analyses.bottlenecks import Bottlenecks
from .analyses.gpu_kernels import GpuKernels
from .analyses.phases import Phases
from .analyses.steps import Steps
from .diffs.comparability import Comparability
from .diffs.phase_changes import PhaseChanges
from .diffs.step_change import FASTER, SLOWER, TOO_FEW_STEPS, StepChange
from .findings import Confidence, Finding, Text, Verdict, ranked
from .run import Section
from .step_time import OTHER

LEADING_SHARE = 0.3  # of the step: a phase or operator below this does not stand out
DECISIVE_SAVING_SHARE = 0.1  # of the step: a finding that saves less does not say what limits it
MANY_STEPS = 10
NARROW = 0.2  # width of the interval ÷ mean: a steady step
GPU_BOUND_SHARE = 0.9  # of the window: an idle tenth can hide little

TAGS = {
    "input_pipeline": "Input-bound",
    "host": "Host-bound",
    "compute": "Compute-bound",
    "balanced": "Balanced",
    "unknown": "Not yet explained",
}


def run_verdict(sections: tuple[Section, ...]) -> Verdict:
    """What limits the step of one run."""
    result = _results(sections)
    findings = ranked(finding for section in sections for finding in section.findings)
    if result.get("gpu_kernels"):
        return _gpu_verdict(result["gpu_kernels"], result["steps"])
    return _host_verdict(result["steps"], result["phases"], result.get("bottlenecks"), findings)


def diff_verdict(sections: tuple[Section, ...]) -> Verdict:
    """What the change did to the step."""
    result = _results(sections)
    return _change_verdict(result["step_change"], result["phase_changes"], result["comparability"])


def _results(sections: tuple[Section, ...]) -> dict[str, Any]:
    return {section.name: section.result for section in sections if section.result is not None}


def _host_verdict(steps: Steps, phases: Phases, bottlenecks: Bottlenecks | None, findings: tuple[Finding, ...]) -> Verdict:
    top = findings[0] if findings else None
    lead, share = _leader(phases, bottlenecks, top if _decisive(top, steps) else None)
    bound = _host_bound(steps, bottlenecks, top)
    step = "every step" if steps.window == "steps" else "the recording"
    stands_out = share >= LEADING_SHARE or _decisive(top, steps)
    sentence = (
        Text.of("{lead} holds {lead_share} of {step}", lead=lead, lead_share=share, step=step)
        if stands_out
        else Text.of(
            "No single part of the step stands out; the largest, {lead}, holds {lead_share}", lead=lead, lead_share=share
        )
    )
    lede = "A step takes {mean_ns} (mean of {steps_count})" if steps.window == "steps" else "The recording spans {mean_ns}"
    lede += ", {lead_ns} of it there."
    values: dict[str, Any] = {"mean_ns": steps.mean_ns, "steps_count": steps.count, "lead_ns": share * steps.mean_ns}
    if top:
        lede += " The first change below should bring it to about {after_ns}, a saving of {saving_share}."
        values |= {"after_ns": steps.mean_ns - top.saving_ns, "saving_share": top.saving_ns / steps.mean_ns}
    else:
        lede += " None of the checks found a change that would save a notable part of it."
    return Verdict(TAGS[bound], sentence, Text(lede, values), bound, _confidence(steps), top.id if top else None)


def _decisive(top: Finding | None, steps: Steps) -> bool:
    return top is not None and top.saving_ns >= DECISIVE_SAVING_SHARE * steps.mean_ns


def _leader(phases: Phases, bottlenecks: Bottlenecks | None, decisive: Finding | None) -> tuple[str, float]:
    """What the sentence is about, and its share: the decisive finding's phase, else the largest phase, else the largest operator.

    An operator comes first only where no marked phase holds LEADING_SHARE.
    """
    marked = {str(r["phase"]): float(r["phase_share"]) for r in phases.rows.to_dict("records") if r["phase"] != OTHER}
    if decisive and decisive.phase in marked:
        return _spoken(decisive.phase), marked[decisive.phase]
    largest = max(marked.items(), key=lambda item: item[1], default=("", 0.0))
    if largest[1] >= LEADING_SHARE or bottlenecks is None or bottlenecks.rows.empty:
        return _spoken(largest[0] or "the step"), largest[1] or 1.0
    by_name = bottlenecks.rows.groupby("name", sort=False)["step_share"].sum()
    name, share = str(by_name.idxmax()), float(by_name.max())
    return (_spoken(largest[0]), largest[1]) if largest[1] >= share else (name or "Time outside operators", share)


def _spoken(phase: str) -> str:
    """`data_loading` -> `Data loading`, to begin a sentence."""
    return phase[:1].upper() + phase[1:].replace("_", " ")


def _host_bound(steps: Steps, bottlenecks: Bottlenecks | None, top: Finding | None) -> str:
    """A decisive finding says it; else what holds most of the step: Python and dispatch, or work inside operators."""
    if top and _decisive(top, steps):
        return top.bound
    if bottlenecks is None:
        return "unknown"
    if bottlenecks.outside_share > 0.5:
        return "host"
    largest = float(bottlenecks.rows.loc[bottlenecks.rows["name"] != "", "step_share"].max()) if len(bottlenecks.rows) else 0.0
    return "compute" if largest >= LEADING_SHARE else "balanced"


def _gpu_verdict(gpu: GpuKernels, steps: Steps) -> Verdict:
    devices, kernel = gpu.devices, gpu.kernels.iloc[0]
    computing = bool((devices["compute_ns"] >= GPU_BOUND_SHARE * devices["window_ns"]).all())
    lede = Text.of(
        "{kernel} takes {total_share} of all GPU work, {total_ns} in {calls_count} calls. A step takes {mean_ns} on the host "
        "(mean of {steps_count}). What a change would save on a GPU run cannot be told from these figures alone.",
        kernel=str(kernel["short_name"]), total_share=float(kernel["total_share"]), total_ns=int(kernel["total_ns"]),
        calls_count=int(kernel["count"]), mean_ns=steps.mean_ns, steps_count=steps.count,
    )  # fmt: skip
    bound = "compute" if computing and not gpu.idle_withheld else "unknown"
    tag = "GPU busy" if bound == "compute" else TAGS[bound]
    return Verdict(tag, _busy_sentence(gpu), lede, bound, "high" if not gpu.idle_withheld else "low")


def _busy_sentence(gpu: GpuKernels) -> Text:
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
    if len(devices) == 1:
        return Text("The GPU is busy " + at_least + "{busy_share} of the recorded {window_ns}", values)
    return Text("{devices_count} GPUs are busy " + at_least + "{low_share} to {busy_share} of the recorded {window_ns}", values)


def _confidence(steps: Steps) -> Confidence:
    """By how many steps were measured and how steady they are."""
    if steps.interval is None:
        return "low"
    steady = steps.interval.high - steps.interval.low <= NARROW * steps.mean_ns
    return "high" if steady and steps.count >= MANY_STEPS else "medium"


def _change_verdict(step: StepChange, phases: PhaseChanges, comparability: Comparability) -> Verdict:
    values: dict[str, Any] = {
        "speedup_ratio": max(step.speedup_ratio, 1 / step.speedup_ratio),
        "before_ns": step.before.mean_ns,
        "after_ns": step.after.mean_ns,
    }
    sentence = {
        FASTER: "{speedup_ratio} faster: {before_ns} → {after_ns} per step",
        SLOWER: "{speedup_ratio} slower: {before_ns} → {after_ns} per step",
        TOO_FEW_STEPS: "Too few steps to tell: {before_ns} → {after_ns} per step",
    }.get(step.verdict, "No difference beyond noise: {before_ns} → {after_ns} per step")
    tag = {FASTER: "Faster", SLOWER: "Slower", TOO_FEW_STEPS: "Too few steps"}.get(step.verdict, "Within noise")
    if not comparability.comparable:
        tag = "Not comparable"
    steady = step.interval is not None and comparability.comparable
    confidence: Confidence = "high" if steady and step.apart else "medium" if steady else "low"
    return Verdict(tag, Text(sentence, values), _change_lede(step, phases, comparability), step.verdict, confidence)


def _change_lede(step: StepChange, phases: PhaseChanges, comparability: Comparability) -> Text:
    values: dict[str, Any] = {"step_change_ns": step.change_ns, "step_change_share": step.change_share}
    lede = "The mean step differs by {step_change_ns} ({step_change_share}) between these two captures"
    if step.interval and step.speedup_interval:
        lede += "; 95 % interval {low_change_ns} to {high_change_ns}, speed-up {low_ratio} to {high_ratio}"
        values |= {"low_change_ns": step.interval.low, "high_change_ns": step.interval.high}
        values |= {"low_ratio": step.speedup_interval.low, "high_ratio": step.speedup_interval.high}
    lede += "."
    if step.verdict in (FASTER, SLOWER) and len(phases.rows) > 1:
        lead = phases.rows.iloc[0]
        lede += " The largest part of it is {phase}, {phase_change_ns}."
        values |= {"phase": str(lead["name"]).replace("_", " "), "phase_change_ns": float(lead["change_ns"])}
    if comparability.reasons:
        lede += " Do not compare them: {reasons}."
        values["reasons"] = "; ".join(comparability.reasons)
    return Text(lede, values)
