"""Report -> headline numbers and provenance of page one, as printed text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..analyze.analyses.bottlenecks import Bottlenecks
from ..analyze.analyses.gpu_kernels import GpuKernels
from ..analyze.analyses.op_table import OpTable
from ..analyze.analyses.slices import SliceTimes
from ..analyze.analyses.steps import Steps
from ..analyze.diffs.step_change import StepChange
from ..analyze.diffs.total_changes import TotalChange
from ..analyze.forms import UNKNOWN
from ..analyze.statistics import Interval
from ..analyze.step_marks import LeftOut
from ..capture.bundle import unprofiled_times
from . import formats as f
from .model import Recording, Report
from .prose import sentence
from .saving_words import no_more

MOST_NAMED = 3  # steps


@dataclass(frozen=True)
class Headline:
    """One number: label, value, unit, and what it is a number of."""

    label: str
    value: str
    unit: str
    note: str


@dataclass(frozen=True)
class Change:
    """One row of the before/after table; `word`: faster, slower, or within noise; empty where nothing is claimed."""

    label: str
    before: str
    after: str
    change: str
    relative: str
    interval: str
    word: str


def headlines(report: Report) -> list[Headline]:
    """At most five numbers of one run."""
    steps, gpu, rows = report.result("steps"), report.result("gpu_kernels"), report.result("bottlenecks")
    if ranges := report.result("slices"):
        return _range_numbers(ranges)
    if steps is None:
        return _total_numbers(report.result("op_table"))
    numbers = [*_step_numbers(report, steps), *(_gpu_numbers(gpu) if gpu else _host_numbers(rows, steps))]
    return numbers[:5]


def _range_numbers(found: SliceTimes) -> list[Headline]:
    """Of another tool's trace."""
    numbers = [_split("Recording", f.time(found.window_ns), "first start to last end")]
    if found.device_busy_share is not None:
        numbers += [
            _split("Device busy", f.share(found.device_busy_share), "of the recording; at least one device"),
            _split("Devices at work", f.time(found.device_busy_ns), "overlapping work counts once"),
            _counted("Device events", found.device),
        ]
    if len(found.host):
        numbers.append(_counted("Host ranges", found.host, f" on {_amount(found.threads_count, 'thread')}"))
    if len(found.asynchronous):
        numbers.append(_counted("Asynchronous", found.asynchronous))
    return numbers[:5]


def _counted(label: str, rows: pd.DataFrame, where: str = "") -> Headline:
    return Headline(label, f.count(int(rows["count"].sum())), "", f"of {_amount(len(rows), 'name')}{where}")


def _amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _total_numbers(table: OpTable | None) -> list[Headline]:
    """Of a snapshot alone."""
    if table is None:
        return []
    numbers = [_split("Self CPU time", f.time(table.self_cpu_ns), "all operators and threads, added up")]
    if table.has_device:
        numbers.append(_split("Device time", f.time(table.self_device_ns), "all device work, added up"))
    if table.step_ns is not None and table.steps_count:
        numbers.append(_split("Step time, mean", f.time(table.step_ns), f"{_amount(table.steps_count, 'step')}; no statistics"))
    return [*numbers, Headline("Calls", f.count(table.calls_count), "", f"in {_amount(len(table.rows), 'row')}")]


def _step_numbers(report: Report, steps: Steps) -> list[Headline]:
    if steps.window == "trace":
        return [_split("Recording", f.time(steps.mean_ns), "no steps marked")]
    unit = f.choose_unit(steps.mean_ns)
    label = "Step on the host, mean" if report.result("gpu_kernels") else "Step time, mean"
    numbers = [_split(label, f.time(steps.mean_ns), _interval_note(steps.interval, unit, steps.count))]
    if steps.unprofiled_ns and steps.overhead_ratio:
        note = f"median of {_unprofiled_count(report)}; profiled {f.ratio(steps.overhead_ratio)} that"
        numbers.append(_split("Without the profiler", f.time(steps.unprofiled_ns), note))
        samples = report.recordings[0].manifest.samples_per_step if report.recordings[0].manifest else None
        if samples and report.result("gpu_kernels") is None:  # on a GPU the host may run ahead: its step time is no throughput
            numbers.append(
                _split("Throughput", f"{f.number(samples / steps.unprofiled_ns * 1e9, 0)} samples/s", "without the profiler")
            )
    return numbers


