"""Sections and recordings -> Report: everything a renderer needs, and nothing it has to compute."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Literal

from ..analyze import forms
from ..analyze.averages import torch_version
from ..analyze.details import Detail
from ..analyze.diffs.outcome import explained
from ..analyze.diffs.sides import Side, typical
from ..analyze.findings import Caution, Finding, Verdict, ranked
from ..analyze.joint import Together, of_these, together
from ..analyze.run import Section
from ..analyze.trace import Coverage, Source, Trace, TraceWarning
from ..analyze.verdict import diff_verdict, findings_of_ranks, run_verdict, run_verdict_of_ranks
from ..capture.bundle import Manifest
from .prose import sentence

CUT_OFF = "truncated"  # how the code of that warning begins


@dataclass(frozen=True, eq=False)
class Recording:
    """What a report says about one trace itself."""

    source: Source
    manifest: Manifest | None
    origin_ns: int
    window_ns: int
    coverage: Coverage
    warnings: tuple[TraceWarning, ...]
    form: forms.Form
    withheld: str  # why most questions have no answer; empty for a trace of torch.profiler
    whole_steps: tuple[str, ...] | None  # of a file that was cut off
    torch: str | None  # the version that recorded it, where that is known

    @property
    def losses(self) -> tuple[TraceWarning, ...]:
        """Warnings of what cost something; that a file was cut off comes first, for it bears on all else."""
        lost = (warning for warning in self.warnings if not warning.harmless)
        return tuple(sorted(lost, key=lambda warning: not warning.code.startswith(CUT_OFF)))

    @property
    def harmless(self) -> tuple[TraceWarning, ...]:
        return tuple(warning for warning in self.warnings if warning.harmless)

    @property
    def rank_and_name(self) -> str:
        """`1`, or `1 (TP01)` where its file names it beside others."""
        name = self.source.rank_name
        return f"{self.source.rank or 0} ({name})" if name else str(self.source.rank or 0)

    @property
    def name(self) -> str:
        """The bundle's title, else the base name of what the user gave."""
        if self.manifest:
            return self.manifest.title
        return self.source.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]

    @property
    def incomplete(self) -> str:
        """Why the recording holds less than was asked for; empty where it is whole."""
        if self.manifest is None or self.manifest.complete:
            return ""
        return "Incomplete recording: " + " ".join(note.message for note in self.manifest.health if note.code != "no_shapes")

    @property
    def digest(self) -> str:
        """The first twelve digits of the trace file's SHA-256."""
        return self.source.files[0].sha256[:12]


@dataclass(frozen=True, eq=False)
class DetailPass:
    """What only the detail pass of a run tells; page one and the findings know nothing of it, for its steps are slower.

    `sections`: with the steps of the pass; `missing`: why it could not be used, half a sentence, and then there is no recording.
    """

    recording: Recording | None
    sections: tuple[Section, ...]
    missing: str

    def result(self, name: str) -> Any:
        """As of a Report."""
        return next((section.result for section in self.sections if section.name == name), None)


@dataclass(frozen=True, eq=False)
class Report:
    """One report; `recordings`: one for a run, before and after for a diff.

    `ranks`: of a run with several ranks, the report on each of them, in their order; this one explains the first recording's.
    """

    kind: Literal["run", "diff"]
    verdict: Verdict
    findings: tuple[Finding, ...]
    sections: tuple[Section, ...]
    recordings: tuple[Recording, ...]
    version: str
    together: tuple[Together, ...] = ()  # of a run: the predicted step with the first findings fixed at once
    ranks: tuple["Report", ...] = ()
    sides: tuple[tuple[Recording, ...], ...] = ()  # of a diff: all runs before, all after; `recordings` are the typical ones
    now: Verdict | None = None  # of a diff: what limits the step of the second side
    anyway: bool = False  # of a diff: whether changes are told of runs that differ in what decides their speed, too
    detail: DetailPass | None = None  # of a run: where sections are missing that its detail pass can give

    @property
    def told(self) -> bool:
        """Of a diff, whether changes are told: not of runs that cannot be compared, unless that was asked for."""
        found = self.result("comparability")
        return self.anyway or found is None or found.comparable

    @property
    def rank(self) -> int:
        """The rank that is explained."""
        return self.recordings[0].source.rank or 0

    @property
    def which_rank(self) -> str:
        """`rank 1 (TP01) of 2`; empty where there are no others."""
        return f"rank {self.recordings[0].rank_and_name} of {len(self.ranks)}" if self.ranks else ""

    @property
    def merged(self) -> bool:
        """Whether all ranks stand in one file."""
        files = [other.recordings[0].source.files for other in self.ranks]
        return len(files) > 1 and files.count(files[0]) == len(files)

    @property
    def shown_sections(self) -> tuple[Section, ...]:
        """Those with a result, in the order of the report; what only the detail pass tells is in its place."""
        return tuple(s for own in self.sections for s in (own, self._in_detail(own)) if s is not None and s.result is not None)

    def is_of_detail(self, section: Section) -> bool:
        """Whether the detail pass tells it."""
        return self.detail is not None and section in self.detail.sections

    def _in_detail(self, own: Section) -> Section | None:
        """What stands in the place of a section that the recording cannot give."""
        others = self.detail.sections if self.detail and own.result is None else ()
        return next((section for section in others if section.name == own.name), None)

    def result(self, name: str) -> Any:
        """The result of an analysis by its name, None where data were missing; never that of the detail pass."""
        return next((section.result for section in self.sections if section.name == name), None)


