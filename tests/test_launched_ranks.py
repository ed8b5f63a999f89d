"""Ranks that torchrun starts record one bundle: all of them, some that fail, and over what lay there before."""

import json
import shutil
import sys
import zipfile
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner
from live_programs import STEPS, torchrun, torchrun_longpole

from longpole.analyze.load import load_run
from longpole.capture.bundle import read_manifest
from longpole.reports.cli import cli

pytest.importorskip("torch.distributed")
pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform != "linux", reason="the loopback device has another name")]

WHOLE = {f"rank{rank}.{kind}" for rank in (0, 1) for kind in ("trace.json.gz", "key_averages.json")}
WHOLE |= {"manifest.json", "rank1.manifest.json"}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two") / "run"
    done = torchrun(folder, 2)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def again(two: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """Over an older recording by force, and rank 0 is killed once rank 1 has written."""
    folder = Path(shutil.copytree(two, tmp_path_factory.mktemp("again") / "run"))
    return folder, torchrun(folder, 2, "0:dies")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 2 raises in its window."""
    folder = tmp_path_factory.mktemp("four") / "run"
    done = torchrun(folder, 4, "2:raises")
    assert "ValueError: the user's own" in done.stderr
    return folder


def summary(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["summary", *arguments, "--json", "--processes", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def trouble(folder: Path) -> list[dict[str, str]]:
    return [{warning.code: warning.message for warning in trace.warnings} for trace in load_run([folder])]


def test_each_rank_writes_its_own_files_into_one_folder_and_nothing_else_stays(two: Path):
    assert {path.name for path in two.iterdir()} == WHOLE


def test_the_parts_agree_on_the_launch_and_differ_in_what_was_measured(two: Path):
    first, second = read_manifest(two), read_manifest(two, "rank1.manifest.json")
    assert (first.world_size, second.world_size) == (2, 2)
    assert first.launch is not None
    assert first.launch == second.launch
    assert [part.ranks[0].rank for part in (first, second)] == [0, 1]
    assert first.unprofiled_step_ns != second.unprofiled_step_ns


def test_loading_gives_each_rank_its_own_trace_and_manifest(two: Path):
    traces = load_run([two])
    assert [(trace.source.rank, trace.source.world_size, trace.source.files[0].name) for trace in traces] == [
        (0, 2, "rank0.trace.json.gz"), (1, 2, "rank1.trace.json.gz"),
    ]  # fmt: skip
    assert [trace.manifest and trace.manifest.ranks[0].rank for trace in traces] == [0, 1]
    assert all(trace.averages for trace in traces)
    assert trouble(two) == [{}, {}]


def test_the_report_is_of_both_ranks_and_explains_the_one_that_is_asked_for(two: Path, tmp_path: Path):
    found = summary(str(two), "--rank", "1")
    assert set(found["measures"]["step_mean_us"]) == {"0", "1"}
    page = tmp_path / "run.html"
    done = CliRunner().invoke(cli, ["report", str(two), "--rank", "1", "-o", str(page)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "rank 1 of 2" in page.read_text()


def test_a_zipped_bundle_of_several_ranks_is_read(two: Path, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for file in two.iterdir():
            archive.write(file, f"run/{file.name}")
    assert [trace.source.rank for trace in load_run([tmp_path / "run.zip"])] == [0, 1]


def test_an_older_recording_is_refused_without_force(again: tuple[Path, CompletedProcess[str]]):
    for rank in (0, 1):
        assert f"rank {rank} is refused: {again[0]} already holds a bundle" in again[1].stdout


def test_the_rank_that_is_left_is_read_alone_and_the_killed_one_is_named(two: Path, again: tuple[Path, CompletedProcess[str]]):
    folder, done = again
    assert done.returncode != 0
    (trace,) = load_run([folder])
    assert (trace.source.rank, trace.source.world_size, trace.manifest and trace.manifest.complete) == (1, 2, True)
    assert trace.source.files[0].sha256 != read_manifest(two, "rank1.manifest.json").ranks[0].trace.sha256
    (said,) = trouble(folder)
    assert said.keys() == {"missing_ranks", "other_launches"}
    assert "1 (rank 0)" in said["missing_ranks"]
    assert "manifest.json" in said["other_launches"]


def test_parts_alone_are_a_bundle(again: tuple[Path, CompletedProcess[str]], tmp_path: Path):
    folder = Path(shutil.copytree(again[0], tmp_path / "run"))
    (folder / "manifest.json").unlink()
    assert [said.keys() for said in trouble(folder)] == [{"missing_ranks"}]
    codes = [warning["code"] for warning in summary(str(folder))["warnings"]]
    assert "missing_ranks" in codes
    page = tmp_path / "run.html"
    CliRunner().invoke(cli, ["report", str(folder), "-o", str(page)], catch_exceptions=False)
    assert "Ranks of the launch that left no recording in the bundle: 1 (rank 0)" in page.read_text()


def test_a_rank_that_raises_leaves_the_others_whole_and_its_own_as_far_as_it_came(four: Path):
    traces = load_run([four])
    assert [trace.source.rank for trace in traces] == [0, 1, 2, 3]
    assert [trace.manifest and trace.manifest.complete for trace in traces] == [True, True, False, True]
    third = traces[2].manifest
    assert third
    assert third.health[0].code == "exception"
    assert third.options["recorded_steps"] == STEPS - 2
    assert {tuple(said) for said in trouble(four)} == {("incomplete_ranks",)}
    (warning,) = [warning for warning in summary(str(four))["warnings"] if warning["code"] == "incomplete_ranks"]
    assert (warning["rank"], "1 (rank 2)" in warning["message"]) == (None, True)


def test_ranks_of_an_unmodified_program_record_the_same_bundles_one_after_the_other(tmp_path: Path):
    done = torchrun_longpole(tmp_path / "run", 2, "--repeat", "2", "--steps", str(STEPS), "--wait", "1", "--warmup", "1")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run-2"}
    for folder in (tmp_path / "run", tmp_path / "run-2"):
        assert {path.name for path in folder.iterdir()} == WHOLE
        assert [trace.manifest and trace.manifest.complete for trace in load_run([folder])] == [True, True]
        assert trouble(folder) == [{}, {}]
