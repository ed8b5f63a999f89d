"""record(): steps counted, phases marked, one whole bundle or a CaptureError, and never an error of ours in the loop."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longpole.capture import record
from longpole.capture.bundle import is_bundle, read_manifest, verified
from longpole.capture.errors import CaptureError
from longpole.capture.health import checked, notes
from longpole.capture.recorder import phase_range
from longpole.capture.staging import move_all

torch = pytest.importorskip("torch")

CPU = [torch.profiler.ProfilerActivity.CPU]
PLAN = {"steps": 3, "wait": 2, "warmup": 1}
NEEDED = 6


def work() -> None:
    torch.ones(4).sum()


def run_loop(folder: Path, turns: int = NEEDED, **options: Any) -> list[int]:
    with record(folder, **PLAN | options) as rec:
        return [work() or turn for turn in rec.steps(range(turns))]


def events(folder: Path) -> list[dict[str, Any]]:
    manifest = read_manifest(folder)
    trace = verified(folder, manifest.ranks[0].trace)
    return json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]


def ranges(folder: Path, prefix: str) -> list[str]:
    marked = [event for event in events(folder) if event.get("cat") == "user_annotation" and event["name"].startswith(prefix)]
    return [event["name"] for event in sorted(marked, key=lambda event: event["ts"])]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_trace_holds_the_steps_that_were_asked_for(tmp_path: Path):
    run_loop(tmp_path / "run")
    assert len(ranges(tmp_path / "run", "ProfilerStep#")) == 3
    manifest = read_manifest(tmp_path / "run")
    assert manifest.complete
    assert manifest.options["recorded_steps"] == 3
    assert [note.code for note in manifest.health] == ["no_shapes"]


def test_the_loop_gets_every_item_and_runs_to_its_end(tmp_path: Path):
    assert run_loop(tmp_path / "run", turns=20) == list(range(20))
    assert len(ranges(tmp_path / "run", "ProfilerStep#")) == 3


def test_a_loop_of_exactly_the_steps_needed_is_complete(tmp_path: Path):
    run_loop(tmp_path / "run", turns=NEEDED)
    assert read_manifest(tmp_path / "run").complete


def test_unprofiled_steps_are_whole_steps_with_their_data_loading(tmp_path: Path):
    def slow_items() -> Iterator[int]:
        for item in range(NEEDED):
            time.sleep(0.010)
            yield item

    with record(tmp_path / "run", **PLAN) as rec:
        time.sleep(0.200)  # belongs to no step
        for _ in rec.steps(slow_items()):
            time.sleep(0.020)
    unprofiled = read_manifest(tmp_path / "run").unprofiled_step_ns
    assert len(unprofiled) == 2
    assert all(30e6 <= step_ns < 200e6 for step_ns in unprofiled)


def test_profiled_and_unprofiled_steps_measure_the_same_thing(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(range(NEEDED)):
            time.sleep(0.050)
    profiled_ns = [e["dur"] * 1e3 for e in events(tmp_path / "run") if e["name"].startswith("ProfilerStep#")]
    unprofiled_ns = read_manifest(tmp_path / "run").unprofiled_step_ns
    assert min(profiled_ns) == pytest.approx(min(unprofiled_ns), rel=0.2)


def test_phases_are_in_the_trace_in_their_order(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(range(NEEDED)):
            with rec.phase("forward"):
                work()
    assert ranges(tmp_path / "run", "longpole.phase#") == ["longpole.phase#data_loading", "longpole.phase#forward"] * 3


def test_a_phase_name_keeps_only_what_kineto_keeps():
    assert phase_range('évaluation "a\\b"\n') == "longpole.phase#evaluation ab"
    assert phase_range("日本") == "longpole.phase#unnamed"


def test_a_loop_that_is_no_iterable_calls_step(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        turns = 0
        while not rec.done:
            work()
            rec.step()
            turns += 1
        rec.step()  # after the window it does nothing
    assert turns == NEEDED
    assert ranges(tmp_path / "run", "longpole.phase#") == []
    assert len(ranges(tmp_path / "run", "ProfilerStep#")) == 3


def test_steps_go_on_over_several_epochs(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in range(3):
            for _ in rec.steps(range(2)):
                work()
    assert read_manifest(tmp_path / "run").complete
    assert len(ranges(tmp_path / "run", "ProfilerStep#")) == 3


def test_the_bundle_is_in_place_as_soon_as_the_window_is_over(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in range(NEEDED):
            assert not is_bundle(tmp_path / "run")
            rec.step()
        assert rec.done
        assert is_bundle(tmp_path / "run")


def test_a_recording_without_wait_steps_works(tmp_path: Path):
    run_loop(tmp_path / "run", wait=0)
    assert read_manifest(tmp_path / "run").unprofiled_step_ns == ()
    assert len(ranges(tmp_path / "run", "ProfilerStep#")) == 3


def test_every_file_is_listed_with_its_sum_and_nothing_else_is_left(tmp_path: Path):
    run_loop(tmp_path / "run", shapes=True)
    rank = read_manifest(tmp_path / "run").ranks[0]
    listed = [file for file in (rank.trace, rank.key_averages, rank.key_averages_by_shape) if file is not None]
    assert {verified(tmp_path / "run", file).name for file in listed} | {"manifest.json"} == set(files(tmp_path / "run"))
    assert len(listed) == 3


def test_the_snapshot_is_that_of_the_recorded_steps(tmp_path: Path):
    run_loop(tmp_path / "run")
    rows = json.loads((tmp_path / "run" / "rank0.key_averages.json").read_bytes())["rows"]
    counts = {row["key"]: row["count"] for row in rows}
    assert counts["ProfilerStep*"] == 3
    assert counts["aten::sum"] == 3


def test_the_manifest_says_what_the_recorder_was_told(tmp_path: Path):
    model = torch.nn.Linear(3, 2)
    told = {"title": "base", "mode": "training", "samples_per_step": 8, "seed": 7, "program": {"variant": "x"}}
    run_loop(tmp_path / "run", model=model, **told)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.title, manifest.mode, manifest.samples_per_step) == ("base", "training", 8)
    assert manifest.program["seed"] == 7
    assert manifest.program["variant"] == "x"
    assert manifest.program["parameters"] == 8
    assert manifest.options["wait"] == 2


@pytest.mark.parametrize("option", ["shapes", "stacks", "memory"])
def test_an_option_shows_in_the_trace(tmp_path: Path, option: str):
    run_loop(tmp_path / "run", **{option: True})
    text = gzip.decompress((tmp_path / "run" / "rank0.trace.json.gz").read_bytes())
    assert {"shapes": b"Input Dims", "stacks": b"python_function", "memory": b"[memory]"}[option] in text
    assert read_manifest(tmp_path / "run").complete


def test_an_existing_bundle_is_refused_on_entering(tmp_path: Path):
    run_loop(tmp_path / "run")
    before = files(tmp_path / "run")
    with pytest.raises(CaptureError, match=r"already holds a bundle; .* with force=True\.$"):
        run_loop(tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_a_folder_with_other_files_is_refused(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(CaptureError, match="not empty"):
        run_loop(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path):
    (tmp_path / "run").write_text("mine", encoding="utf-8")
    with pytest.raises(CaptureError, match="cannot be written"):
        run_loop(tmp_path / "run")


def test_force_replaces_the_bundle_and_leaves_other_files_alone(tmp_path: Path):
    run_loop(tmp_path, title="old", shapes=True)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    run_loop(tmp_path, title="new", force=True)
    assert read_manifest(tmp_path).title == "new"
    assert set(files(tmp_path)) == {"manifest.json", "notes.txt", "rank0.key_averages.json", "rank0.trace.json.gz"}


def test_force_keeps_the_old_bundle_when_the_new_recording_fails(tmp_path: Path):
    run_loop(tmp_path)
    before = files(tmp_path)
    with pytest.raises(CaptureError, match="ran 2 steps"):
        run_loop(tmp_path, turns=2, force=True)
    assert files(tmp_path) == before


def test_files_that_were_moved_go_back_when_a_later_one_fails(tmp_path: Path):
    (tmp_path / "old").write_text("old", encoding="utf-8")
    moves = [(tmp_path / "old", tmp_path / "aside"), (tmp_path / "missing", tmp_path / "old")]
    with pytest.raises(FileNotFoundError):
        move_all(moves)
    assert files(tmp_path) == {"old": b"old"}


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_loop_that_ends_before_the_window_leaves_nothing_and_says_how_many_steps_it_needs(tmp_path: Path, turns: int):
    with pytest.raises(CaptureError, match=f"ran {turns} steps, and a whole recording needs {NEEDED}"):
        run_loop(tmp_path / "run", turns=turns)
    assert not (tmp_path / "run").exists()


def test_a_loop_that_ends_inside_the_window_leaves_an_incomplete_bundle(tmp_path: Path):
    run_loop(tmp_path / "run", turns=5)
    manifest = read_manifest(tmp_path / "run")
    assert not manifest.complete
    assert manifest.options["recorded_steps"] == 2
    assert [note.code for note in manifest.health] == ["loop_ended", "no_shapes"]


def test_an_exception_in_the_loop_passes_unchanged_and_keeps_what_was_recorded(tmp_path: Path):
    failure = ValueError("the user's own")
    with pytest.raises(ValueError, match="the user's own") as raised, record(tmp_path / "run", **PLAN) as rec:
        for turn in rec.steps(range(NEEDED)):
            work()
            if turn == 4:
                raise failure
    assert raised.value is failure
    assert (failure.__cause__, failure.__context__) == (None, None)
    manifest = read_manifest(tmp_path / "run")
    assert not manifest.complete
    assert manifest.options["recorded_steps"] == 1
    assert (manifest.health[0].code, "ValueError" in manifest.health[0].message) == ("exception", True)


@pytest.mark.parametrize("turn_of_failure", [0, 1, 2])
def test_an_exception_before_the_window_passes_unchanged_and_leaves_nothing(tmp_path: Path, turn_of_failure: int):
    with pytest.raises(KeyboardInterrupt), record(tmp_path / "run", **PLAN) as rec:
        for turn in rec.steps(range(NEEDED)):
            if turn == turn_of_failure:
                raise KeyboardInterrupt
    assert not (tmp_path / "run").exists()
    run_loop(tmp_path / "run")  # and nothing is left running


def test_an_exception_after_the_window_leaves_the_complete_bundle(tmp_path: Path):
    with pytest.raises(ValueError, match="late"), record(tmp_path / "run", **PLAN) as rec:
        for turn in rec.steps(range(20)):
            if turn == 10:
                raise ValueError("late")
    assert read_manifest(tmp_path / "run").complete


def test_an_exception_of_the_items_passes_unchanged(tmp_path: Path):
    def items() -> Iterator[int]:
        yield from range(4)
        raise ConnectionError("the loader's own")

    with pytest.raises(ConnectionError), record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(items()):
            work()
    assert read_manifest(tmp_path / "run").options["recorded_steps"] == 1


def test_a_running_profiler_is_refused_on_entering(tmp_path: Path):
    with torch.profiler.profile(activities=CPU), pytest.raises(CaptureError, match="already running"):
        run_loop(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("first", "last", "turns"), [(4, 4, 5), (4, 4, 10), (3, 5, 10), (2, 4, 10)])
def test_a_profiler_of_the_loop_that_takes_the_steps_away_is_reported_on_leaving(
    tmp_path: Path, first: int, last: int, turns: int
):
    other = torch.profiler.profile(activities=CPU)
    turns_done = []
    with pytest.raises(CaptureError), record(tmp_path / "run", **PLAN) as rec:
        for turn in rec.steps(range(turns)):
            if turn == first:
                other.start()
            if turn == last:
                other.stop()
            turns_done.append(turn)
    assert turns_done == list(range(turns))
    assert not (tmp_path / "run").exists()


def test_a_folder_that_vanishes_is_reported_on_leaving_and_not_in_the_loop(tmp_path: Path):
    turns_done = 0
    with pytest.raises(CaptureError), record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(range(10)):
            turns_done += 1
            if turns_done == NEEDED:
                (tmp_path / "run").rename(tmp_path / "moved")
    assert turns_done == 10


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"wait": -1}, {"warmup": 0}, {"mode": "evaluation"}])
def test_a_plan_that_cannot_work_is_refused_on_entering(tmp_path: Path, wrong: dict):
    with pytest.raises(CaptureError):
        run_loop(tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_a_trace_that_lacks_steps_or_kernels_is_noted(tmp_path: Path):
    run_loop(tmp_path / "run")
    check = checked(tmp_path / "run" / "rank0.trace.json.gz")
    missing = notes(check, expected_step_ranges=4, kernels_expected=True)
    assert [note.code for note in missing] == ["steps_missing", "kernels_missing"]
    assert notes(check, expected_step_ranges=3, kernels_expected=False) == []


def test_a_step_counts_once_although_the_gpu_marks_it_too(tmp_path: Path):
    kinds = ["user_annotation", "gpu_user_annotation", "kernel"]
    marked = [{"ph": "X", "cat": kind, "name": "ProfilerStep#2", "ts": 0, "dur": 1} for kind in kinds]
    path = tmp_path / "rank0.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": marked}).encode()))
    check = checked(path)
    assert (check.step_ranges, check.kernels) == (1, 1)
    assert notes(check, expected_step_ranges=1, kernels_expected=True) == []


def test_a_trace_that_is_not_json_is_noted(tmp_path: Path):
    path = tmp_path / "rank0.trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "name": "a"b"}]}'))
    check = checked(path)
    assert (check.events, check.step_ranges) == (1, None)
    assert [note.code for note in notes(check, expected_step_ranges=3, kernels_expected=False)] == ["trace_invalid"]


def test_a_range_name_that_breaks_the_trace_is_said_and_nothing_is_lost(tmp_path: Path):
    try:
        with record(tmp_path / "run", **PLAN) as rec:
            for _ in rec.steps(range(NEEDED)):
                with torch.profiler.record_function('the user"s own'):
                    work()
    except CaptureError as failure:  # torch up to 2.13 writes the quote as it is
        assert "rename it and capture again" in str(failure)
        manifest = read_manifest(tmp_path / "run")
        assert (manifest.complete, {note.code for note in manifest.health}) == (False, {"no_shapes", "trace_invalid"})
    else:
        assert read_manifest(tmp_path / "run").complete


def test_nothing_is_written_on_stderr_and_the_environment_is_left_as_it_was(tmp_path: Path):
    code = (
        "import os, sys\nfrom longpole.capture import record\nbefore = dict(os.environ)\n"
        "with record(sys.argv[1], steps=1, wait=1, warmup=1) as rec:\n    list(rec.steps(range(5)))\n"
        "assert dict(os.environ) == before"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_longpole_capture_does_not_import_torch():
    code = "import sys, longpole.capture, longpole.capture.workloads; print('torch' in sys.modules, 'gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_cpu_time_of_the_unprofiled_steps_tells_waiting_from_work(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(range(NEEDED)):
            time.sleep(0.02)
    manifest = read_manifest(tmp_path / "run")
    assert 0 < manifest.options["unprofiled_cpu_ns"] < sum(manifest.unprofiled_step_ns) / 2


def test_the_workers_of_a_loader_are_noted(tmp_path: Path):
    loader = torch.utils.data.DataLoader(list(range(NEEDED)))
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(loader):
            pass
    assert read_manifest(tmp_path / "run").options["loader_workers"] == 0
    run_loop(tmp_path / "other")
    assert read_manifest(tmp_path / "other").options["loader_workers"] is None
