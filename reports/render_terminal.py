"""Report -> text for a terminal: verdict, headline numbers, what to change, top rows."""

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from .call_rows import call_table
from .headline import Change, coverage_line, headlines, loss_lines, now_line, runs_line, step_changes, together_lines
from .model import Report
from .outcome_rows import OutcomeRow, outcome_lines, outcome_rows
from .prose import sentence
from .saving_words import saving_text
from .svg import clean
from .tables import TableView, table
from .total_tables import total_change_tables, total_tables

MOST_ROWS = 12
NARROW_WIDTH = 72  # columns of a terminal: below, the before/after table has no room
EASY_NAME = 20  # columns: enough to tell most names apart
LEAST_NAME = 4  # columns: a letter or two of a name, and the ellipsis
COLOURS = {"faster": "cyan", "slower": "yellow", "changed": "bold", "within noise": "dim", "": ""}


class TerminalReport:
    """Prints itself on a rich console; names from the trace are plain text, never markup."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        report = self.report
        yield Text(sentence(report.verdict.sentence), style="bold")
        yield Text(sentence(report.verdict.lede))
        for recording in report.recordings:
            if recording.incomplete:
                yield Text(recording.incomplete, style="yellow")
        for line in loss_lines(report):
            yield Text(clean(line), style="yellow")
        yield Text("")
        yield from _run(report, options.max_width) if report.kind == "run" else _diff(report, options.max_width)
        for recording in report.recordings:
            yield Text(coverage_line(report, recording), style="dim")
            for warning in recording.harmless:
                yield Text(clean(warning.message), style="dim")


def _run(report: Report, width: int) -> list[RenderableType]:
    numbers = Table.grid(padding=(0, 2))
    for h in headlines(report):
        numbers.add_row(
            Text(h.label), Text(f"{h.value} {h.unit}".strip(), style="bold", justify="right"), Text(h.note, style="dim")
        )
    parts: list[RenderableType] = [numbers, Text("")]
    if (across := report.result("ranks")) is not None:
        heads = {"rank": "Rank", "window_ns": "Recording", "steps_count": "Steps", "mean_ns": "Step, mean", "busy_ns": "GPU busy"}
        if across.waits_told:
            heads["wait_ns"] = "Waits"
        explained = f"All else here is about rank {report.recordings[0].rank_and_name}."
        parts += [grid(table(across.rows, heads), width), Text(explained, style="dim"), Text("")]
    for _, view in total_tables(report, MOST_ROWS):
        parts += [grid(view, width), Text("")]
    if report.findings:
        parts += [_findings(report), *map(Text, together_lines(report)), Text("")]
    if (on_gpu := report.result("buckets")) is not None and on_gpu.told:
        of = ("Per step", "Of the step") if on_gpu.marked else ("Time", "Of the recording")
        parts += [grid(table(on_gpu.whole, {"label": "GPU", "mean_ns": of[0], "step_share": of[1]}), width), Text("")]
    phases, rows, gpu = report.result("phases"), report.result("bottlenecks"), report.result("gpu_kernels")
    if phases is not None and phases.marked:
        heads = {"phase": "Phase", "mean_ns": "Per step", "phase_share": "Of the step"}
        parts += [grid(table(phases.ranked, heads), width), Text("")]
    if rows is not None:
        heads = {"name": "Operator", "phase": "Phase", "self_ns": "Self per step", "step_share": "Of the step"}
        parts += [grid(table(rows.labelled, heads, limit=MOST_ROWS), width), Text("")]
    if gpu is not None:
        heads = {"short_name": "Kernel", "count": "Calls", "total_ns": "Total", "total_share": "Of GPU work"}
        parts += [grid(table(gpu.kernels, heads, limit=MOST_ROWS), width), Text("")]
    return parts


def _findings(report: Report) -> Table:
    rows = _empty("#", "What to change", ("Step time", True), "Confidence")
    for i, finding in enumerate(report.findings, 1):
        rows.add_row(str(i), Text(sentence(finding.title)), Text(saving_text(finding)), finding.confidence)
    return rows


def _diff(report: Report, width: int) -> list[RenderableType]:
    changes = step_changes(report)
    if totals := report.result("total_changes"):
        tables = [grid(view, width) for _, view in total_change_tables(totals, MOST_ROWS)]
        return [*map(_change_line, changes), Text(""), *(part for shown in tables for part in (shown, Text("")))]
    if not changes:
        return []
    steps = [_change_line(c) for c in changes] if width < NARROW_WIDTH else [_change_table(changes)]
    heads = {"name": "Phase", "before_ns": "Before", "after_ns": "After", "change_ns": "Change", "status": "Verdict"}
    phases = table(report.result("phase_changes").rows, heads, unit_of="before_ns")
    calls = call_table(report.result("call_changes").rows)
    runs = Text(runs_line(report), style="dim")
    now = [Text(now_line(report)), Text("")] if now_line(report) else []
    return [*steps, runs, Text(""), *_outcome(report), *now, grid(phases, width), Text(""), grid(calls, width), Text("")]


def _outcome(report: Report) -> list[RenderableType]:
    lines = [Text(line) for line in outcome_lines(report)]
    return [*lines, *map(_outcome_line, outcome_rows(report)), Text("")] if lines else []


def _outcome_line(r: OutcomeRow) -> Text:
    predicted = f"predicted {r.predicted}" + (f" ({r.possible})" if r.possible else "") if r.predicted else ""
    measured = f"measured {r.measured}" + (f" ({r.interval})" if r.interval else "") if r.measured else ""
    known = "; ".join(filter(None, (r.now, predicted, measured, r.word)))
    return Text(f"{r.label}: {known}" if r.now else f"  {r.label}: {known}", style="" if r.now else "dim")


def _change_table(changes: list[Change]) -> Table:
    steps = _empty("Per step", ("Before", True), ("After", True), ("Change", True), ("95 % interval", True), "Verdict")
    for c in changes:
        steps.add_row(
            c.label, c.before, c.after, Text(f"{c.change} ({c.relative})"), c.interval, Text(c.word, style=COLOURS[c.word])
        )
    return steps


def _change_line(c: Change) -> Text:
    """The same in words, where a table would cut its numbers."""
    interval = f", 95 % {c.interval}, {c.word}" if c.interval else ""
    return Text(f"{c.label}: {c.before} → {c.after}, {c.change} ({c.relative}){interval}")


def _empty(*heads: str | tuple[str, bool]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        text, numeric = head if isinstance(head, tuple) else (head, False)
        shown.add_column(text, justify="right" if numeric else "left", no_wrap=numeric, overflow="ellipsis")
    return shown


def grid(view: TableView, width: int) -> Table:
    """As wide as the terminal allows; names may be cut, numbers not."""
    gap = 1 if width < NARROW_WIDTH else 2
    shown = Table(box=None, padding=(0, gap, 0, 0), header_style="dim")
    for head, column_width in zip(view.heads, _widths(view, width, gap), strict=True):
        shown.add_column(Text(head.text), justify="right" if head.numeric else "left", width=column_width, vertical="bottom")
    for row in view.rows:
        shown.add_row(*[Text(cell, no_wrap=True, overflow="ellipsis") for cell in row])
    return shown


def _widths(view: TableView, width: int, gap: int) -> list[int]:
    """Numbers take what they need; names share the rest, the short ones first. Heads wrap where names would suffer."""
    columns = [[head.text, *(row[i] for row in view.rows)] for i, head in enumerate(view.heads)]
    whole = [max(map(cell_len, column)) for column in columns]
    wrapped = [max(map(cell_len, [*column[0].split(), *column[1:]])) for column in columns]
    names = sorted((i for i, head in enumerate(view.heads) if not head.numeric), key=lambda i: whole[i])

    def room(widths: list[int]) -> int:
        """What is left for names."""
        return width - gap * len(widths) - sum(w for w, head in zip(widths, view.heads, strict=True) if head.numeric)

    widths = whole if room(whole) >= EASY_NAME * len(names) else wrapped
    left, shared = room(widths), list(widths)
    for names_left, i in zip(range(len(names), 0, -1), names, strict=True):
        shared[i] = max(LEAST_NAME, min(whole[i], left // names_left))
        left -= shared[i]
    return shared


def verdict_line(report: Report) -> Group:
    """The verdict alone, for commands that write files."""
    of = [Text(f"This is about {report.which_rank}.", style="dim")] if report.ranks else []
    told = [Text(line) for line in outcome_lines(report)]
    return Group(Text(sentence(report.verdict.sentence), style="bold"), Text(sentence(report.verdict.lede)), *told, *of)
