"""What an input lost stands at the top of every report, what did no harm with the coverage, and all of it in the JSON."""

import io
from collections import Counter
from dataclasses import replace

import pytest
from make_report import diff_report_on, report_on, training
from make_trace import make_trace
from read_html import Html
from rich.console import Console

from longpole.analyze.trace import Coverage, Trace, TraceWarning
from longpole.reports.headline import coverage_line, loss_lines
from longpole.reports.model import Report
from longpole.reports.render_html import render_html
from longpole.reports.render_json import summary
from longpole.reports.render_markdown import render_markdown
from longpole.reports.render_terminal import TerminalReport

HARMLESS = TraceWarning("trailing_empty_event", 1, "The list ends with an empty event, which is ignored.", harmless=True)
LOST = TraceWarning("missing_dur", 3, "3 events have no duration and are left out.")
CUT_OFF = TraceWarning("truncated", 1, "The file was cut off; steps after the last whole one are missing.")
WHOLE = make_trace(training())


def damaged(*warnings: TraceWarning) -> Trace:
    return replace(WHOLE, warnings=warnings)


def terminal(report: Report, colour: bool = False) -> str:
    console = Console(width=200, file=io.StringIO(), highlight=False, force_terminal=colour)
    console.print(TerminalReport(report))
    return console.file.getvalue()  # type: ignore[attr-defined]


REPORT = report_on(damaged(HARMLESS, LOST, CUT_OFF))


def test_a_file_that_was_cut_off_comes_first():
    assert loss_lines(REPORT) == [CUT_OFF.message, LOST.message]


def test_a_terminal_shows_losses_before_the_numbers_and_the_harmless_at_the_end():
    lines = [line.strip() for line in terminal(REPORT).split("\n") if line.strip()]
    assert lines[2:4] == [CUT_OFF.message, LOST.message]
    assert lines[-1] == HARMLESS.message
    assert f"\x1b[33m{LOST.message}" in terminal(REPORT, colour=True)
    assert f"\x1b[2m{HARMLESS.message}" in terminal(REPORT, colour=True)


def test_a_page_shows_losses_above_its_numbers_and_the_harmless_with_the_coverage():
    page = Html(render_html(REPORT).decode("utf-8")).lines
    place = {text: page.index(text) for text in (CUT_OFF.message, LOST.message, HARMLESS.message, "Method and coverage")}
    numbers = next(i for i, line in enumerate(page) if line.startswith("Step time, mean"))
    assert place[CUT_OFF.message] < place[LOST.message] < numbers < place[HARMLESS.message]
    assert page.index(HARMLESS.message) > max(i for i, line in enumerate(page) if line == "Method and coverage")
    assert page.count(LOST.message) == 1


def test_a_page_without_losses_has_no_box_for_them():
    assert 'class="losses"' not in render_html(report_on(damaged(HARMLESS))).decode("utf-8")


def test_markdown_shows_losses_above_its_numbers_and_the_harmless_in_small_print():
    text = render_markdown(REPORT).decode("utf-8")
    assert f"**{CUT_OFF.message}**\n\n**3 events have no duration" in text
    assert text.index("**3 events") < text.index("| Step time, mean")
    assert HARMLESS.message in text[text.index("<sub>") :]


def test_a_diff_says_which_side_lost_what():
    report = diff_report_on(damaged(CUT_OFF), damaged(LOST))
    assert loss_lines(report) == [f"Before: {CUT_OFF.message}", f"After: {LOST.message}"]
    for text in (render_html(report).decode("utf-8"), terminal(report), render_markdown(report).decode("utf-8")):
        assert f"Before: {CUT_OFF.message}" in text


def test_the_json_says_which_warnings_are_harmless():
    assert [(w["code"], w["count"], w["harmless"]) for w in summary(REPORT)["warnings"][:3]] == [
        ("trailing_empty_event", 1, True), ("missing_dur", 3, False), ("truncated", 1, False),
    ]  # fmt: skip


@pytest.fixture
def repaired() -> Report:
    coverage = Coverage(10, 5, 2, 1, Counter(cpu_op=10), repaired=2, health={"missing_dur": 1, "unmatched_end": 2})
    return report_on(replace(WHOLE, coverage=coverage))


def test_repaired_events_are_told_where_there_are_any(repaired: Report):
    line = coverage_line(repaired, repaired.recordings[0])
    assert line.startswith("10 events read: 5 used, 2 repaired, 2 ignored (metadata, flows, unknown kinds), 1 dropped. ")
    assert "repaired" not in coverage_line(REPORT, REPORT.recordings[0])


def test_the_json_adds_repaired_events_up_and_has_the_health_counts_in_both_places(repaired: Report):
    made = summary(repaired)
    assert made["coverage"]["events_repaired"] == 2
    assert made["coverage"]["events_repaired_or_dropped"] == 3
    for part in ("coverage", "measures"):
        assert (made[part]["missing_dur"], made[part]["unmatched_end"]) == (1, 2)