def _unprofiled_count(report: Report) -> int:
    return len(unprofiled_times(report.recordings[0].manifest))


def _interval_note(interval: Interval | None, unit: f.Unit, count: int) -> str:
    steps = f"{count} step" + ("s" if count != 1 else "")
    if interval is None:
        return steps
    low, high = (f.number(border / unit.ns_per_unit, unit.decimals) for border in (interval.low, interval.high))
    return f"95{f.NARROW}% CI {f.interval(low, high)}; {steps}"


def _gpu_numbers(gpu: GpuKernels) -> list[Headline]:
    devices = gpu.devices
    at_least = "at least, " if gpu.lower_bound else ""
    note = at_least + ("of the recording" if len(devices) == 1 else f"of the recording, busiest of {len(devices)} GPUs")
    return [
        *([_split("GPU busy", f.share(float(devices["busy_share"].max())), note)] if not gpu.busy_withheld else []),
        _split("GPU at work", f.time(float(devices["busy_ns"].sum())), "overlapping work counts once"),
        Headline(
            "Kernels", f.count(int(devices["kernel_count"].sum())), "", f"of {_amount(gpu.kernels['name'].nunique(), 'name')}"
        ),
    ]


def _host_numbers(rows: Bottlenecks | None, steps: Steps) -> list[Headline]:
    if rows is None:
        return []
    outside, per = f.share(rows.outside_share), "per step" if steps.window == "steps" else ""
    return [
        Headline("Operators", f.count(round(rows.ops_count)), per, f"called from Python; {round(rows.tiny_ops_count):,} tiny"),
        _split("Outside operators", outside, "Python, interpreter, waits"),
    ]


def _split(label: str, printed: str, note: str) -> Headline:
    """`8.75 ms` -> value and unit apart, for the large type of page one."""
    value, _, unit = printed.replace(" ", f.NARROW, 1).rpartition(f.NARROW)
    return Headline(label, value, unit, note)


def step_changes(report: Report) -> list[Change]:
    """The rows of the before/after table: of the step, or of totals where there are no statistics of steps."""
    if not report.told:
        return []
    if totals := report.result("total_changes"):
        return [_change(t.what, t.before_ns, t.after_ns, None) for t in (totals.host_total, totals.device_total) if _is_time(t)]
    change: StepChange | None = report.result("step_change")
    if change is None:
        return []
    rows = [
        _change("Step time, mean", change.before_ns, change.after_ns, change.interval),
        _change("Step time, median", change.before_median_ns, change.after_median_ns, change.median_interval),
    ]
    if change.unprofiled_before_ns and change.unprofiled_after_ns:
        label = "Without the profiler, median"
        rows.append(_change(label, change.unprofiled_before_ns, change.unprofiled_after_ns, change.unprofiled_interval))
    return rows


def left_out_lines(report: Report) -> list[str]:
    """Which steps of each side a comparison leaves out, and why."""
    change: StepChange | None = report.result("step_change")
    sides = zip(("Before", "After"), change.left_out if change else (), strict=False)
    return [f"{side} without {'; '.join(_left_out(steps))}." for side, steps in sides if steps]


def _left_out(steps: Sequence[LeftOut]) -> Iterator[str]:
    for why in dict.fromkeys(step.why for step in steps):
        names = [step.name for step in steps if step.why == why]
        more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
        yield f"{', '.join(names[:MOST_NAMED])}{more} ({why})"


def _is_time(total: TotalChange) -> bool:
    return bool(total.before_ns or total.after_ns)


def _change(label: str, before: float, after: float, interval: Interval | None) -> Change:
    unit = f.choose_unit(max(before, after))
    borders = word = ""
    if interval:
        low, high = (f.number(border / unit.ns_per_unit, unit.decimals, sign=True) for border in (interval.low, interval.high))
        borders = f.interval(low, high)
        word = "within noise" if not interval.excludes_zero() else "faster" if interval.high < 0 else "slower"
    change = f.time(after - before, unit, sign=True)
    relative = f.share(after / before - 1, sign=True) if before else f.UNKNOWN
    return Change(label, f.time(before, unit), f.time(after, unit), change, relative, borders, word)


