"""The `longpole whatif` command, and what a newcomer may write."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from make_trace import op, step, write_trace
from replay_trace import waiting_events, waiting_trace
from rich.console import Console

from longpole.analyze.replay.quality import quality
from longpole.analyze.replay.whatif import parse, predict
from longpole.analyze.trace import Trace
from longpole.reports.cli import cli
from longpole.reports.whatif import whatif_text


def ask(path: Path, *changes: str) -> Result:
    return CliRunner().invoke(cli, ["whatif", str(path), *changes])


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "waiting.json", *waiting_events())


def test_each_change_gets_a_row_and_all_of_them_one_more(waiting: Path):
    done = ask(waiting, "kernel:gemm x0.5", "sync x0")
    assert done.exit_code == 0
    rows = [line.split() for line in done.output.splitlines() if line.startswith(("kernel:", "sync", "all of"))]
    assert [row[-6:-4] for row in rows] == [["80.0", "20.0"], ["77.5", "22.5"], ["57.5", "42.5"]]
    assert "mean of 4" in done.output


def shown(trace: Trace, width: int, *changes: str) -> list[str]:
    """Lines of a terminal of that many columns."""
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(whatif_text(predict(trace, [(parse(change),) for change in changes]), quality(trace), width))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_a_change_a_line_under_a_head_of_one(width: int):
    lines = shown(waiting_trace("a" * 100 + "gemm"), width, "kernel:" + "a" * 100 + " x0.5", "sync x0")
    assert max(map(len, lines)) <= width
    head = next(number for number, line in enumerate(lines) if line.startswith("What if"))
    assert lines[head].split()[-2:] == ["step,", "%"]
    assert [line.split()[-6:] for line in lines[head + 1 : head + 3]] == [
        ["80.0", "20.0", "20.0", "to", "20.0", "20.0"], ["77.5", "22.5", "0.0", "to", "22.5", "22.5"],
    ]  # fmt: skip
    assert "a… x0.5 " in lines[head + 1] or "a x0.5 " in lines[head + 1]


def test_json_tells_the_same_with_the_quality_of_the_replay(waiting: Path):
    told = json.loads(ask(waiting, "kernel:gemm x0.5", "--json").output)
    (answer,) = told["answers"]
    assert (told["schema"], told["step_us"], told["quality"]["reason"]) == ("longpole.whatif/1", 100.0, None)
    assert (answer["changes"], answer["saving_us_per_step"], answer["step_us"]) == (["kernel:gemm x0.5"], 20.0, 80.0)
    assert answer["predicted"]


def test_a_wrong_change_is_refused_before_anything_is_loaded(tmp_path: Path):
    done = ask(tmp_path / "not there.json", "faster please")
    assert (done.exit_code, "possible are" in str(done.exception)) == (1, True)


def test_a_name_that_the_trace_does_not_hold_is_refused_with_those_that_are_like_it(waiting: Path):
    done = ask(waiting, "kernel:some_gem x0.5")
    assert done.exit_code == 0  # a part of the name
    assert "some_gemm" in str(ask(waiting, "kernel:somegemm x0.5").exception)


def test_a_run_without_a_gpu_is_replayed_too(tmp_path: Path):
    path = write_trace(tmp_path / "cpu.json", [step(1, 0, 100), op("aten::mm", 10, 50)])
    told = json.loads(ask(path, "op:aten::mm x0.5", "--json").output)
    assert told["answers"][0]["saving_us_per_step"] == 20.0
