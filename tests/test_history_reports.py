"""What `longpole history` prints and writes, and how it ends."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_history import measured_run, measured_runs
from make_report import HOSTILE, MANIFEST, write_bundle
from make_trace import loop, op, write_trace
from read_html import Html
from rich.console import Console

from longpole.analyze.baseline import baseline_json
from longpole.analyze.measured import MeasuredRun
from longpole.capture.errors import RenderError
from longpole.reports.cli import cli
from longpole.reports.history.model import HistoryReport, history_report
from longpole.reports.history.render_csv import render_csv
from longpole.reports.history.render_json import render_json
from longpole.reports.history.render_markdown import render_markdown
from longpole.reports.history.render_page import render_html, render_pdf
from longpole.reports.history.render_terminal import TerminalHistory
from longpole.reports.render_pdf import import_weasyprint

# WeasyPrint 70 leaves the colour profile of PDF/A open until it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:.*sRGB2014.icc:pytest.PytestUnraisableExceptionWarning")

TITLE = "The step got 8.0 % slower between run 6 (c060000) and run 7 (c070000)"
RENDERERS = {"html": render_html, "md": render_markdown, "json": render_json, "csv": render_csv}


def slower() -> list[MeasuredRun]:
    return measured_runs((6, 1000), (6, 1080), unprofiled=900, peak_bytes=2**30)


def broken() -> list[MeasuredRun]:
    """The change, then three runs on another GPU."""
    return [*slower(), *(measured_run(number, 500, {"GPU": "H200"}) for number in (13, 14, 15))]


def many(count: int) -> list[MeasuredRun]:
    """All captured at once."""
    return [measured_run(i, 1000 + i % 7, captured_at="2026-01-01T08:00:00Z") for i in range(1, count + 1)]


def hostile() -> list[MeasuredRun]:
    return [
        replace(
            run, name=HOSTILE[i % len(HOSTILE)], commit=HOSTILE[-i % len(HOSTILE)], facts={**run.facts, "GPU": HOSTILE[i > 8]}
        )
        for i, run in enumerate(measured_runs((5, 1000), (9, 1080)))
    ]


def printed(report: HistoryReport, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(TerminalHistory(report))
    return console.file.getvalue().replace("\u202f", " ")  # type: ignore[attr-defined]


def page(runs: list[MeasuredRun]) -> Html:
    return Html(render_html(history_report(runs)).decode("utf-8"))


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


def test_a_terminal_of_80_columns_shows_a_line_a_run_and_what_changes_between():
    lines = printed(history_report(broken())).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == TITLE
    sixth, change, seventh = next(lines[i - 1 : i + 2] for i, line in enumerate(lines) if line.strip().startswith("Step +8.0 %"))
    assert sixth.split()[:5] == ["6", "train", "6", "c060000", "4"]
    assert re.fullmatch(r" +Step \+8\.0 % \(\+7\.9 % to \+8\.1 %\), p = 0\.00\d+", change)
    assert seventh.split()[:3] == ["7", "train", "7"]
    assert "    Not comparable: GPU H100 → H200" in lines
    assert "No room here for: Captured." in lines or "No room here for: Captured, Unprofiled." in lines


def test_a_wide_terminal_shows_every_column_that_was_recorded():
    text = printed(history_report(slower()), 140)
    assert "No room" not in text
    heads = next(line for line in text.splitlines() if line.lstrip().startswith("#"))
    assert re.split(r"\s{2,}", heads.strip()) == [
        "#", "Run", "Captured, UTC", "Commit", "Steps", "Step, ms", "95 % interval", "Unprofiled, ms", "Peak of GPUs",
    ]  # fmt: skip
    bare = printed(history_report(measured_runs((3, 1000), commit=None, captured_at=None)), 140)
    assert "Commit" not in bare and "Captured, UTC" not in bare and "Peak" not in bare


def test_steps_of_very_different_length_have_a_unit_each():
    text = printed(history_report([measured_run(1, 100), measured_run(2, 90_000)]))
    assert "100 µs" in text and "90.0 ms" in text


def test_of_many_runs_the_terminal_shows_the_last_and_those_beside_changes():
    runs = [measured_run(i, (1000 if i <= 100 else 1100) + i % 7, captured_at="2026-01-01T08:00:00Z") for i in range(1, 301)]
    lines = printed(history_report(runs)).splitlines()
    assert len(lines) < 60
    text = "\n".join(lines)
    assert "… 98 more runs; JSON and CSV have all" in text
    assert [f"train {i} " in text for i in (1, 2, 100, 101, 102, 299, 300)] == [True, False, True, True, False, True, True]


def test_the_json_has_all_numbers_and_counts_runs_from_one():
    found = json.loads(render_json(history_report(broken())))
    assert (found["schema"], found["order"], found["least_runs"], found["memory"]) == (
        "longpole.history/1", "captured_at", 8, "device_peak_bytes",
    )  # fmt: skip
    assert plain(found["verdict"]["sentence"]) == TITLE
    first = found["runs"][0]
    assert (first["run"], first["name"], first["commit"][:3], first["steps"]) == (1, "train 1", "c01", 4)
    assert (first["step_us"], first["unprofiled_step_us"], first["peak_bytes"]) == (1000.0, 900.0, 2**30)
    assert first["ci_low_us"] < 1000 < first["ci_high_us"]
    assert found["runs"][12]["peak_bytes"] is None
    (change,) = found["changes"]
    assert (change["metric"], change["run"], change["before_runs"], change["after_runs"]) == ("step_us", 7, 6, 6)
    assert (change["before"], change["change_pct"]) == (pytest.approx(1000, abs=0.1), pytest.approx(8, abs=0.1))
    assert change["ci_low_pct"] < 8 < change["ci_high_pct"]
    assert change["p"] <= 0.05
    assert found["breaks"] == [{"run": 13, "reasons": ["GPU H100 → H200"]}]
    assert found["stretches"] == [{"first": 1, "last": 12, "told": True}, {"first": 13, "last": 15, "told": False}]


def test_the_csv_has_a_row_a_run_with_its_stretch_and_what_changes_before_it():
    rows = list(csv.DictReader(io.StringIO(render_csv(history_report(broken())).decode("utf-8"))))
    assert [row["run"] for row in rows] == [str(i) for i in range(1, 16)]
    assert [row["stretch"] for row in rows] == ["1"] * 12 + ["2"] * 3
    assert [i for i, row in enumerate(rows, 1) if row["step_change_pct"]] == [7]
    assert [row["broken_by"] for row in rows if row["broken_by"]] == ["GPU H100 → H200"]
    assert (rows[0]["step_us"], rows[0]["peak_bytes"], rows[14]["peak_bytes"]) == ("1000.0", str(float(2**30)), "")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_name_that_a_spreadsheet_would_run_is_text(name: str):
    run = measured_run(1, 100, name=name, commit=name, captured_at=name)
    (row,) = csv.DictReader(io.StringIO(render_csv(history_report([run])).decode("utf-8")))
    assert all(row[column].startswith("'") for column in ("name", "captured_at", "commit"))


def test_a_name_with_commas_and_quotes_stays_one_cell():
    run = measured_run(1, 100, name='a, "b"; c')
    (row,) = csv.DictReader(io.StringIO(render_csv(history_report([run])).decode("utf-8")))
    assert row["name"] == 'a, "b"; c'


def test_the_page_begins_with_the_verdict_and_has_chart_notes_and_table():
    shown = page(broken())
    (title,) = shown.all("h1")
    assert plain(title.text) == TITLE
    (chart,) = shown.all("svg")
    assert "+8.0 % from run 7 on" in plain(chart.attributes["aria-label"])
    assert len(shown.all("tr")) == 1 + 15 + 2
    assert any("From run 13 (c130000) on times do not compare" in line for line in shown.lines)


def test_the_page_of_hundreds_of_runs_is_bounded():
    content = render_html(history_report(many(600)))
    assert len(content) < 400_000
    assert len(Html(content.decode("utf-8")).all("tr")) <= 1 + 200 + 3
    assert len(render_markdown(history_report(many(600))).splitlines()) < 80


def test_hostile_names_are_text_everywhere():
    report = history_report(hostile())
    shown = page(hostile())
    assert not shown.all("img") and len(shown.all("script")) == 1 and "alert" not in shown.script
    for text in (printed(report), *(render(report).decode("utf-8") for render in (render_html, render_markdown, render_csv))):
        assert not re.search("[\x00\x07\x1b\u202e]", text)
    assert "<script" not in render_markdown(report).decode("utf-8")
    assert max(map(len, printed(report).splitlines())) <= 80


@pytest.mark.parametrize("render", RENDERERS.values(), ids=RENDERERS)
def test_the_same_runs_give_the_same_bytes(render: Callable[[HistoryReport], bytes]):
    assert render(history_report(broken())) == render(history_report(broken()))


def test_the_pdf_of_a_dozen_runs_is_one_page_with_its_numbers_attached():
    try:
        import_weasyprint()
    except RenderError as missing:
        pytest.skip(str(missing))
    from pypdf import PdfReader

    report = history_report(measured_runs((6, 1000), (6, 1080)))
    reader = PdfReader(io.BytesIO(render_pdf(report)))
    assert len(reader.pages) == 1
    assert json.loads(reader.attachments["summary.json"][0])["schema"] == "longpole.history/1"
    assert render_pdf(report) == render_pdf(report)


# The command


def invoke(*arguments: str | Path, command: str = "history") -> tuple[int, str, str]:
    """Exit status, standard output, and all that was said."""
    done = CliRunner().invoke(cli, [command, *map(str, arguments), "--processes", "1"])
    problem = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
    return done.exit_code, done.stdout, done.output + problem


def bundle(folder: Path, day: int) -> Path:
    """Five steps about 100 until day 6, and 120 afterwards."""
    steps = loop([(100 if day < 7 else 120) + day / 100] * 5, lambda a, b: [op("aten::mm", a, a + 30)])
    told = replace(
        MANIFEST, captured_at=f"2026-01-{day:02}T00:00:00Z", title=folder.name, program={"git_commit": f"{day:02}" * 20}
    )
    return write_bundle(folder, steps, told)


def test_bundles_and_baselines_stand_together_in_the_order_of_their_captures(tmp_path: Path):
    base, runs = tmp_path / "base.json", [bundle(tmp_path / f"run{day}", day) for day in range(1, 13)]
    assert invoke(*runs[:6], "-o", base, command="baseline")[0] == 0
    status, out, _ = invoke(*reversed(runs[6:]), base)
    assert status == 0
    assert plain(out.splitlines()[0]) == "The step got 20 % slower between run 6 (0606060) and run 7 (0707070)"
    assert "In the order of their captures." in out


def test_json_goes_to_standard_output_alone_and_files_are_written_beside(tmp_path: Path):
    base, outputs = tmp_path / "base.json", [tmp_path / "new" / f"history.{ending}" for ending in RENDERERS]
    base.write_bytes(baseline_json(slower()))
    status, out, _ = invoke(base, "--json", *(word for path in outputs for word in ("-o", path)))
    assert status == 0
    assert json.loads(out)["schema"] == "longpole.history/1"
    assert all(path.stat().st_size > 100 for path in outputs)
    assert str(tmp_path) not in outputs[0].read_text(encoding="utf-8")


def test_a_run_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path: Path):
    base, wrong, out = tmp_path / "base.json", tmp_path / "wrong.json", tmp_path / "out.html"
    base.write_bytes(baseline_json(slower()))
    wrong.write_text('{"traceEvents": 3}', encoding="utf-8")
    status, _, said = invoke(base, wrong, "-o", out)
    assert status == 1
    assert "wrong.json" in said
    assert not out.exists()


def test_a_run_without_steps_to_compare_is_named(tmp_path: Path):
    trace = write_trace(tmp_path / "empty.json", [op("aten::mm", 0, 10)])
    status, out, _ = invoke(trace)
    assert (status, "Runs without marked steps count their whole recording as one step." in out.replace("\n", " ")) == (0, True)


def test_an_output_of_no_known_format_or_over_a_run_is_refused(tmp_path: Path):
    base = tmp_path / "base.json"
    base.write_bytes(baseline_json(slower()))
    status, _, said = invoke(base, "-o", tmp_path / "history.xlsx")
    assert status == 2 and ".csv" in said
    before = base.read_bytes()
    assert invoke(base, "-o", base)[0] == 1
    assert base.read_bytes() == before
