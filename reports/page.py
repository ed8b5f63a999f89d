"""Report and medium -> the HTML of its page, for the browser or for the PDF, and the charts that the PDF fetches by name."""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup, escape

from ..analyze import statistics, step_marks
from ..analyze.analyses.bottlenecks import TINY_NS
from ..analyze.analyses.readbacks import LOOP_COUNT
from ..analyze.analyses.repeated_ops import MANY_CALLS, SMALL_NS
from ..analyze.diffs.fates import SMALLER_SHARE
from ..analyze.diffs.step_change import VERDICT_STEPS
from ..analyze.forms import LEGACY_NOTE
from ..analyze.launch_queue import QUEUE_EMPTY_NS
from ..analyze.replay.quality import MOST_STRUCTURAL
from ..analyze.run import Section
from . import formats, headline, palette, tables
from .call_rows import call_view
from .change_tables import MOST_ROWS, change_view, memory_view
from .charts import Chart
from .figures import figures
from .model import Recording, Report
from .outcome_rows import HEADS, NOTE, fate_rows, outcome_lines, outcome_rows
from .prose import sentence
from .saving_words import BOUND_NAMES, excerpt_line, no_more, quality_line
from .svg import Medium, clean
from .total_tables import change_table

FONTS = (("Inter", 400, "Inter-Regular"), ("Inter", 600, "Inter-SemiBold"), ("JetBrains Mono", 400, "JetBrainsMono-Regular"))
VERDICT_COLOURS = {
    "faster": "good", "slower": "bad", "within noise": "dim", "": "",
    "as predicted": "good", "more than predicted": "good", "less than predicted": "bad", "cannot be told": "dim",
}  # fmt: skip
BREAK_AFTER = ("::", "_", "<", ",", "/", ".")  # where a long identifier may break, without a hyphen
ON_PAGE_ONE = ("step_change", "outcome", "phase_changes", "comparability")  # of a diff; a print of two pages is read
STEP_NOTE = "Mean step; the parts add up to it."
RECORDING_NOTE = "The whole recording; the parts add up to it."
SIDES = ("Before", "After")
FIGURE_NOTES = {  # how to read each figure of page one of a run, in their order
    "buckets": "",
    "step": "",
    "gpu": "Sum over all streams; the whole recording.",
    "steps": "One column a step, in the order they ran.",
    "device": "Added up by name; work that overlaps counts each time.",
    "host": "Time in which a name is the innermost of its thread, all threads added up.",
    "ops": "Self time added up by name, over all threads.",
    "asynchronous": "Added up by name; these ranges begin and end anywhere and may overlap.",
}
EARLIEST_NS = 10**18  # 2001: an origin below this is no absolute time but that of a file without one


def page(report: Report, medium: Medium, change_rows: int = MOST_ROWS) -> tuple[str, dict[str, Chart]]:
    """The page as text. In HTML it is whole; for the PDF style, fonts and charts come from `pdf_style` and the charts.

    `change_rows`: at most so many in each table of what changed.
    """
    charts, captions = figures(report, medium)
    context = {"charts": charts, "captions": captions, "most_changes": change_rows, **_context(report, medium)}
    return rendered(f"{report.kind}.html.j2", medium, context), charts


def rendered(template: str, medium: Medium, context: Mapping[str, object]) -> str:
    """A page; for the browser with all that it needs inside."""
    inside = {} if medium.pdf else {"css": Markup(_screen_style()), "js": Markup(file_of("report.js").decode("utf-8"))}
    return _environment(medium.pdf).get_template(template).render(**inside, **context)


def file_of(name: str) -> bytes:
    """A file of the templates folder."""
    return resources.files("longpole.templates").joinpath(name).read_bytes()


def created(report: Report) -> datetime | None:
    """When the last trace was captured: a report has no date of its own, so that the same input gives the same bytes."""
    return max(filter(None, (_captured(recording) for recording in report.recordings)), default=None)


def pdf_style() -> str:
    """The style sheet of the PDF; fonts are fetched as `font:NAME`."""
    return _font_faces("font:{}".format) + palette.css_tokens() + _style("report.css", "print.css")


def _screen_style() -> str:
    def inline(name: str) -> str:
        return "data:font/woff2;base64," + base64.b64encode(file_of(f"fonts/{name}.subset.woff2")).decode("ascii")

    return _font_faces(inline) + palette.css_tokens() + palette.css_charts() + _style("report.css", "screen.css")


def _style(*names: str) -> str:
    return "".join(file_of(name).decode("utf-8") for name in names)


def _font_faces(address: Callable[[str], str]) -> str:
    return "".join(
        f'@font-face{{font-family:"{family}";font-weight:{weight};src:url({address(name)}) format("woff2")}}\n'
        for family, weight, name in FONTS
    )


