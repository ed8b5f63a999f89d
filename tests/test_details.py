"""A bundle with a detail pass: what only that pass tells stands in the report, labelled, and nothing else of it does."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from make_trace import frame, op, step, write_bundle
from run_program import run_source

from longpole.capture.bundle import RankFiles, described, read_manifest, write_manifest
from longpole.capture.errors import BundleError
from longpole.capture.packing import pack, unpack
from longpole.reports.cli import cli

SOURCE = """
import torch
from torch import nn
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for turn in range(40):
    optimizer.zero_grad()
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""
DETAILED = {"program": {"detail": "detail"}}
LATER = "2026-11-30T18:57:00Z"
LARGEST = 10**9


def longpole(*arguments: str | Path) -> str:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def summary(run: Path, *more: str) -> dict[str, Any]:
    return json.loads(longpole("summary", run, "--json", *more))


def with_detail(folder: Path, **detail: Any) -> Path:
    """A lean pass with steps of 100 us; in its detail pass a step takes 300 us, 200 of it in a module."""
    write_bundle(folder, [step(1, 0, 100), step(2, 100, 200)], [op("aten::mm", 10, 40)], **DETAILED)
    slow = [step(1, 0, 300), frame("nn.Module: Linear_0", 10, 210), op("aten::mm", 20, 200)]
    write_bundle(folder / "detail", slow, **{"captured_at": LATER, **detail})
    return folder


def page(run: Path, tmp_path: Path) -> str:
    longpole("report", run, "-o", tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("torch") is None:
        pytest.skip("torch is needed to run programs")
    ran = run_source(tmp_path_factory.mktemp("detail"), SOURCE, options=["--steps", "4", "--detail"])
    assert ran.status == 0, ran.errors
    return ran.bundle


def test_a_captured_run_gets_modules_and_memory_from_its_detail_pass(captured: Path, tmp_path: Path):
    [detail] = summary(captured)["detail"]
    assert (detail["rank"], detail["missing"], detail["sections"]) == (0, None, ["modules", "memory"])
    assert "Sequential_0.Linear_0" in detail["measures"]["module_host_us"]
    html = page(captured, tmp_path)
    assert html.count("From the detail pass: 4 steps of the same run") == 2
    assert '<h2 id="modules">' in html and '<h2 id="memory">' in html
    assert 'id="fig-host_memory"' in html


@pytest.mark.parametrize("options", [[], ["--redact"]], ids=["whole", "redacted"])
def test_a_packed_run_tells_the_same(captured: Path, tmp_path: Path, options: list[str]):
    longpole("pack", captured, "-o", tmp_path / "run.zip", *options)
    longpole("unpack", tmp_path / "run.zip", "-o", tmp_path / "again")
    told = [summary(run)["detail"][0] for run in (captured, tmp_path / "run.zip", tmp_path / "again")]
    assert told[0]["measures"] == told[1]["measures"] == told[2]["measures"]


def test_only_what_the_recording_lacks_comes_from_the_detail_pass(tmp_path: Path):
    whole = summary(with_detail(tmp_path / "run"))
    [detail] = whole["detail"]
    assert (whole["measures"]["step_mean_us"], detail["measures"]["step_mean_steady_us"]) == (100, 300)
    assert detail["measures"]["module_host_us"] == {"Linear_0": {"forward": 200, "backward": 0}}
    assert "module_host_us" not in whole["measures"]
    assert detail["sections"] == ["modules"]  # neither pass recorded memory


def test_all_but_those_sections_is_as_without_a_detail_pass(tmp_path: Path):
    whole = summary(with_detail(tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "detail")
    alone = summary(tmp_path / "run")
    assert {k: v for k, v in whole.items() if k != "detail"} == {k: v for k, v in alone.items() if k != "detail"}


def test_a_bundle_that_has_no_detail_pass_says_nothing_of_one(tmp_path: Path):
    assert "detail" not in summary(write_bundle(tmp_path / "run", [step(1, 0, 100), op("aten::mm", 10, 40)]))


def nothing(folder: Path) -> None:
    shutil.rmtree(folder)


def damaged(folder: Path) -> None:
    (folder / "manifest.json").write_text("{", encoding="utf-8")


def altered(folder: Path) -> None:
    (folder / "rank0.trace.json.gz").write_bytes(b"other")


def of_an_older_run(folder: Path) -> None:
    nothing(folder)
    write_bundle(folder, [step(1, 0, 300)], captured_at="2026-11-30T18:55:00Z")


def of_another_launch(folder: Path) -> None:
    nothing(folder)
    write_bundle(folder, [step(1, 0, 300)], captured_at=LATER, launch="abc", world_size=2)


def of_another_program(folder: Path) -> None:
    nothing(folder)
    write_bundle(folder, [step(1, 0, 300)], captured_at=LATER, versions={"torch": "2.9.0"}, program={"parameters": 7})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (nothing, "the bundle holds no folder detail with a manifest"),
        (damaged, "detail/manifest.json is damaged"),
        (altered, "rank0.trace.json.gz"),
        (of_an_older_run, "it is older than this recording"),
        (of_another_launch, "it is of another launch"),
        (of_another_program, "another installation, by: torch, parameters"),
    ],
)
def test_a_detail_pass_that_cannot_be_used_is_named_and_the_rest_is_told(tmp_path: Path, spoil: Callable[[Path], None], why: str):
    run = with_detail(tmp_path / "run")
    spoil(run / "detail")
    whole = summary(run)
    assert whole["measures"]["step_mean_us"] == 100
    assert why in whole["detail"][0]["missing"]
    html = page(run, tmp_path)
    assert html.count("It cannot be used: ") == 1
    assert str(tmp_path) not in html.split("Not in this report")[1]