def provenance(report: Report) -> list[list[tuple[str, str]]]:
    """Where the numbers of each recording come from; unknown facts are left out."""
    change, steps = report.result("step_change"), report.result("steps")
    known = [change.before, change.after] if change else [steps] if steps else []
    modes = [s.mode for s in known] or [""] * len(report.recordings)
    others = [other.recordings[0].rank_and_name for other in report.ranks if other.rank != report.rank]
    rank = f"{report.recordings[0].rank_and_name}; beside it {', '.join(others)}, see Ranks" if others else ""
    found = [_provenance(r, mode, rank, report.version) for r, mode in zip(report.recordings, modes, strict=True)]
    if report.kind == "run":
        return found
    short = {"SHA-256": [recording.digest for recording in report.recordings]}  # two columns beside each other have no room
    return [
        [(name, short[name][side] if name in short else text) for name, text in rows if name != "Report"]
        for side, rows in enumerate(found)
    ]  # fmt: skip


def _provenance(recording: Recording, mode: str, rank: str, version: str) -> list[tuple[str, str]]:
    source, manifest = recording.source, recording.manifest
    rows = [
        ("Rank", rank),
        ("Snapshot" if recording.form == "snapshot" else "Trace", source.files[0].name),
        ("SHA-256", source.files[0].sha256),
        ("Written by", source.producer if recording.form == "ranges" and source.producer != UNKNOWN else ""),
        ("Mode", "" if mode == "unknown" else mode),
    ]
    if recording.torch and not manifest:
        rows.append(("Software", f"PyTorch {recording.torch}"))
    if manifest:
        versions, program = manifest.versions, manifest.program
        commit = program.get("git_commit")
        rows += [
            ("Captured", manifest.captured_at.replace("T", " ").replace("Z", " UTC")),
            ("Machine", _machine(manifest.machine)),
            ("Software", ", ".join(f"{name} {versions[key]}" for key, name in SOFTWARE.items() if versions.get(key))),
            ("Code", f"{commit[:12]}{', with uncommitted changes' if program.get('git_dirty') else ''}" if commit else ""),
            ("Command", str(program.get("command") or "")),
            ("Step", _step_line(program)),
        ]
    used = [name for name in dict.fromkeys(source.devices) if name]
    rows += [("GPU", ", ".join(used)), ("Runtime", source.runtime or "")]
    return [(fact, text) for fact, text in rows if text] + [("Report", f"longpole {version}")]


def _step_line(program: dict[str, Any]) -> str:
    """What ended the steps, where the loop was found and not marked; with its models."""
    ends_on = str(program.get("step_ends_on") or "")
    if not ends_on:
        return ""
    kind, _, name = ends_on.partition(" ")
    line = f"ends with {STEP_ENDS.get(kind, ends_on).format(name)}"
    first = program.get("first_recorded_step")
    return f"{line}; the first recorded one is number {first + 1:,} of the program" if isinstance(first, int) else line


def _machine(facts: dict[str, Any]) -> str:
    count = facts.get("cpu_usable_count") or facts.get("cpu_count")
    return str(facts.get("cpu", "")) + (f", {count} CPUs" if count else "")


STEP_ENDS = {  # by what `longpole run` notes of it
    "optimizer": "the step of {}",
    "backward": "backward()",
    "module": "each call of the outermost module",
    "batch": "the next batch of a DataLoader",
}
SOFTWARE = {"python": "Python", "torch": "PyTorch", "cuda": "CUDA", "hip": "ROCm"}