@cache
def _environment(pdf: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("longpole.templates", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sentence": sentence,
        "time": formats.time,
        "share": formats.share,
        "count": formats.count,
        "ratio": formats.ratio,
        "by_suffix": formats.by_suffix,
        "clipped": tables.clipped,
        "breakable": breakable,
        "coverage": lambda recording, report: headline.coverage_line(report, recording),
    }
    environment.globals |= {
        "pdf": pdf, "narrow": formats.NARROW, "table": tables.table, "colour": VERDICT_COLOURS, "limits": _limits(),
        "interval": formats.interval, "legacy_note": LEGACY_NOTE, "change_table": change_table, "fate_rows": fate_rows,
        "call_view": call_view, "change_view": change_view, "memory_view": memory_view,
        "quality_line": quality_line, "no_more": no_more, "excerpt_line": excerpt_line, "bound_names": BOUND_NAMES,
    }  # fmt: skip
    return environment


def _printable(value: object) -> object:
    """Text without characters that a page cannot show, or that turn the direction of what follows."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _limits() -> dict[str, float]:
    """The constants that the text mentions."""
    return {
        "outlier_factor": step_marks.OUTLIER_FACTOR,
        "tiny_ns": TINY_NS,
        "many_calls": MANY_CALLS,
        "small_ns": SMALL_NS,
        "loop_count": LOOP_COUNT,
        "min_steps": statistics.MIN_STEPS,
        "verdict_steps": VERDICT_STEPS,
        "groups": statistics.GROUPS,
        "smaller": SMALLER_SHARE,
        "queue_empty_ns": QUEUE_EMPTY_NS,
        "structural": MOST_STRUCTURAL,
    }


def _context(report: Report, medium: Medium) -> dict[str, object]:
    when = created(report)
    subject = " → ".join(recording.name for recording in report.recordings)
    title = f"{subject}: {sentence(report.verdict.sentence)}"
    shown_names = {section.name for section in report.shown_sections}
    missing = [(s.title, s.missing) for s in report.sections if s.name not in shown_names]
    missing += [("Detail pass", line)] if (line := headline.detail_missing(report)) else []
    untold = [("Everything else", reason) for reason in dict.fromkeys(r.withheld for r in report.recordings) if reason]
    context: dict[str, object] = {
        "report": report,
        "shown_rank": report.recordings[0].rank_and_name,
        "title": tables.clipped(title),
        "short": " · ".join(filter(None, (tables.clipped(subject), report.which_rank, when.date().isoformat() if when else ""))),
        "created": when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else "",
        "shown": (shown := _shown(report, medium)),
        "toc": _contents(report, shown),
        "missing": missing + untold,
        "losses": headline.loss_lines(report),
        "digests": ", ".join(f"trace {recording.digest}" for recording in report.recordings),
        "provenance": headline.provenance(report),
    }
    return context | (_run_context(report) if report.kind == "run" else _diff_context(report, medium))


def _run_context(report: Report) -> dict[str, object]:
    steps = report.result("steps")
    note = STEP_NOTE if steps and steps.window == "steps" else RECORDING_NOTE
    on_gpu = report.result("buckets")
    by_phase = "Computing by the phase that launched it, idle time by its cause. " if on_gpu and on_gpu.phased else ""
    return {
        "notes": FIGURE_NOTES | {"step": note, "buckets": by_phase + note},
        "headlines": headline.headlines(report),
        "nothing_to_change": headline.nothing_to_change(report),
        "together": headline.together_lines(report),
        "detail": headline.detail_lines(report),
    }


def _diff_context(report: Report, medium: Medium) -> dict[str, object]:
    rows = report.result("comparability").rows
    same = rows.loc[(rows["status"] == "same") & rows["decisive"], "fact"]
    unknown = rows.loc[rows["status"] == "unknown", "fact"]
    differing = rows[rows["status"] == "different"].to_dict("records")
    different = "; ".join(f"{r['fact']} {r['before']} → {r['after']}" for r in differing)
    files = [
        *((side, f"{r.source.files[0].name} {r.digest}") for side, runs in zip(SIDES, report.sides, strict=True) for r in runs),
        ("Report", f"longpole {report.version}"),
    ]  # in print what each recording is stands beside it
    comparison = [("Same", ", ".join(same)), ("Different", different), ("Unknown", ", ".join(unknown))]
    return {
        "step_changes": headline.step_changes(report),
        "runs_line": headline.runs_line(report),
        "now_line": headline.now_line(report),
        "left_out": headline.left_out_lines(report),
        "outcome": {"lines": outcome_lines(report), "heads": HEADS, "rows": outcome_rows(report), "note": NOTE},
        "comparison": [(name, text) for name, text in comparison if text] + ([] if medium.pdf else files),
    }


def _shown(report: Report, medium: Medium) -> list[Section]:
    """Sections with a result; in print without those of a diff that page one has told."""
    told = ON_PAGE_ONE if medium.pdf and report.kind == "diff" else ()
    if not report.told:
        return [section for section in report.sections if section.name == "comparability"]
    return [section for section in report.shown_sections if section.name not in told]


def _contents(report: Report, shown: Sequence[Section]) -> list[tuple[str, str]]:
    findings = [("findings", "What to change, in full")] if report.findings else []
    return [*findings, *((section.name, section.title) for section in shown), ("method", "Method and coverage")]


def breakable(name: str) -> Markup:
    """A long identifier with places to break."""
    text = escape(clean(name))
    for mark in BREAK_AFTER:
        text = text.replace(escape(mark), escape(mark) + Markup("<wbr>"))
    return Markup(text)


def _captured(recording: Recording) -> datetime | None:
    if recording.manifest:
        return datetime.fromisoformat(recording.manifest.captured_at)
    seconds = recording.origin_ns // 10**9
    return datetime.fromtimestamp(seconds, UTC) if recording.origin_ns >= EARLIEST_NS else None
