"""What can go wrong around record(), each provoked: what the user is told, what is kept, and that the loop notices nothing.

Loops that are too short, exceptions, profilers of torch.profiler and folders in use stand in test_record.py.
"""

import asyncio
import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from test_record import NEEDED, PLAN, events, files, ranges, run_loop, work

from longpole.capture import record
from longpole.capture.bundle import read_manifest
from longpole.capture.errors import CaptureError
from longpole.capture.health import checked
from longpole.capture.staging import discard, move_all, prepared
from longpole.capture.termination import Termination

torch = pytest.importorskip("torch")
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has none of this")
FULL = Path("/dev/full")  # whatever is written into it: the disk is full
IN_WINDOW, LAST = 4, NEEDED - 1  # turns: one inside the window, and the one that ends it


def codes(folder: Path) -> list[str]:
    return [note.code for note in read_manifest(folder).health]


def run_with(folder: Path, inside: Callable[[int], object], turns: int = NEEDED + 4, **options: Any) -> list[int]:
    """Turns that the loop did; each does `inside` at its end."""
    done = []
    with record(folder, **PLAN | options) as rec:
        for turn in rec.steps(range(turns)):
            work()
            inside(turn)
            done.append(turn)
    return done


# The disk


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond; Python ignores the signal, so that writing fails as on a full disk."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@posix
@pytest.mark.parametrize("size_bytes", [0, 1000])
def test_a_trace_that_torch_cannot_write_is_said_and_the_older_bundle_stays(
    tmp_path: Path, size_bytes: int, capfd: pytest.CaptureFixture[str]
):
    run_loop(tmp_path / "run", title="old")
    before, turns = files(tmp_path / "run"), []
    with (
        capfd.disabled(),
        pytest.raises(CaptureError, match=r"could not be written into .*run .*free space there"),
        record(tmp_path / "run", **PLAN, force=True) as rec,
    ):
        for turn in range(NEEDED + 4):
            work()
            turns.append(turn)
            with largest_file(size_bytes) if turn == LAST else nullcontext():
                rec.step()
    assert turns == list(range(NEEDED + 4))
    assert files(tmp_path / "run") == before


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["rank0.trace.json.gz", ".rank0.key_averages.json.PID.tmp", ".manifest.json.PID.tmp"])
def test_a_disk_that_is_full_when_the_bundle_is_made_is_said_and_the_older_bundle_stays(tmp_path: Path, name: str):
    run_loop(tmp_path / "run", title="old")
    before, done = files(tmp_path / "run"), []

    def fill(turn: int) -> None:
        done.append(turn)
        if turn == IN_WINDOW:
            next((tmp_path / "run").glob(".capture-*")).joinpath(name.replace("PID", str(os.getpid()))).symlink_to(FULL)

    with pytest.raises(CaptureError, match=r"could not be written into .*No space left on device"):
        run_with(tmp_path / "run", fill, force=True)
    assert done == list(range(NEEDED + 4))
    assert files(tmp_path / "run") == before


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_times_after_the_window_that_cannot_be_written_leave_the_bundle_whole(tmp_path: Path):
    def fill(turn: int) -> None:
        if turn == LAST + 1:
            (tmp_path / "run" / f".manifest.json.{os.getpid()}.tmp").symlink_to(FULL)

    with pytest.raises(CaptureError, match="is whole and lacks only the times of the steps after the profiler"):
        run_with(tmp_path / "run", fill)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.complete, manifest.unprofiled_after_step_ns) == (True, ())
    assert not list((tmp_path / "run").glob(".*"))


def test_a_trace_that_was_cut_off_is_no_bad_name(tmp_path: Path):
    path = tmp_path / "rank0.trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "name": "aten::ad'))
    problem = checked(path).problem
    assert problem is not None
    assert (problem.code, problem.message) == ("trace_invalid", "The trace that torch wrote is cut off: free disk space.")


# Folders


