"""bundle_handler: a bundle for each cycle of a profiler of one's own, and never an error in its loop."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from longpole.analyze.load import load
from longpole.capture import bundle_handler
from longpole.capture.bundle import Manifest, read_manifest, verified
from longpole.capture.errors import CaptureError
from longpole.reports.cli import cli

torch = pytest.importorskip("torch")

pytestmark = [  # torch says that key_averages() holds the last cycle only, as is wanted here, and that a warm-up is advisable
    pytest.mark.filterwarnings("ignore:.*Profiler clears events"),
    pytest.mark.filterwarnings("ignore:.*Profiler won't be using warmup"),
]

CPU = [torch.profiler.ProfilerActivity.CPU]


def loop(handler: Any, turns: int, wait: int = 1, warmup: int = 1, active: int = 2, **options: Any) -> int:
    """How many turns it ran; `options`: of the profiler."""
    schedule = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=options.pop("repeat", 0))
    done = 0
    with torch.profiler.profile(activities=CPU, schedule=schedule, on_trace_ready=handler, **options) as profiler:
        for _ in range(turns):
            torch.ones(4).sum()
            done += 1
            profiler.step()
    return done


def step_ranges(folder: Path) -> int:
    trace = verified(folder, read_manifest(folder).ranks[0].trace)
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    return sum(event["name"].startswith("ProfilerStep#") for event in events if event.get("cat") == "user_annotation")


def codes(manifest: Manifest) -> list[str]:
    return [note.code for note in manifest.health]


def test_each_cycle_makes_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    handler = bundle_handler(
        tmp_path / "run", title="base", mode="training", samples_per_step=8, seed=7, program={"variant": "x"}
    )
    loop(handler, turns=8)
    assert handler.bundles == [tmp_path / "run", tmp_path / "run-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]
    assert handler.failures == []
    for number, folder in enumerate(handler.bundles, start=1):
        manifest = read_manifest(folder)
        assert (manifest.title, manifest.mode, manifest.samples_per_step) == ("base", "training", 8)
        assert (manifest.program["seed"], manifest.program["variant"]) == (7, "x")
        assert (manifest.complete, manifest.options["recorded_steps"], manifest.options["cycle"]) == (True, 2, number)
        assert codes(manifest) == ["no_shapes"]
        assert step_ranges(folder) == 2
    assert "longpole" not in capsys.readouterr().err


def test_the_snapshot_is_that_of_its_own_cycle_and_shapes_are_kept(tmp_path: Path):
    loop(handler := bundle_handler(tmp_path / "run"), turns=8, record_shapes=True)
    for folder in handler.bundles:
        rows = json.loads((folder / "rank0.key_averages.json").read_bytes())["rows"]
        assert {row["key"]: row["count"] for row in rows}["aten::sum"] == 2
        assert read_manifest(folder).ranks[0].key_averages_by_shape is not None
        assert codes(read_manifest(folder)) == []


def test_a_report_reads_it(tmp_path: Path):
    loop(bundle_handler(tmp_path / "run"), turns=4)
    assert CliRunner().invoke(cli, ["summary", str(tmp_path / "run"), "--json"]).exit_code == 0
    assert load(tmp_path / "run").averages is not None


def test_a_loop_that_ends_inside_a_cycle_leaves_an_incomplete_bundle(tmp_path: Path):
    loop(bundle_handler(tmp_path / "run"), turns=3)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.complete, manifest.options["recorded_steps"], codes(manifest)) == (False, 1, ["loop_ended", "no_shapes"])


def test_a_loop_that_ends_as_a_cycle_begins_makes_no_bundle_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    loop(handler := bundle_handler(tmp_path / "run"), turns=4, wait=0, warmup=0)
    assert handler.bundles == [tmp_path / "run", tmp_path / "run-2"]
    assert [read_manifest(folder).complete for folder in handler.bundles] == [True, True]
    assert handler.failures == []


def test_a_loop_that_ends_inside_the_second_of_cycles_without_a_pause(tmp_path: Path):
    loop(handler := bundle_handler(tmp_path / "run"), turns=5, wait=0, warmup=0, active=3)
    assert [read_manifest(folder).options["recorded_steps"] for folder in handler.bundles] == [3, 2]
    assert [read_manifest(folder).complete for folder in handler.bundles] == [True, False]


def test_an_exception_in_the_loop_passes_unchanged_and_is_noted(tmp_path: Path):
    handler = bundle_handler(tmp_path / "run")
    failure = ValueError("the user's own")
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=5)
    with (
        pytest.raises(ValueError, match="the user's own") as raised,
        torch.profiler.profile(activities=CPU, schedule=schedule, on_trace_ready=handler) as profiler,
    ):
        for turn in range(6):
            torch.ones(4).sum()
            if turn == 3:
                raise failure
            profiler.step()
    assert raised.value is failure
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.options["recorded_steps"], manifest.health[0].code) == (2, "exception")
    assert "ValueError" in manifest.health[0].message


def test_a_profiler_without_a_schedule_makes_a_bundle_that_says_so(tmp_path: Path):
    with torch.profiler.profile(activities=CPU, on_trace_ready=bundle_handler(tmp_path / "run")):
        torch.ones(4).sum()
    manifest = read_manifest(tmp_path / "run")
    assert "no_steps" in codes(manifest)
    assert len(load(tmp_path / "run").host) > 0


def test_a_folder_in_use_is_refused_before_the_loop(tmp_path: Path):
    loop(bundle_handler(tmp_path / "run"), turns=4)
    with pytest.raises(CaptureError, match="already holds a bundle"):
        bundle_handler(tmp_path / "run")
    loop(handler := bundle_handler(tmp_path / "run", force=True, title="new"), turns=4)
    assert read_manifest(handler.bundles[0]).title == "new"


def test_asking_for_a_handler_leaves_no_folder(tmp_path: Path):
    bundle_handler(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_said_once_and_kept_and_the_loop_runs_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run-2" / "notes.txt").write_text("mine", encoding="utf-8")
    handler = bundle_handler(tmp_path / "run")
    assert loop(handler, turns=12) == 12
    assert handler.bundles == [tmp_path / "run", tmp_path / "run-3"]
    (failure,) = handler.failures
    assert "run-2 is not empty" in str(failure)
    assert capsys.readouterr().err.count("longpole: ") == 1


def test_another_handler_that_exports_the_cycle_first_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    handler = bundle_handler(tmp_path / "run")
    first = torch.profiler.tensorboard_trace_handler(str(tmp_path / "tb"))
    assert loop(lambda profiler: (first(profiler), handler(profiler)), turns=4) == 4
    assert "no other handler that exports the same cycle" in str(handler.failures[0])
    assert not (tmp_path / "run").exists()
    assert "longpole: torch cannot write the trace" in capsys.readouterr().err


def test_a_mode_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(CaptureError, match="mode='evaluation'"):
        bundle_handler(tmp_path / "run", mode="evaluation")
