"""What a terminal shows: every number whole at any width, names as text."""

import io
import re

import pytest
from make_report import KINDS, reports
from rich.console import Console

from longpole.reports.headline import headlines, step_changes
from longpole.reports.prose import sentence
from longpole.reports.render_terminal import TerminalReport, verdict_line
from longpole.reports.tables import table


def shown(kind: str, width: int, colour: bool = False) -> str:
    console = Console(
        width=width, file=io.StringIO(), highlight=False, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(TerminalReport(reports()[kind]))
    return console.file.getvalue()  # type: ignore[attr-defined]


def words(text: str) -> str:
    return " ".join(text.split())


def numbers(*texts: str) -> list[str]:
    return [word for text in texts for word in text.split() if any(c.isdigit() for c in word)]


@pytest.mark.parametrize("width", [200, 80, 60, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_no_line_is_wider_than_the_terminal(kind: str, width: int):
    assert max(map(len, shown(kind, width).split("\n"))) <= width


@pytest.mark.parametrize("width", [200, 80, 60, 40])
@pytest.mark.parametrize("kind", ["bundle", "gpu", "no steps"])
def test_no_number_of_a_run_is_cut(kind: str, width: int):
    report, text = reports()[kind], shown(kind, width).split()
    for number in numbers(*(f"{h.value} {h.unit} {h.note}" for h in headlines(report)), sentence(report.verdict.lede)):
        assert number in text
    for row in table(report.result("bottlenecks").rows, {"self_ns": "", "step_share": ""}, limit=12).rows:
        assert " ".join(row) in words(shown(kind, width))


@pytest.mark.parametrize("width", [200, 80, 72, 60, 40])
@pytest.mark.parametrize("kind", ["diff", "bare diff", "gpu diff"])
def test_no_number_of_a_diff_is_cut(kind: str, width: int):
    report = reports()[kind]
    text = shown(kind, width)
    for c in step_changes(report):
        for number in numbers(c.before, c.after, c.change, c.relative, c.interval):
            assert number.strip("()") in re.sub(r"[(),] ?|,\n", " ", text.replace("\u202f", " ")), number
    rows = table(
        report.result("phase_changes").rows, {"before_ns": "", "after_ns": "", "change_ns": ""}, unit_of="before_ns"
    ).rows
    for row in rows:
        assert " ".join(row) in words(text)


def test_the_verdict_comes_first_and_the_events_last():
    lines = [line for line in shown("trace", 80).split("\n") if line]
    assert lines[0] == "Sampling holds 42\u202f% of the step"
    assert words(" ".join(lines[-2:])).endswith(
        "950 events read: 950 used, 0 ignored (metadata, flows, unknown kinds), 0 dropped. 13 steps: 12 whole, 1 partial."
    )


def test_changes_are_listed_with_what_they_save():
    text = words(shown("trace", 80).replace("\u202f", " "))
    assert "1 Batch the 60 small operator calls in sampling −393 µs high" in text
    assert "2 Let the optimizer update all parameters at once −50.0 µs medium" in text


@pytest.mark.parametrize("kind", ["hostile", "hostile gpu", "hostile diff", "hostile ranges", "hostile snapshot"])
def test_markup_and_escapes_in_names_are_text(kind: str):
    plain = shown(kind, 200)
    assert "[red]markup[/red]" in plain
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", plain)
    coloured = shown(kind, 200, colour=True)
    assert set(re.findall("\x1b\\[([\\d;]*)m", coloured)) <= {"0", "1", "2", "33", "36"}  # ours: bold, dim, yellow, cyan
    assert not re.search("\x1b[^\\[]", coloured)


def test_an_interval_that_holds_zero_is_within_noise():
    assert "within noise" in shown("gpu diff", 80)


def test_a_command_that_writes_files_prints_the_verdict_and_what_became_of_the_findings():
    console = Console(width=200, file=io.StringIO(), highlight=False)
    console.print(verdict_line(reports()["diff"]))
    lines = console.file.getvalue().strip().split("\n")  # type: ignore[attr-defined]
    assert [line.split()[0] for line in lines] == ["2.05×", "The", "Findings"]
