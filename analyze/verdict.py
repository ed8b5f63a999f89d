"""Sections -> the one sentence of page one: what limits the step, or what the change did."""

import re
from dataclasses import replace
from typing import Any

from .advice.exposed_communication import WAITS_FOR_NONE, beside_other_ranks, beside_unmatched_ranks
from .analyses.bottlenecks import Bottlenecks
from .analyses.phases import Phases
from .analyses.ranks import Ranks
from .analyses.steps import Steps
from .broken_graphs import COMPILING
from .device_verdict import device_verdict
from .diffs.changes import CHANGED
from .diffs.comparability import Comparability
from .diffs.phase_changes import PhaseChanges
from .diffs.step_change import FASTER, SLOWER, TOO_FEW_STEPS, WITHIN_NOISE, StepChange
from .findings import NOTABLE_SHARE, Confidence, Finding, Text, Verdict, ranked
from .limits import DECISIVE_SHARE, LEADING_SHARE
from .run import Section
from .step_time import OTHER
from .totals_verdict import ranges_verdict, snapshot_verdict, total_change_verdict

RUNTIME_CALL = re.compile(r"(cuda|hip|cu|xpu|ur|ze)[A-Z]")  # a call of the GPU's runtime is a wait, not work of the CPU
NEARLY = 0.7  # of the largest phase: a finding about one as large as this may speak for the step
MANY_STEPS = 10
NARROW = 0.2  # width of the interval ÷ mean: a steady step
MANY_PHASES = 4  # of fewer, a fix can well change all
NOTABLE_SHIFT = 0.05
NOT_COMPARABLE = "not_comparable"
COMMUNICATION_FINDING = "exposed_communication"

TAGS = {
    "input_pipeline": "Input-bound",
    "host": "Host-bound",
    "compute": "Compute-bound",
    "balanced": "Balanced",
    "unknown": "Not yet explained",
}


def run_verdict(sections: tuple[Section, ...], findings: tuple[Finding, ...] | None = None) -> Verdict:
    """What limits the step of one run; `findings`: where they are not those of the sections."""
    result = _results(sections)
    if findings is None:
        findings = ranked(finding for section in sections for finding in section.findings)
    if result.get("slices"):
        return ranges_verdict(result["slices"])
    if result.get("gpu_kernels") and result.get("steps"):
        return device_verdict(result, findings)
    if result.get("steps") and result.get("phases"):
        return _host_verdict(result["steps"], result["phases"], result.get("bottlenecks"), findings)
    return snapshot_verdict(result["op_table"]) if result.get("op_table") else _no_verdict(sections)


def findings_of_ranks(own: tuple[Finding, ...], rank: int, across: tuple[Section, ...]) -> tuple[Finding, ...]:
    """Those of one rank with those of all; what one replayed alone waits for others is no communication that could be hidden."""
    found: Ranks | None = _results(across).get("ranks")
    if found is None or found.calls is None:
        return own
    left = [_beside_others(f, rank, found) if WAITS_FOR_NONE in f.assumes else f for f in own]
    least_ns = NOTABLE_SHARE * found.step_ns
    return ranked([*found.findings, *(f for f in left if f.id != COMMUNICATION_FINDING or f.saving_ns >= least_ns)])


def _beside_others(own: Finding, rank: int, found: Ranks) -> Finding:
    if found.calls and found.calls.unmatched:
        return beside_unmatched_ranks(own, found.calls.unmatched)
    waits_ns = float(found.rows.loc[found.rows["rank"] == str(rank), "exposed_wait_ns"].iloc[0])
    late_ns = max((f.saving_ns for f in found.findings if f.title.values.get("rank") != str(rank)), default=0.0)
    return beside_other_ranks(own, waits_ns, late_ns)


def run_verdict_of_ranks(sections: tuple[Section, ...], findings: tuple[Finding, ...], across: tuple[Section, ...]) -> Verdict:
    """That of one rank by the findings of `findings_of_ranks`, with who keeps it waiting; that alone, where it is the first."""
    verdict = run_verdict(sections, findings)
    found: Ranks | None = _results(across).get("ranks")
    if found is None:
        return verdict
    top = findings[0] if findings and findings[0] in found.findings else None
    if top:
        return _late_verdict(verdict, found, top)
    return replace(verdict, lede=_both(verdict.lede, found.lede)) if found.lede else verdict


def _late_verdict(verdict: Verdict, found: Ranks, top: Finding) -> Verdict:
    saves = Text.of(
        "On time, it would save {saving_ns} of a step of {step_ns} ({low_ns} to {high_ns}).",
        saving_ns=top.saving_ns, step_ns=found.step_ns, low_ns=top.low_ns, high_ns=top.high_ns,
    )  # fmt: skip
    verdict = replace(verdict, lede=_both(found.lede, saves) if found.lede else saves, top=top.id)
    if top.saving_ns < DECISIVE_SHARE * found.step_ns:
        return verdict
    sentence = Text.of(
        "The ranks wait for rank {rank}, {saving_share} of each step",
        rank=top.title.values["rank"], saving_share=top.saving_ns / found.step_ns,
    )  # fmt: skip
    return replace(verdict, tag="Straggler", sentence=sentence, bound=top.bound, confidence=top.confidence)


