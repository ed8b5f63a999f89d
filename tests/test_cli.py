"""The `longpole` command: what it writes where, what it says, and how it ends."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from make_report import AFTER, H200, gpu, run_report_of, training, write, write_bundle

from longpole.reports import cli
from longpole.reports.model import Report
from longpole.reports.output import beside
from longpole.reports.render_json import render_json

# WeasyPrint 70 leaves the colour profile of PDF/A open until it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:.*sRGB2014.icc:pytest.PytestUnraisableExceptionWarning")

COMMANDS = ["demo", "capture", "report", "diff", "history", "summary", "ops", "doctor"]
FORMATS = {".html": b"<!doctype html>", ".pdf": b"%PDF-", ".md": b"## ", ".json": b"{"}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def longpole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["longpole", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return Done(int(ended.value.code or 0), shown.out, shown.err)

    return command


def process(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "longpole.reports.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "train.json", training())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_an_example_that_names_the_command(command: str):
    shown = CliRunner().invoke(cli.cli, [command, "--help"])
    assert shown.exit_code == 0
    _, _, example = shown.output.partition("Example:\n")
    lines = [line for line in example.splitlines() if line.strip()]
    assert lines
    assert all(line.startswith(f"  longpole {command}") for line in lines)


def test_the_command_lists_all_others_and_knows_its_version():
    shown = CliRunner().invoke(cli.cli, ["--help"])
    assert all(f"  {command} " in shown.output for command in COMMANDS)
    assert re.fullmatch(r"longpole, version \d\S+\n", CliRunner().invoke(cli.cli, ["--version"]).output)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from longpole.reports.cli import cli\n"
        f"for name in {COMMANDS}: cli([name, '--help'], standalone_mode=False)\n"
        "heavy = {'pandas', 'numpy', 'torch', 'weasyprint', 'jinja2', 'rich', 'msgspec'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_report_lies_beside_its_trace_as_html_and_pdf(longpole: Command, trace: Path, tmp_path: Path):
    done = longpole("report", "train.json")
    assert done.status == 0, done.err
    assert names(tmp_path) == ["train.json", "train.report.html", "train.report.pdf"]
    lines = done.out.splitlines()
    assert [Path(line.removeprefix("Wrote ")).name for line in lines[:2]] == ["train.report.html", "train.report.pdf"]
    assert lines[2] == "Sampling holds 42\u202f% of the step"
    assert done.err == ""


@pytest.mark.parametrize(
    ("run", "report"),
    [
        ("a.json", "a.report"),
        ("a.json.gz", "a.report"),
        ("host.123.pt.trace.json", "host.123.pt.trace.report"),
        ("a", "a.report"),
    ],
)
def test_the_name_beside_a_trace_is_its_own_without_the_ending(run: str, report: str, tmp_path: Path):
    assert beside(tmp_path / run, "report") == tmp_path / report


def test_a_bundle_is_reported_on_beside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bundle = write_bundle(tmp_path / "runs.v2" / "before.json", training())
    assert beside(bundle, "report") == tmp_path / "runs.v2" / "before.json.report"
    monkeypatch.chdir(bundle)
    assert beside(Path(), "diff") == tmp_path / "runs.v2" / "before.json.diff"


def test_the_suffix_is_the_format_and_several_may_be_asked_for(longpole: Command, trace: Path, tmp_path: Path):
    wanted = [argument for suffix in FORMATS for argument in ("-o", f"out/deep/r{suffix}")]
    done = longpole("report", trace, *wanted)
    assert done.status == 0, done.err
    for suffix, start in FORMATS.items():
        assert (tmp_path / "out" / "deep" / f"r{suffix}").read_bytes().startswith(start)
    assert names(tmp_path) == ["out", "train.json"]


def test_an_upper_case_suffix_is_the_same_format(longpole: Command, trace: Path, tmp_path: Path):
    assert longpole("report", trace, "-o", "R.JSON").status == 0
    assert json.loads((tmp_path / "R.JSON").read_bytes())["schema"] == "longpole.summary/1"


def test_a_diff_takes_two_runs_and_lies_beside_the_second(longpole: Command, tmp_path: Path):
    before, after = write_bundle(tmp_path / "before", training()), write_bundle(tmp_path / "after", training(after=True), AFTER)
    done = longpole("diff", before, after, "-o", "d.html", "-o", "d.json", "-o", "d.md")
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "d.json").read_bytes())["step"]["change_us"] == -490
    assert "2.05× faster" in done.out
    assert beside(after, "diff") == tmp_path / "after.diff"


def test_a_summary_is_the_verdict_and_the_main_numbers(longpole: Command, trace: Path, tmp_path: Path):
    done = longpole("summary", trace)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Sampling holds 42\u202f% of the step\n")
    assert "aten::select" in done.out
    assert names(tmp_path) == ["train.json"]


def test_a_summary_as_json_is_json_and_nothing_else(longpole: Command, trace: Path):
    done = longpole("summary", trace, "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["measures"]["step_mean_us"] == 955


def test_operators_are_sorted_by_a_key_of_torch_and_limited(longpole: Command, tmp_path: Path):
    write(tmp_path / "gpu.json", gpu(), **H200)
    table = longpole("ops", "gpu.json", "--sort", "cuda_time_total", "--limit", "2").out.splitlines()
    assert [line.split("  ")[0] or line.split()[0] for line in table[3:5]] == ["ProfilerStep*", "aten::mm"]
    assert len(table) == 8
    assert len(longpole("ops", "gpu.json", "--limit", "-1").out.splitlines()) == 13


def test_an_unknown_key_is_a_usage_error_that_names_the_others(longpole: Command):
    done = longpole("ops", "nowhere.json", "--sort", "colour")
    assert done.status == 2
    assert "self_cpu_time_total" in done.err


def test_operators_by_shape_need_shapes(longpole: Command, trace: Path):
    done = longpole("ops", trace, "--by-shape")
    assert (done.status, done.out) == (1, "")
    assert done.err == "longpole: The trace holds no input shapes; capture with shapes on (record_shapes=True).\n"


@pytest.mark.parametrize("arguments", [("report", "nowhere.json"), ("diff", "nowhere.json", "neither.json")])
@pytest.mark.parametrize("output", ["r.txt", "r", "r.html.gz", "-"])
def test_an_unknown_suffix_is_refused_before_anything_is_read(longpole: Command, arguments: tuple[str, ...], output: str):
    done = longpole(*arguments, "-o", output)
    assert done.status == 2
    assert "choose .html, .pdf, .md, .json" in " ".join(done.err.split())
    assert "nowhere" not in done.err


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("report",), ("diff", "one.json"), ("ops", "a.json", "--limit", "-2")])
def test_a_wrong_call_is_a_usage_error(longpole: Command, arguments: tuple[str, ...]):
    done = longpole(*arguments)
    assert done.status == 2
    assert "Usage: longpole" in done.err


UNREADABLE: dict[str, bytes | None] = {
    "missing.json": None,
    "empty.json": b"",
    "words.json": b"this is no JSON",
    "cut.json": b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "du',
    "other.json": b'{"a": 1}',
    "number.json": b"3",
    "nothing.json": b'{"traceEvents": []}',
    "cut.json.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xabV",
    "latin.json": b'{"traceEvents": "\xff\xfe"}',
    "line\nbreak.json": None,
}


@pytest.mark.parametrize("command", ["report", "summary", "ops", "diff"])
@pytest.mark.parametrize("name", UNREADABLE, ids=ascii)
def test_a_file_that_cannot_be_read_is_one_sentence(longpole: Command, command: str, name: str, tmp_path: Path):
    content = UNREADABLE[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = longpole(command, name, *([name] if command == "diff" else []))
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(r"longpole: \S.*[.?]\n", done.err), done.err
    assert name.split("\n")[0] in done.err
    assert names(tmp_path) == ([name] if content is not None else [])


def test_a_folder_without_a_manifest_is_one_sentence(longpole: Command, tmp_path: Path):
    (tmp_path / "run").mkdir()
    done = longpole("report", "run")
    assert done.status == 1
    assert done.err.startswith("longpole: run is a folder without a manifest.json and without traces, so there is nothing")
    assert done.err.count("\n") == 1
    assert names(tmp_path) == ["run"]


def test_a_bundle_that_was_changed_is_one_sentence(longpole: Command, tmp_path: Path):
    bundle = write_bundle(tmp_path / "run", training())
    (bundle / "rank0.trace.json.gz").write_bytes(b"other")
    done = longpole("summary", "run")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "its SHA-256 is not the manifest's" in done.err


def test_a_place_that_cannot_be_written_is_one_sentence_and_nothing_is_written(longpole: Command, trace: Path, tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = longpole("report", trace, "-o", "a.md", "-o", "file/x.md")
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(r"longpole: file\S+ cannot be written \(.*\); name another place with -o\.\n", done.err), done.err
    assert names(tmp_path) == ["file", "train.json"]


def test_what_force_replaces_is_told_in_the_words_of_the_command(longpole: Command, tmp_path: Path):
    for package in ("torch", "gymnasium"):
        pytest.importorskip(package)
    write_bundle(tmp_path / "runs", training())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine", encoding="utf-8")
    for folder, said in (("runs", "another folder, or replace it"), ("notes", "a new or empty folder, or write into it")):
        done = longpole("capture", "dqn", "-o", folder)
        assert (done.status, done.err.rpartition("; ")[2]) == (1, f"name {said} with --force.\n")


def test_a_bug_keeps_its_traceback(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(report: Report) -> bytes:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("longpole.reports.render_json.render_json", broken)
    monkeypatch.setattr(sys, "argv", ["longpole", "summary", str(trace), "--json"])
    with pytest.raises(ZeroDivisionError):
        cli.main()
    code = (
        "import sys, longpole.analyze.load as l; from longpole.reports.cli import main\n"
        "l.load_run = lambda *named, **how: 1 / 0; sys.argv = ['longpole', 'summary', 'x.json']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode not in (0, 2)
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_console_of_another_encoding_is_no_trouble(trace: Path, tmp_path: Path, encoding: str):
    done = process("summary", trace, cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "955 µs".encode() in done.stdout


def test_a_name_that_the_console_cannot_write_is_no_trouble(tmp_path: Path):
    missing = process("summary", "µ–✓.json", cwd=tmp_path, PYTHONIOENCODING="cp1252")
    assert missing.returncode == 1
    assert missing.stderr.startswith("longpole: µ–✓.json does not exist".encode())


def test_it_works_where_torch_cannot_be_imported_and_prints_the_json_byte_for_byte(trace: Path, tmp_path: Path):
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "torch.py").write_text("raise ImportError('torch is blocked')", encoding="utf-8")
    done = process("summary", trace, "--json", cwd=tmp_path, PYTHONPATH=str(stub))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == render_json(run_report_of(trace))


def test_a_reader_that_leaves_early_is_no_error_with_a_traceback(trace: Path, tmp_path: Path):
    command = [sys.executable, "-m", "longpole.reports.cli", "ops", str(trace), "--limit", "-1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert b"Traceback" not in running.stderr.read()


@pytest.mark.parametrize("arguments", [("demo", "run"), ("capture", "dqn", "-o", "run")])
def test_capturing_without_torch_says_what_to_install(
    longpole: Command, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = longpole(*arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err == 'longpole: Capturing needs torch, not installed here: pip install "longpole[demo]".\n'
    assert names(tmp_path) == []


def test_progress_is_not_written_into_a_pipe(trace: Path, tmp_path: Path):
    done = process("report", trace, "-o", "r.md", cwd=tmp_path)
    assert done.stderr == b""
    assert done.stdout.decode("utf-8").startswith("Wrote r.md")


def test_names_of_files_are_text_even_with_markup(longpole: Command, tmp_path: Path):
    name: Any = "[bold]x[/bold].json"
    write(tmp_path / name, training())
    done = longpole("report", name, "-o", "[red].md")
    assert done.status == 0, done.err
    assert "Wrote [red].md" in done.out


def test_a_report_never_replaces_the_run_it_is_about(longpole: Command, trace: Path, tmp_path: Path):
    before = trace.read_bytes()
    done = longpole("report", trace, "-o", trace)
    assert done.status == 1
    assert trace.read_bytes() == before
    bundle = write_bundle(tmp_path / "run", training())
    done = longpole("report", bundle, "-o", bundle / "manifest.json")
    assert done.status == 1
    assert (bundle / "manifest.json").read_text(encoding="utf-8").startswith("{")