def run_report(sections: tuple[Section, ...], trace: Trace, detail: Detail | None = None) -> Report:
    """The report on one trace, from its sections; what they found odd in it stands with the trouble of its file."""
    made = _report("run", run_verdict(sections), sections, [_noted(sections, trace)])
    return replace(made, together=together(sections), detail=detail and _detail_pass(detail))


def _noted(sections: Sequence[Section], trace: Trace) -> Trace:
    """The trace, with what its sections found odd among its warnings."""
    more = (_spoken(warning) for section in sections for warning in section.warnings)
    by_code = {warning.code: warning for warning in (*more, *trace.warnings)}  # of two with one code the file's own
    order = dict.fromkeys([w.code for w in trace.warnings] + list(by_code))
    return replace(trace, warnings=tuple(by_code[code] for code in order))


def _detail_pass(detail: Detail) -> DetailPass:
    recording = _recording(_noted(detail.sections, detail.trace)) if detail.trace else None
    return DetailPass(recording, detail.sections, detail.missing)


def _spoken(warning: TraceWarning | Caution) -> TraceWarning:
    return warning if isinstance(warning, TraceWarning) else TraceWarning(warning.code, warning.count, sentence(warning.message))


def of_ranks(reports: Sequence[Report], shown: int, across: tuple[Section, ...]) -> Report:
    """The report on one rank of several, with what was asked of all of them first; each speaks of the others, too."""
    told = tuple(_beside_others(report, across) for report in reports)
    return replace(told[shown], sections=(*across, *told[shown].sections), ranks=told)


def _beside_others(report: Report, across: tuple[Section, ...]) -> Report:
    findings = findings_of_ranks(report.findings, report.rank, across)
    verdict = run_verdict_of_ranks(report.sections, findings, across)
    return replace(report, verdict=verdict, findings=findings, together=of_these(report.together, findings, report.findings))


def diff_report(sections: tuple[Section, ...], before: Side, after: Side, anyway: bool = False) -> Report:
    """The report on two sides, from the sections of their comparison; `anyway`: also where they are not comparable."""
    told = _report("diff", diff_verdict(sections, anyway), sections, [typical(before), typical(after)])
    by_steps = told.result("step_change") is not None
    return replace(
        told,
        sides=tuple(tuple(map(_recording, side)) for side in (before, after)),
        anyway=anyway,
        now=run_verdict(explained(typical(after))) if by_steps else None,
    )


def _report(kind: Literal["run", "diff"], verdict: Verdict, sections: tuple[Section, ...], traces: Sequence[Trace]) -> Report:
    findings = ranked(finding for section in sections for finding in section.findings)
    return Report(kind, verdict, findings, sections, tuple(map(_recording, traces)), version("longpole"))


def _recording(trace: Trace) -> Recording:
    recorded_with = trace.manifest.versions.get("torch") if trace.manifest else None
    return Recording(
        source=trace.source,
        manifest=trace.manifest,
        origin_ns=trace.origin_ns,
        window_ns=trace.window_ns,
        coverage=trace.coverage,
        warnings=trace.warnings,
        form=forms.form(trace),
        withheld=forms.withheld(trace),
        whole_steps=trace.whole_steps,
        torch=recorded_with or (torch_version(trace.snapshot) if trace.snapshot else None),
    )