def _both(first: Text, second: Text) -> Text:
    return Text(f"{first.template} {second.template}", {**first.values, **second.values})


def diff_verdict(sections: tuple[Section, ...], anyway: bool = False) -> Verdict:
    """What the change did to the step; of runs that are not comparable only that, unless they are to be compared `anyway`."""
    result = _results(sections)
    if result.get("step_change") and result.get("phase_changes"):
        step, found = result["step_change"], result["comparability"]
        if not found.comparable and not anyway:
            return _not_comparable(step, found)
        told = _change_verdict(step, result["phase_changes"])
        return told if found.comparable else _although(told, found)
    return total_change_verdict(result["total_changes"]) if result.get("total_changes") else _no_verdict(sections)


def _results(sections: tuple[Section, ...]) -> dict[str, Any]:
    return {section.name: section.result for section in sections if section.result is not None}


def _host_verdict(steps: Steps, phases: Phases, bottlenecks: Bottlenecks | None, findings: tuple[Finding, ...]) -> Verdict:
    top = findings[0] if findings and findings[0].saving_ns > 0 else None
    lead, share, told_by_top = _leader(phases, bottlenecks, top if _decisive(top, steps) else None)
    bound = top.bound if top and told_by_top else _composition(bottlenecks)
    step = "the step" if steps.window == "steps" else "the recording"
    stands_out = share >= LEADING_SHARE or told_by_top
    sentence = (
        Text.of("{lead} holds {lead_share} of {step}", lead=lead, lead_share=share, step=step)
        if stands_out
        else Text.of(
            "No single part of the step stands out; the largest, {lead}, holds {lead_share}", lead=lead, lead_share=share
        )
    )
    span = _span(steps)
    lede = span[0].upper() + span[1:] + ", {lead_ns} of it there."
    values = _span_values(steps) | {"lead_ns": share * steps.mean_ns}
    if top:
        lede += " The first change below should bring it to about {after_ns}, a saving of {saving_share}."
        values |= {"after_ns": steps.mean_ns - top.saving_ns, "saving_share": top.saving_ns / steps.mean_ns}
    else:
        lede += " None of the checks found a change that would save a notable part of it."
    return Verdict(TAGS[bound], sentence, Text(lede, values), bound, _confidence(steps), top.id if top else None)


def _span(steps: Steps) -> str:
    """How long a step takes; where some stand out, the median too, for the mean is then no step's time."""
    if steps.window != "steps":
        return "the recording spans {mean_ns}"
    outliers = bool(steps.rows["outlier"].any())
    return "a step takes {mean_ns} (mean of {steps_count}" + ("; median {median_ns})" if outliers else ")")


def _span_values(steps: Steps) -> dict[str, Any]:
    return {"mean_ns": steps.mean_ns, "steps_count": steps.count, "median_ns": steps.median_ns}


def _decisive(top: Finding | None, steps: Steps) -> bool:
    return top is not None and top.saving_ns >= DECISIVE_SHARE * steps.mean_ns


def _leader(phases: Phases, bottlenecks: Bottlenecks | None, decisive: Finding | None) -> tuple[str, float, bool]:
    """What the sentence is about, its share, and whether the decisive finding is about the same.

    The phase of the decisive finding where it holds nearly as much as the largest one, else the largest phase, else, where no
    marked phase holds LEADING_SHARE, the largest operator.
    """
    marked = {str(r["phase"]): float(r["phase_share"]) for r in phases.rows.to_dict("records") if r["phase"] != OTHER}
    largest = max(marked.items(), key=lambda item: item[1], default=("", 0.0))
    if decisive and marked.get(decisive.phase, 0.0) >= NEARLY * largest[1] > 0:
        return _spoken(decisive.phase), marked[decisive.phase], True
    if largest[1] >= LEADING_SHARE or bottlenecks is None or bottlenecks.rows.empty:
        return _spoken(largest[0] or "the step"), largest[1] or 1.0, False
    by_name = bottlenecks.rows.groupby("name", sort=False)["step_share"].sum()
    name, share = str(by_name.idxmax()), float(by_name.max())
    if largest[1] >= share:
        return _spoken(largest[0]), largest[1], False
    return name or "Time outside operators", share, False


def _spoken(phase: str) -> str:
    """`data_loading` -> `Data loading`, to begin a sentence."""
    return phase[:1].upper() + phase[1:].replace("_", " ")