def coverage_line(report: Report, recording: Recording) -> str:
    """What became of the file's events; of a run also which steps and kernels its figures rest on."""
    c = recording.coverage
    if recording.form == "snapshot":
        return f"{c.total:,} rows of key_averages() read: {c.used:,} used, {c.dropped:,} dropped."
    repaired = f"{c.repaired:,} repaired, " if c.repaired else ""
    fates = f"{c.used:,} used, {repaired}{c.ignored:,} ignored (metadata, flows, unknown kinds), {c.dropped:,} dropped"
    rest = [*_steps_used(report), *_kernels_linked(report)] if report.kind == "run" else []
    whose = f" of {len(report.ranks)} ranks" if report.merged else ""
    return " ".join([f"{c.total:,} events{whose} read: {fates}.", *rest])


def _steps_used(report: Report) -> list[str]:
    steps = report.result("steps")
    if steps is None or steps.window != "steps":
        return []
    partial = int(steps.rows["partial"].sum())
    return [f"{_amount(len(steps.rows), 'step')}: {len(steps.rows) - partial:,} whole, {partial:,} partial."]


def _kernels_linked(report: Report) -> list[str]:
    gpu, launching = report.result("gpu_kernels"), report.result("launching")
    if gpu is None or launching is None:
        return []
    count, lost = int(gpu.devices["kernel_timed_count"].sum()), launching.measures["kernels_without_launch"]
    return [f"{_amount(count, 'kernel')}: {count - lost:,} linked to their launch, {lost:,} not."]


def loss_lines(report: Report) -> list[str]:
    """What each input lost and what misleads in it, in sentences for the top of a report; in a diff with the side in front."""
    if report.kind == "run":
        return [w.message for w in report.recordings[0].losses]
    several = max(map(len, report.sides)) > 1
    return [
        f"{side}{f', {r.name}' if several else ''}: {w.message}"
        for side, runs in zip(("Before", "After"), report.sides, strict=True) for r in runs for w in r.losses
    ]  # fmt: skip


def detail_lines(report: Report) -> list[str]:
    """What a reader must know of a section that comes from the detail pass; none where no section does."""
    found = report.detail
    if found is None or found.recording is None:
        return []
    own, other = report.result("steps"), found.result("steps")
    means = ""
    if own and other and own.window == other.window == "steps":
        means = f"; its mean step took {f.time(other.mean_ns)}, that of the recording of all else here {f.time(own.mean_ns)}"
    steps = _amount(other.count, "step") if other and other.window == "steps" else "a few steps"
    line = (
        f"From the detail pass: {steps} of the same run, recorded with shapes, stacks and memory. That takes time of its own, so"
        f" compare these times with each other only{means}."
    )
    incomplete = [found.recording.incomplete] if found.recording.incomplete else []
    return [line, *incomplete, *(warning.message for warning in found.recording.losses)]


def detail_missing(report: Report) -> str:
    """Why the detail pass that was to be there could not be used."""
    return f"It cannot be used: {report.detail.missing}." if report.detail and report.detail.missing else ""


def now_line(report: Report) -> str:
    """Of a diff, what limits the step now; empty where that is not told."""
    return f"What limits the step now: {sentence(report.now.sentence)}." if report.now and report.told else ""


def runs_line(report: Report) -> str:
    """Of a diff, what varies: the steps of one run a side, or several runs."""
    before, after = (len(side) for side in report.sides)
    if max(before, after) == 1:
        return "One capture a side: the intervals cover the variation between steps, not between runs."
    return (
        f"{_amount(before, 'run')} before and {after:,} after: the intervals cover the differences between runs. Calls and "
        f"findings are those of the run of median step on each side, {report.recordings[0].name} and {report.recordings[1].name}."
    )


NOTHING_NOTABLE = "None of the checks found a change that would save a notable part of the step."


def nothing_to_change(report: Report) -> str:
    """Why a run's report lists no change."""
    return report.recordings[0].withheld or NOTHING_NOTABLE


def together_lines(report: Report) -> list[str]:
    """What the first findings save when all of them are fixed, in sentences."""
    number = {finding.id: place for place, finding in enumerate(report.findings, 1)}
    return [
        f"Changes {', '.join(str(number[id]) for id in t.ids[:-1])} and {number[t.ids[-1]]} together{no_more(t)}: "
        f"{f.time(t.step_ns)} → {f.time(t.after_ns)} a step ({f.interval(f.time(t.least_ns), f.time(t.most_ns))})."
        for t in report.together
    ]
