import json
from math import isnan
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_trace import kernel, make_trace, op, step, write_trace

from longpole.analyze.analyses.ranks import ranks
from longpole.reports.cli import cli


def steps_of(duration: int) -> list:
    return [step(i, i * duration, (i + 1) * duration) for i in range(4)]


def test_each_rank_has_its_own_figures():
    first = make_trace(steps_of(100), [kernel("gemm", 10, 60)], distributedInfo={"rank": 0, "world_size": 3})
    second = make_trace(steps_of(200), [op("aten::mm", 10, 40)], distributedInfo={"rank": 1, "world_size": 3})
    found = ranks(first, second)
    assert found.rows["rank"].tolist() == ["0", "1"]
    assert found.rows["window_ns"].tolist() == [400_000, 800_000]
    assert found.rows["mean_ns"].tolist() == [100_000, 200_000]
    assert found.rows["busy_ns"][0] == 50_000
    assert isnan(found.rows["busy_ns"][1])
    assert found.missing == (2,)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for rank, duration in ((0, 100), (1, 200)):
        info = {"rank": rank, "world_size": 2}
        write_trace(tmp_path / f"r{rank}.json", steps_of(duration), [kernel("gemm", 10, 60)], distributedInfo=info)
    return tmp_path


def said(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_summary_gives_each_measure_by_rank(run: Path):
    found = json.loads(said("summary", str(run), "--json", "--processes", "1"))
    assert found["source"]["rank_ids"] == [0, 1]
    assert found["measures"]["step_mean_us"] == {"0": 100.0, "1": 200.0}
    assert found["measures"]["gpu_busy_us"] == {"0": 50.0, "1": 50.0}
    assert [(row["rank"], row["step_us"]) for row in found["steps"]] == [(0, 100.0)] * 4 + [(1, 200.0)] * 4
    assert found["ranks"] == [
        {"rank": 0, "window_us": 400.0, "gpu_busy_us": 50.0}, {"rank": 1, "window_us": 800.0, "gpu_busy_us": 50.0}
    ]  # fmt: skip


def test_the_terminal_lists_all_ranks_and_explains_the_one_that_was_asked_for(run: Path):
    text = said("summary", str(run / "*.json"), "--rank", "1", "--processes", "1")
    assert "All else here is about rank 1." in text
    assert "200 µs" in text


def test_a_report_has_a_section_on_the_ranks(run: Path, tmp_path: Path):
    said("report", str(run / "r0.json"), str(run / "r1.json"), "-o", str(tmp_path / "out.html"), "--processes", "1")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "everything else in this report is about rank 0" in text
    assert 'id="ranks"' in text
    assert "0; beside it 1, see Ranks" in text


def test_a_rank_that_is_not_there_is_refused(run: Path):
    done = CliRunner().invoke(cli, ["summary", str(run), "--rank", "7"])
    assert done.exit_code == 1
    assert "holds no rank 7; choose one of 0, 1" in str(done.exception)
