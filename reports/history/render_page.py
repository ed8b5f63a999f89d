"""HistoryReport -> one page: a self-contained HTML file, or a tagged A4 PDF, as bytes."""

from datetime import UTC, datetime

from ...analyze.change_points import CHANCE, LEAST_RUNS, LEAST_SIDE
from ...analyze.history import History
from .. import formats as f
from ..charts import Chart
from ..page import rendered
from ..prose import sentence
from ..render_pdf import pdf_of
from ..svg import HTML, PDF, Medium
from .figure import history_chart
from .lines import history_table
from .model import HistoryReport
from .render_json import render_json

MOST_RUNS = {HTML: 200, PDF: 20}  # in the table; on paper they are all on one page
LIMITS = {"chance": CHANCE, "least_runs": LEAST_RUNS, "least_side": LEAST_SIDE}


def render_html(report: HistoryReport) -> bytes:
    return _page(report, HTML)[0].encode("utf-8")


def render_pdf(report: HistoryReport) -> bytes:
    """The same page, set for paper; all numbers are attached as JSON. RenderError without Pango."""
    text, chart = _page(report, PDF)
    return pdf_of(text, {chart.id: chart}, _created(report.found), render_json(report))


def _page(report: HistoryReport, medium: Medium) -> tuple[str, Chart]:
    found, chart = report.found, history_chart(report.found, medium)
    when, count = _created(found), len(found.runs)
    runs = f"{f.count(count)} {'run' if count == 1 else 'runs'}"
    context = {
        "report": report,
        "title": f"History of {runs}: {sentence(report.verdict.sentence)}",
        "short": " · ".join(filter(None, (f"History of {runs}", when.date().isoformat() if when else ""))),
        "created": when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else "",
        "digests": runs,
        "toc": [("summary", "What changed"), ("runs", "Runs"), ("method", "Method")],
        "chart": chart,
        "how": _how(found),
        "history": history_table(found, MOST_RUNS[medium]),
        "limits_of_history": LIMITS,
    }
    return rendered("history.html.j2", medium, context), chart


def _how(found: History) -> str:
    """To read the chart."""
    told = [
        "A dot a run, with the 95\u202f% interval over its steps as far as there is room; a line at the mean of each stretch."
    ]
    if found.changes.points:
        told.append("Dashed where that changes, with a thick line over all places that the change may have.")
    if found.breaks:
        told.append("Grey where runs do not compare.")
    return " ".join(told)


def _created(found: History) -> datetime | None:
    """When the last run was captured: a page has no date of its own, so that the same runs give the same bytes."""
    if not found.by_time:
        return None
    moment = datetime.fromisoformat(found.runs[-1].captured_at or "")
    return (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)).replace(microsecond=0)
