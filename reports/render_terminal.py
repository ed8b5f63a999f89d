"""Report -> text for a terminal: verdict, headline numbers, what to change, top rows."""

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from . import formats as f
from .headline import coverage_line, headlines, step_changes
from .model import Report
from .prose import sentence
from .tables import TableView, table

MOST_ROWS = 12
COLOURS = {"faster": "cyan", "slower": "yellow", "changed": "bold", "within noise": "dim", "": ""}


class TerminalReport:
    """Prints itself on a rich console; names from the trace are plain text, never markup."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report = self.report
        yield Text(sentence(report.verdict.sentence), style="bold")
        yield Text(sentence(report.verdict.lede))
        yield Text("")
        yield from _run(report) if report.kind == "run" else _diff(report)
        for recording in report.recordings:
            yield Text(coverage_line(recording), style="dim")
            for warning in recording.warnings:
                yield Text(warning.message, style="yellow")


def _run(report: Report) -> list[RenderableType]:
    numbers = Table.grid(padding=(0, 2))
    for h in headlines(report):
        numbers.add_row(
            Text(h.label), Text(f"{h.value} {h.unit}".strip(), style="bold", justify="right"), Text(h.note, style="dim")
        )
    parts: list[RenderableType] = [numbers, Text("")]
    if report.findings:
        parts += [_findings(report), Text("")]
    rows, gpu = report.result("bottlenecks"), report.result("gpu_kernels")
    if rows is not None:
        named = rows.rows.assign(name=rows.rows["name"].replace("", "(outside operators)"))
        heads = {"name": "Operator", "phase": "Phase", "self_ns": "Self per step", "step_share": "Of the step"}
        parts += [_grid(table(named, heads, limit=MOST_ROWS)), Text("")]
    if gpu is not None:
        heads = {"short_name": "Kernel", "count": "Calls", "total_ns": "Total", "total_share": "Of GPU work"}
        parts += [_grid(table(gpu.kernels, heads, limit=MOST_ROWS)), Text("")]
    return parts


def _findings(report: Report) -> Table:
    grid = _empty("#", "What to change", ("Step time", True), "Confidence")
    for i, finding in enumerate(report.findings, 1):
        grid.add_row(str(i), Text(sentence(finding.title)), Text(f.time(-finding.saving_ns)), finding.confidence)
    return grid


def _diff(report: Report) -> list[RenderableType]:
    steps = _empty("Per step", ("Before", True), ("After", True), ("Change", True), ("95 % interval", True), "Verdict")
    for c in step_changes(report):
        steps.add_row(
            c.label, c.before, c.after, Text(f"{c.change} ({c.relative})"), c.interval, Text(c.word, style=COLOURS[c.word])
        )
    heads = {"name": "Phase", "before_ns": "Before", "after_ns": "After", "change_ns": "Change", "status": "Verdict"}
    rows = report.result("phase_changes").rows
    phases = table(rows.assign(status=rows["status"].str.replace("_", " ")), heads, unit_of="before_ns")
    return [steps, Text(""), _grid(phases), Text("")]


def _empty(*heads: str | tuple[str, bool]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        text, numeric = head if isinstance(head, tuple) else (head, False)
        grid.add_column(text, justify="right" if numeric else "left", no_wrap=numeric, overflow="ellipsis")
    return grid


def _grid(view: TableView) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, head in enumerate(view.heads):
        needed = (
            max(len(head.text), *(len(row[i]) for row in view.rows), 0) if head.numeric else 8
        )  # names may be cut, numbers not
        align = "right" if head.numeric else "left"
        grid.add_column(Text(head.text), justify=align, no_wrap=True, overflow="ellipsis", min_width=needed)
    for row in view.rows:
        grid.add_row(*[Text(cell) for cell in row])
    return grid


def verdict_line(report: Report) -> Group:
    """The verdict alone, for commands that write files."""
    return Group(Text(sentence(report.verdict.sentence), style="bold"), Text(sentence(report.verdict.lede)))