def _composition(bottlenecks: Bottlenecks | None) -> str:
    """What holds most of the step: Python and dispatch, or work inside operators."""
    if bottlenecks is None:
        return "unknown"
    if bottlenecks.outside_share > 0.5:
        return "host"
    named = bottlenecks.rows[bottlenecks.rows["name"] != ""].groupby("name")["step_share"].sum()
    if named.empty or named.max() < LEADING_SHARE:
        return "balanced"
    largest = str(named.idxmax())
    return "host" if COMPILING.search(largest) else "unknown" if RUNTIME_CALL.match(largest) else "compute"


def _no_verdict(sections: tuple[Section, ...]) -> Verdict:
    reasons = " ".join(dict.fromkeys(section.missing for section in sections if section.missing))
    return Verdict(
        TAGS["unknown"], Text("Nothing can be told of this recording"), Text.of("{reasons}", reasons=reasons), "unknown", "low"
    )


def _confidence(steps: Steps) -> Confidence:
    """By how many steps were measured and how steady they are."""
    if steps.interval is None:
        return "low"
    steady = steps.interval.high - steps.interval.low <= NARROW * steps.mean_ns
    return "high" if steady and steps.count >= MANY_STEPS else "medium"


def _not_comparable(step: StepChange, found: Comparability) -> Verdict:
    lede = Text.of(
        "By itself a step takes {before_ns} before and {after_ns} after, the mean of {before_count} and of {after_count}. "
        "What differs decides the speed, so no change is told; --anyway compares all the same.",
        before_ns=step.before.mean_ns, after_ns=step.after.mean_ns, before_count=step.before.count, after_count=step.after.count,
    )  # fmt: skip
    reasons = Text.of("The runs cannot be compared: {reasons}", reasons="; ".join(found.reasons))
    return Verdict("Not comparable", reasons, lede, NOT_COMPARABLE, "low")


def _although(told: Verdict, found: Comparability) -> Verdict:
    """The same, of runs that differ in more than the change that is tried."""
    more = Text.of("Compared although the runs differ in what decides their speed: {reasons}.", reasons="; ".join(found.reasons))
    return replace(told, lede=_both(more, told.lede), confidence="low")


def _change_verdict(step: StepChange, phases: PhaseChanges) -> Verdict:
    values: dict[str, Any] = {
        "speedup_ratio": max(step.speedup_ratio, 1 / step.speedup_ratio),
        "before_ns": step.before_ns,
        "after_ns": step.after_ns,
    }
    sentence = {
        FASTER: "{speedup_ratio} faster: {before_ns} → {after_ns} per step",
        SLOWER: "{speedup_ratio} slower: {before_ns} → {after_ns} per step",
        TOO_FEW_STEPS: "Too few steps to tell: {before_ns} → {after_ns} per step",
    }.get(step.verdict, "No difference beyond noise: {before_ns} → {after_ns} per step")
    tag = {FASTER: "Faster", SLOWER: "Slower", TOO_FEW_STEPS: "Too few steps"}.get(step.verdict, "Within noise")
    confidence: Confidence = "low" if step.interval is None else "high" if step.apart else "medium"
    return Verdict(tag, Text(sentence, values), _change_lede(step, phases, step.verdict), step.verdict, confidence)


def _change_lede(step: StepChange, phases: PhaseChanges, verdict: str) -> Text:
    values: dict[str, Any] = {"step_change_ns": step.change_ns, "step_change_share": step.change_share}
    lede = "The mean step differs by {step_change_ns} ({step_change_share}) between these two captures"
    if step.interval and step.speedup_interval:
        lede += "; 95\u202f% interval {low_change_ns} to {high_change_ns}, speed-up {low_ratio} to {high_ratio}"
        values |= {"low_change_ns": step.interval.low, "high_change_ns": step.interval.high}
        values |= {"low_ratio": step.speedup_interval.low, "high_ratio": step.speedup_interval.high}
    lede += "."
    same_way = phases.rows[(phases.rows["change_ns"] * step.change_ns > 0) & (phases.rows["status"] != WITHIN_NOISE)]
    if verdict in (FASTER, SLOWER) and len(phases.rows) > 1 and len(same_way):
        lead = same_way.iloc[0]
        lede += " The largest part of it is {phase}, {phase_change_ns}."
        values |= {"phase": str(lead["name"]).replace("_", " "), "phase_change_ns": float(lead["change_ns"])}
    if verdict in (FASTER, SLOWER) and (least := _common_shift(phases)):
        lede += " Every phase changed that way, the least by {least_share}: part of it may be the machine, so capture again."
        values["least_share"] = least
    return Text(lede, values)


def _common_shift(phases: PhaseChanges) -> float | None:
    """The least share by which any phase changed, where all of them changed the same way: no fix does that to each of them."""
    rows = phases.rows
    if len(rows) < MANY_PHASES or not (rows["status"] == CHANGED).all() or rows["change_ns"].min() < 0 < rows["change_ns"].max():
        return None
    least = float((rows["change_ns"].abs() / rows["before_ns"]).min())
    return least if least >= NOTABLE_SHIFT else None
