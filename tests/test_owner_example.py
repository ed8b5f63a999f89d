"""The example this project began with: what its own print shows, `longpole ops` shows, to the last digit."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from run_program import run_source

from longpole.reports.render_json import render_json

SCRIPT = Path(__file__).parent / "data" / "profile_demo.txt"
LAST_LINE = '\nprof.export_chrome_trace("trace.json")\n'

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        find_spec("torch") is None or find_spec("gymnasium") is None, reason="torch and gymnasium are needed to run the example"
    ),
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the script prints, and the trace that it was made to leave behind."""
    folder = tmp_path_factory.mktemp("example")
    script = folder / "profile_demo.py"
    script.write_text(SCRIPT.read_text(encoding="utf-8") + LAST_LINE, encoding="utf-8")
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout, folder / "trace.json"


def longpole(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "longpole.reports.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def table_of(text: str) -> list[str]:
    """From the first rule to the total; the script prints nothing else, but torch may log."""
    lines = text.rstrip().split("\n")
    return lines[next(i for i, line in enumerate(lines) if line.startswith("---")) :]


def test_the_same_ten_rows_in_the_same_order_to_the_last_digit(printed: tuple[str, Path]):
    text, trace = printed
    ours = table_of(longpole("ops", trace, "--sort", "cpu_time_total", "--limit", "10"))
    theirs = table_of(text)
    assert len(theirs) == 3 + 10 + 2
    assert ours == theirs


def test_the_report_on_it_finds_the_loop(printed: tuple[str, Path]):
    from make_report import run_report_of

    report = run_report_of(printed[1])
    summary = render_json(report).decode("utf-8")
    assert report.result("steps").window == "trace"
    assert report.result("steps").mode == "training"
    assert '"Optimizer.step#Adam.step"' in summary


def test_it_runs_as_it_is_while_longpole_watches_and_its_own_profiler_is_noticed_and_explained(tmp_path: Path):
    ran = run_source(tmp_path, SCRIPT.read_text(encoding="utf-8"))
    assert ran.status == 0, ran.errors
    assert len(table_of(ran.output)) == 3 + 10 + 2
    assert "runs a PyTorch profiler of its own" in ran.errors
    assert not ran.bundle.exists()
