"""Report -> Markdown for a pull request: verdict, numbers, changes, and a folded table."""

from collections.abc import Iterable

from ..analyze.diffs.total_changes import TotalChanges
from . import formats as f
from .call_rows import call_table
from .headline import coverage_line, headlines, loss_lines, now_line, provenance, runs_line, step_changes, together_lines
from .model import Recording, Report
from .outcome_rows import HEADS, NOTE, outcome_lines, outcome_rows
from .prose import sentence
from .saving_words import range_text, saving_text
from .svg import clean
from .tables import TableView, table
from .total_tables import total_change_tables, total_tables

MOST_ROWS = 15
FACT_HEADS = {"fact": "Fact", "before": "Before", "after": "After", "status": "Status"}
MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]|#~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def render_markdown(report: Report) -> bytes:
    """Short enough to read in a comment; UTF-8."""
    body = _run(report) if report.kind == "run" else _diff(report)
    names = " → ".join(recording.name for recording in report.recordings)
    parts = [
        f"## {escaped(sentence(report.verdict.sentence))}",
        " · ".join(filter(None, (f"**{escaped(report.verdict.tag)}**", escaped(names), escaped(report.which_rank)))),
        escaped(sentence(report.verdict.lede)),
        *[f"**{escaped(recording.incomplete)}**" for recording in report.recordings if recording.incomplete],
        *[f"**{escaped(line)}**" for line in loss_lines(report)],
        *body,
        f"<sub>{escaped(' '.join(_coverage(report, recording) for recording in report.recordings))} longpole {report.version}, "
        f"{escaped(', '.join(f'{r.source.files[0].name} sha256 {r.digest}' for r in report.recordings))}</sub>",
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8")


def _coverage(report: Report, recording: Recording) -> str:
    return " ".join([coverage_line(report, recording), *(warning.message for warning in recording.harmless)])


def escaped(text: str) -> str:
    """Names from a trace are text, never markup."""
    return clean(text).translate(MARKUP)


def _run(report: Report) -> list[str]:
    numbers = _table(["", "", ""], [(h.label, f"{h.value}{f.NARROW}{h.unit}".strip(), h.note) for h in headlines(report)])
    totals = [_folded(title, view) for title, view in total_tables(report, MOST_ROWS)]
    facts = _folded_facts("Provenance", provenance(report)[0])
    return [numbers, _withheld(report), _findings(report), *_step_tables(report), *totals, facts]


def _step_tables(report: Report) -> list[str]:
    phases, rows, on_gpu = report.result("phases"), report.result("bottlenecks"), report.result("buckets")
    tables = []
    if on_gpu is not None and on_gpu.told:
        what = "step" if on_gpu.marked else "recording"
        heads = {"label": "GPU", "mean_ns": "Per step" if on_gpu.marked else "Time", "step_share": f"Share of the {what}"}
        tables.append(_folded(f"Where the {what} goes on the GPU", table(on_gpu.whole, heads)))
    if phases is not None:
        heads = {"phase": "Phase", "mean_ns": "Per step", "phase_share": "Share of the step"}
        tables.append(_folded("Phases", table(phases.ranked, heads)))
    if rows is not None:
        heads = {"name": "Operator", "phase": "Phase", "self_ns": "Self time per step", "step_share": "Share of the step"}
        tables.append(_folded("Largest costs", table(rows.labelled, heads, limit=MOST_ROWS)))
    return tables


def _withheld(report: Report) -> str:
    return escaped(" ".join(dict.fromkeys(r.withheld for r in report.recordings if r.withheld)))


def _findings(report: Report) -> str:
    findings = report.findings
    if not findings:
        return ""
    rows = [(str(i), sentence(x.title), saving_text(x), range_text(x), x.confidence) for i, x in enumerate(findings, 1)]
    changes = _table(["#", "Change", "Step time", "Possible range", "Confidence"], rows)
    return "\n\n".join(["### What to change", changes, *map(escaped, together_lines(report))])


def _diff(report: Report) -> list[str]:
    if not report.told:
        return [_folded("Are the runs comparable?", table(report.result("comparability").known, FACT_HEADS))]
    if totals := report.result("total_changes"):
        return [*_total_changes(report, totals), _withheld(report)]
    if report.result("step_change") is None:
        return [_withheld(report)]
    rows = [(c.label, c.before, c.after, c.change, c.relative, c.interval, c.word) for c in step_changes(report)]
    steps = _table(["Per step", "Before", "After", "Change", "Relative", f"95{f.NARROW}% interval", "Verdict"], rows)
    heads = {"before_ns": "Before", "after_ns": "After", "change_ns": "Change", "status": "Verdict"}
    rows, ops = report.result("phase_changes").rows, report.result("op_changes").ops
    phases = _folded("Phases", table(rows, {"name": "Phase", **heads}, unit_of="before_ns"))
    ops = _folded("Operators", table(ops, {"name": "Operator", **heads}, limit=MOST_ROWS, unit_of="before_ns"))
    calls = _folded("Calls that explain the change", call_table(report.result("call_changes").rows))
    return [steps, escaped(runs_line(report)), *_outcome(report), escaped(now_line(report)), phases, calls, ops]


def _outcome(report: Report) -> list[str]:
    """What became of the findings, and whether the changes saved what was predicted."""
    rows = [(r.label, r.now, r.predicted, r.possible, r.measured, r.interval, r.word) for r in outcome_rows(report)]
    told = [_table(list(HEADS), rows), escaped(NOTE)] if rows else []
    return (
        ["### Did the changes save what was predicted?", *map(escaped, lines), *told] if (lines := outcome_lines(report)) else []
    )


def _total_changes(report: Report, totals: TotalChanges) -> list[str]:
    rows = [(c.label, c.before, c.after, c.change, c.relative) for c in step_changes(report)]
    sums = _table(["Per step" if totals.per_step else "Whole recording", "Before", "After", "Change", "Relative"], rows)
    return [sums, *(_folded(title, view) for title, view in total_change_tables(totals, MOST_ROWS))]


def _folded(title: str, view: TableView) -> str:
    return f"<details><summary>{title}</summary>\n\n{_table([head.text for head in view.heads], view.rows)}\n\n</details>"


def _folded_facts(title: str, facts: list[tuple[str, str]]) -> str:
    return f"<details><summary>{title}</summary>\n\n{_table(['', ''], facts)}\n\n</details>"


def _table(heads: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ["---"] * len(heads), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
