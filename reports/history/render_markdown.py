"""HistoryReport -> Markdown for a pull request: verdict, numbers, notes, and the table of runs."""

from ..prose import sentence
from ..render_markdown import escaped
from .lines import HistoryTable, Line, history_table
from .model import HistoryReport

MOST_RUNS = 60  # longer comments are not read


def render_markdown(report: HistoryReport) -> bytes:
    """UTF-8."""
    verdict = report.verdict
    parts = [
        f"## {escaped(sentence(verdict.sentence))}",
        f"**{escaped(verdict.tag)}** · {escaped(sentence(verdict.lede))}",
        "\n".join(f"- {escaped(sentence(note))}" for note in verdict.notes),
        _table(history_table(report.found, MOST_RUNS)),
        f"<sub>longpole {report.version}</sub>",
    ]
    return ("\n\n".join(parts) + "\n").encode("utf-8")


def _table(told: HistoryTable) -> str:
    rows = [
        [head.text for head in told.heads],
        ["---:" if head.numeric else "---" for head in told.heads],
        *(_cells(line, len(told.heads)) for line in told.lines),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cells(line: Line, count: int) -> list[str]:
    """Markdown has no cells across columns: words stand in that of the name."""
    return [*map(escaped, line.cells)] if line.cells else ["", f"**{escaped(line.words)}**", *[""] * (count - 2)]