def test_a_folder_that_the_loop_removes_is_named(tmp_path: Path):
    with pytest.raises(
        CaptureError, match="run was removed while it was recorded into; name a folder that the program leaves alone"
    ):
        run_with(tmp_path / "run", lambda turn: turn == IN_WINDOW and shutil.rmtree(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_bundle_lands_where_it_was_asked_for_though_the_loop_changes_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    def change(turn: int) -> None:
        if turn == 0:
            os.chdir("elsewhere")
            if os.name != "nt":
                (tmp_path / "elsewhere").rmdir()

    run_with(Path("run"), change)
    assert read_manifest(tmp_path / "run").complete


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_recording_and_what_a_living_one_makes_is_not(tmp_path: Path):
    code = "import os, sys\nfrom pathlib import Path\nfrom longpole.capture.staging import prepared\n"
    code += "prepared(Path(sys.argv[1]), force=False)\nos._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
    assert len(list((tmp_path / "run").glob(".capture-*"))) == 1
    living = prepared(tmp_path / "run", force=False)
    assert list((tmp_path / "run").iterdir()) == [living.hidden]
    with pytest.raises(CaptureError, match="is not empty"):
        prepared(tmp_path / "run", force=False)
    discard(living)
    run_loop(tmp_path / "run")
    assert {name for name in files(tmp_path / "run") if name.startswith(".")} == set()


def test_ctrl_c_while_files_are_put_in_place_puts_the_older_ones_back(tmp_path: Path):
    (tmp_path / "old").write_text("old", encoding="utf-8")

    class Interrupted(list):
        def __iter__(self) -> Iterator[tuple[Path, Path]]:
            yield tmp_path / "old", tmp_path / "aside"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_all(Interrupted())
    assert files(tmp_path) == {"old": b"old"}


@posix
def test_ctrl_c_while_the_bundle_is_made_is_the_programs_and_the_older_bundle_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run_loop(tmp_path / "run", title="old")
    before = files(tmp_path / "run")

    def interrupt(turn: int) -> None:
        if turn == LAST:  # nobody reads what is written there, so that writing waits for the signal
            os.mkfifo(next((tmp_path / "run").glob(".capture-*")) / "rank0.trace.json.gz")
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        run_with(tmp_path / "run", interrupt, force=True)
    assert "KeyboardInterrupt came while the recording was written; nothing of it is kept." in capsys.readouterr().err
    assert files(tmp_path / "run") == before
    run_loop(tmp_path / "other")  # and nothing is left running


@posix
def test_ctrl_c_while_torch_reads_its_events_back_is_the_programs_and_the_trace_is_kept(tmp_path: Path):
    def press(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "key_averages":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_with(tmp_path / "run", lambda turn: sys.setprofile(press) if turn == LAST - 1 else None)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.complete, manifest.health[0].code) == (True, "snapshot_interrupted")
    assert manifest.ranks[0].key_averages is None
    run_loop(tmp_path / "other")  # and nothing is left running


# How a loop ends


def test_a_recording_that_fails_beside_an_exception_of_the_loop_is_told_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def fail(turn: int) -> None:
        if turn == 1:
            raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        run_with(tmp_path / "run", fail)
    assert capsys.readouterr().err.startswith("longpole: The loop ran 1 steps, and a whole recording needs 6")
    assert not (tmp_path / "run").exists()


def test_a_stderr_that_is_closed_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (tmp_path / "errors").open("w") as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        with record(tmp_path / "run", **PLAN) as rec:
            for turn in rec.steps(range(NEEDED - 1)):
                work()
                if turn == 0:
                    closed.close()
    assert codes(tmp_path / "run")[0] == "loop_ended"


def test_a_generator_that_nobody_goes_on_with_is_no_exception(tmp_path: Path):
    def losses() -> Iterator[int]:
        with record(tmp_path / "run", **PLAN) as rec:
            for turn in rec.steps(range(100)):
                with rec.phase("forward"):
                    work()
                yield turn

    for turn in losses():
        if turn == IN_WINDOW:
            break
    assert codes(tmp_path / "run")[0] == "loop_ended"
    assert read_manifest(tmp_path / "run").options["recorded_steps"] == 1


def test_a_loop_of_coroutines_is_recorded_like_any_other(tmp_path: Path):
    async def train() -> None:
        with record(tmp_path / "run", **PLAN) as rec:
            for _ in rec.steps(range(NEEDED)):
                with rec.phase("forward"):
                    await asyncio.sleep(0.001)
                    work()

    asyncio.run(train())
    assert read_manifest(tmp_path / "run").complete
    assert ranges(tmp_path / "run", "longpole.phase#").count("longpole.phase#forward") == 3


def test_a_phase_that_raises_something_ends_there(tmp_path: Path):
    with record(tmp_path / "run", **PLAN) as rec:
        for _ in rec.steps(range(NEEDED)):
            try:
                with rec.phase("forward"):
                    work()
                    raise RuntimeError("out of memory")
            except RuntimeError:
                time.sleep(0.020)
    manifest = read_manifest(tmp_path / "run")
    assert manifest.complete
    forward = [event for event in events(tmp_path / "run") if event["name"] == "longpole.phase#forward"]
    assert len([event for event in forward if event["dur"] < 20_000]) == 3


TERMINATED = """
import os, signal, sys
import torch
from longpole.capture import record
with record(sys.argv[1], steps=3, wait=2, warmup=1) as rec:
    for turn in rec.steps(range(100)):
        torch.ones(4).sum()
        if turn == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGTERM)
"""


@posix
def test_sigterm_ends_the_program_and_keeps_what_was_recorded(tmp_path: Path):
    command = [sys.executable, "-c", TERMINATED, str(tmp_path / "run"), str(IN_WINDOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM
    assert done.stderr.startswith("longpole: SIGTERM ended the program after 1 of 3 recorded steps;")
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.complete, manifest.options["recorded_steps"], codes(tmp_path / "run")[0]) == (False, 1, "exception")
    assert not list((tmp_path / "run").glob(".*"))


@posix
def test_sigterm_is_handled_only_while_a_profiler_runs_and_never_in_a_forked_process(tmp_path: Path):
    handled, forked = [], []

    def look(turn: int) -> None:
        handled.append(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
        if turn == IN_WINDOW:
            child = os.fork()
            if child == 0:
                os._exit(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
            forked.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    run_with(tmp_path / "run", look, after=1)
    assert (handled[0], handled[IN_WINDOW], handled[-1]) == (False, True, False)
    assert forked == [0]


@posix
def test_sigterm_waits_for_what_must_not_be_cut_in_two():
    class Acted(Exception):  # noqa: N818 - it is raised to keep this process alive
        pass

    def act() -> None:
        raise Acted

    termination, done = Termination(act), []
    termination.arm()
    try:
        with pytest.raises(Acted), termination.held():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("moved")
    finally:
        termination.disarm()
    assert done == ["moved"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@posix
def test_a_forked_process_that_leaves_the_block_takes_nothing_away(tmp_path: Path):
    class Child(BaseException):
        pass

    def fork(turn: int) -> None:
        if turn == IN_WINDOW:
            child = os.fork()
            if child == 0:
                raise Child
            assert os.waitpid(child, 0)[1] == 0

    try:
        run_with(tmp_path / "run", fork)
    except Child:
        os._exit(0)
    assert read_manifest(tmp_path / "run").complete


# Other profilers, other threads


@pytest.mark.parametrize("turn_of_profiler", [IN_WINDOW - 1, IN_WINDOW, LAST])
def test_the_older_profiler_of_autograd_inside_the_loop_is_said_on_leaving(tmp_path: Path, turn_of_profiler: int):
    done = []

    def profile(turn: int) -> None:
        done.append(turn)
        if turn == turn_of_profiler:
            with torch.autograd.profiler.profile():
                work()

    with pytest.raises(CaptureError, match="profiler"):
        run_with(tmp_path / "run", profile)
    assert done == list(range(NEEDED + 4))
    assert not (tmp_path / "run").exists()
    run_loop(tmp_path / "run")  # and nothing is left running


@contextmanager
def threads(*works: Callable[[], object]) -> Iterator[None]:
    """Each does its work again and again."""
    stop = threading.Event()

    def run(one: Callable[[], object]) -> None:
        while not stop.is_set():
            one()

    running = [threading.Thread(target=run, args=(one,), name=one.__name__) for one in works]
    for thread in running:
        thread.start()
    yield
    stop.set()
    for thread in running:
        thread.join()


def train_elsewhere() -> None:
    torch.ones(64, 64) @ torch.ones(64, 64)


def idle() -> None:
    time.sleep(0.001)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux says what threads take")
def test_a_thread_that_works_beside_the_loop_is_named_and_one_that_waits_is_not(tmp_path: Path):
    with threads(train_elsewhere, idle):
        run_with(tmp_path / "run", lambda turn: time.sleep(0.2), turns=NEEDED)  # long, for a busy machine
    (note,) = [note for note in read_manifest(tmp_path / "run").health if note.code == "threads_unseen"]
    assert "train_elsewhere (" in note.message
    assert "idle (" not in note.message
    assert {event["tid"] for event in events(tmp_path / "run") if event.get("cat") == "cpu_op"} == {os.getpid()}


def _pin_memory_loop() -> None:
    train_elsewhere()


def test_the_thread_of_a_loader_that_pins_memory_is_no_reason_to_worry(tmp_path: Path):
    from torch.utils.data._utils import pin_memory

    assert pin_memory._pin_memory_loop.__name__ == _pin_memory_loop.__name__  # torch starts one only where there is a GPU
    with threads(_pin_memory_loop):
        run_with(tmp_path / "run", lambda turn: time.sleep(0.02))
    assert codes(tmp_path / "run") == ["no_shapes"]


def test_threads_of_autograd_and_of_a_progress_bar_are_no_reason_to_worry(tmp_path: Path):
    model, hooked = torch.nn.Linear(64, 64), []
    model.weight.register_hook(lambda gradient: hooked.append(threading.current_thread().name))
    with threads(idle):
        run_with(tmp_path / "run", lambda turn: model(torch.ones(8, 64)).sum().backward())
    assert hooked
    assert codes(tmp_path / "run") == ["no_shapes"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_was_recorded_and_left_no_kernel_is_noted(tmp_path: Path):
    torch.cuda.init()
    run_loop(tmp_path / "run")
    assert "kernels_missing" in codes(tmp_path / "run")


def test_a_bundle_is_written_once_however_long_the_loop_goes_on(tmp_path: Path):
    with record(tmp_path / "run", **PLAN, after=0) as rec:
        for _ in range(NEEDED):
            rec.step()
        before = files(tmp_path / "run")
        for _ in range(2 * NEEDED):
            rec.step()
    assert files(tmp_path / "run") == before