def test_a_model_that_is_called_later_makes_no_other_program(tmp_path: Path):
    run = with_detail(tmp_path / "run", program={"models": "Net, Critic", "parameters": 9})
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["program"] |= {"models": "Net", "parameters": 4}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert summary(run)["detail"][0]["missing"] is None


def of_two_ranks(folder: Path, *module_us: int) -> None:
    """A bundle of two ranks with their detail pass, in which the module of each takes so long."""
    folder.mkdir()
    for place, captured_at in ((folder, "2026-11-30T18:56:00Z"), (folder / "detail", LATER)):
        place.mkdir(exist_ok=True)
        for rank, us in enumerate(module_us):
            events = [step(1, 0, 300), op("aten::mm", 20, 30)]
            events += [frame("nn.Module: Linear_0", 10, 10 + us)] if place.name == "detail" else []
            made = write_bundle(place / f"made{rank}", events, captured_at=captured_at, launch="abc", world_size=2, **DETAILED)
            trace = (made / "rank0.trace.json.gz").replace(place / f"rank{rank}.trace.json.gz")
            manifest = replace(read_manifest(made), ranks=(RankFiles(rank, described(trace)),))
            shutil.rmtree(made)
            write_manifest(place, manifest)


def test_each_rank_has_its_own_detail_pass(tmp_path: Path):
    of_two_ranks(tmp_path / "run", 100, 250)
    details = summary(tmp_path / "run")["detail"]
    times = [(one["rank"], one["measures"]["module_host_us"]["Linear_0"]["forward"]) for one in details]
    assert times == [(0, 100), (1, 250)]


# Packing


def test_a_detail_pass_travels_in_the_zip_and_comes_back(tmp_path: Path):
    run = with_detail(tmp_path / "run")
    assert pack(run, tmp_path / "run.zip") == []
    assert unpack(tmp_path / "run.zip", tmp_path / "again", largest_bytes=LARGEST) == []
    for name in ("manifest.json", "rank0.trace.json.gz", "detail/manifest.json", "detail/rank0.trace.json.gz"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    assert not any(path.name.startswith(".") for path in (tmp_path / "again").rglob("*"))


def test_a_folder_of_that_name_which_the_manifest_does_not_tell_of_is_left_out(tmp_path: Path):
    write_bundle(tmp_path / "run", [step(1, 0, 100)])
    write_bundle(tmp_path / "run" / "detail", [step(1, 0, 100)])
    assert pack(tmp_path / "run", tmp_path / "run.zip") == ["detail"]


def test_an_altered_detail_pass_is_not_packed(tmp_path: Path):
    run = with_detail(tmp_path / "run")
    altered(run / "detail")
    with pytest.raises(BundleError, match="is not the file that was captured"):
        pack(run, tmp_path / "run.zip")


def test_unpacking_over_a_run_with_a_detail_pass_takes_that_one_away(tmp_path: Path):
    pack(write_bundle(tmp_path / "plain", [step(1, 0, 100)]), tmp_path / "plain.zip")
    run = with_detail(tmp_path / "run")
    unpack(tmp_path / "plain.zip", run, largest_bytes=LARGEST, force=True)
    assert sorted(path.name for path in run.iterdir()) == ["manifest.json", "rank0.trace.json.gz"]
    assert read_manifest(run).program == {}


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_nothing_is_unpacked_through_a_link(tmp_path: Path):
    pack(with_detail(tmp_path / "run"), tmp_path / "run.zip")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "detail").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="is a link or a file"):
        unpack(tmp_path / "run.zip", tmp_path / "again", largest_bytes=LARGEST, force=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []
