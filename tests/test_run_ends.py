"""What a program that is watched notices of it: nothing. Its output, exceptions, exit status and signals are its own."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from run_program import FEW, FIRST, LOOP, PATIENCE_S, Ran, command, environment, run_source, run_watched

pytestmark = [pytest.mark.live, pytest.mark.skipif(find_spec("torch") is None, reason="torch is needed to run programs")]
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def test_output_arguments_and_status_are_those_of_python(tmp_path: Path):
    source = LOOP + "train(30)\nprint(sys.argv, __name__, __file__, sys.path[0])\nprint('warned', file=sys.stderr)\nsys.exit(7)\n"
    ran = run_source(tmp_path, source, "--flag", "-o", "its own", options=FEW)
    plain = subprocess.run(
        [sys.executable, "train.py", "--flag", "-o", "its own"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert (ran.output, ran.status) == (plain.stdout, plain.returncode)
    assert [line for line in ran.errors.splitlines() if not line.startswith("longpole: ")] == plain.stderr.splitlines()
    assert ran.status == 7
    assert ran.manifest.complete


def test_an_exception_looks_as_it_would_have_and_what_was_recorded_is_kept(tmp_path: Path):
    source = LOOP + f"def fail(turn):\n    if turn == {FIRST + 2}:\n        net(torch.randn(2, 5))\ntrain(30, fail)\n"
    ran = run_source(tmp_path, source, options=FEW)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    theirs = ran.errors[ran.errors.index("Traceback") :].split("\nlongpole: ")[0].rstrip()
    assert theirs == plain.stderr.rstrip()
    assert ran.status == plain.returncode == 1
    assert not ran.manifest.complete
    assert ran.codes[0] == "exception"
    assert ran.manifest.options["recorded_steps"] == 3  # the call that fails comes after the third


def test_a_script_that_cannot_be_read_as_python_fails_as_python_fails(tmp_path: Path):
    ran = run_source(tmp_path, "def (:\n")
    assert ran.status == 1
    assert "SyntaxError" in ran.errors
    assert "Nothing was recorded" in ran.errors


def test_a_missing_script_is_one_sentence(tmp_path: Path):
    ran = run_watched(tmp_path, "absent.py")
    assert (ran.status, ran.errors) == (
        1,
        "longpole: absent.py is no script that can be run; name a .py file, or a module after -m.\n",
    )


def test_a_used_folder_is_refused_before_the_program_runs(tmp_path: Path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "notes.txt").write_text("mine", encoding="utf-8")
    ran = run_source(tmp_path, "print('ran')\n")
    assert (ran.status, ran.output) == (1, "")
    assert ran.errors.endswith("bundle is not empty; name a new or empty folder, or write into it with --force.\n")


def test_a_program_without_a_loop_runs_and_is_told_why_nothing_was_recorded(tmp_path: Path):
    ran = run_source(tmp_path, "print('hello')\n")
    assert (ran.status, ran.output) == (0, "hello\n")
    assert ran.errors.startswith("longpole: Nothing was recorded: no optimizer stepped")
    assert not ran.bundle.exists()


def test_a_loop_that_is_too_short_says_what_it_takes(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + "train(8)\n")
    assert ran.status == 0
    assert "The loop ran 4 steps, and a whole recording needs 28 (wait=5, warmup=3, steps=20)" in ran.errors
    assert not ran.bundle.exists()


def test_a_loop_that_ends_inside_the_window_leaves_what_there_is(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + f"train({FIRST + 3})\n", options=FEW)
    assert ran.status == 0
    assert not ran.manifest.complete
    assert ran.manifest.options["recorded_steps"] == 3
    assert ran.codes[0] == "loop_ended"


def test_a_model_can_be_copied_and_saved_whole_while_it_is_recorded(tmp_path: Path):
    saving = (
        "import copy\ndef save(turn):\n    torch.save(copy.deepcopy(net), 'net.pt')\n    torch.save(optimizer, 'optimizer.pt')\n"
    )
    ran = run_source(tmp_path, LOOP + saving + "train(30, save)\n", options=FEW)
    assert ran.status == 0, ran.errors
    for name in ("net.pt", "optimizer.pt"):
        assert b"longpole" not in (tmp_path / name).read_bytes()


WRAPPED = """
from torch.optim import optimizer as o
from torch.utils.data.dataloader import _BaseDataLoaderIter
def state():
    owned = (torch.autograd.backward, _BaseDataLoaderIter.__next__, nn.Module.__call__, torch.amp.GradScaler.step,
             torch.profiler.profile.start, *vars(nn.functional).values())
    ours = [one for one in owned if "longpole" in getattr(getattr(one, "__code__", None), "co_filename", "")]
    return len(ours), "__call__" in vars(nn.Sequential), len(o._global_optimizer_pre_hooks), len(o._global_optimizer_post_hooks)
inside = []
train(40, lambda turn: inside.append(state()))
print(max(inside) > (0, False, 0, 0), state())
"""


def test_what_was_wrapped_is_as_it_was_afterwards(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + WRAPPED, options=FEW)
    assert ran.output == "True (0, False, 0, 0)\n"


COMPILED = """
net = torch.compile(net, backend="aot_eager")
function = torch.compile(lambda x: nn.functional.mse_loss(net(x), x[:, :1]), backend="aot_eager")
train(20)
for _ in range(20):
    function(torch.randn(2, 4)).backward()
    optimizer.step()
from torch._dynamo.utils import counters
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
"""


def test_a_compiled_model_is_compiled_once(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + COMPILED, options=FEW)
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ran.output == plain.stdout
    assert ran.manifest.program["models"] == "OptimizedModule"


def test_a_profiler_of_the_program_keeps_its_table_and_longpole_records_before_or_after(tmp_path: Path):
    source = LOOP + (
        "train(8)\nwith torch.profiler.profile() as prof:\n    train(10)\nprint(sum(row.count for row in prof.key_averages()"
        " if row.key == 'aten::addmm'))\ntrain(20)\n"
    )
    ran = run_source(tmp_path, source, options=FEW)
    assert (ran.status, ran.output) == (0, "20\n")  # two layers in ten turns
    assert ran.manifest.complete
    assert ran.manifest.program["first_recorded_step"] >= 18 + 3


def test_a_profiler_around_the_whole_loop_is_left_alone_and_explained(tmp_path: Path):
    source = LOOP + "with torch.profiler.profile() as prof:\n    train(40)\nprint(len(prof.events()) > 100)\n"
    ran = run_source(tmp_path, source, options=FEW)
    assert (ran.status, ran.output) == (0, "True\n")
    assert "runs a PyTorch profiler of its own" in ran.errors
    assert not ran.bundle.exists()


def test_a_second_recording_and_a_second_pass_are_bundles_of_their_own(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + "train(80)\n", options=[*FEW, "--repeat", "2", "--detail"])
    assert ran.status == 0, ran.errors
    second = Ran(0, "", "", tmp_path / "bundle-2").manifest
    detail = Ran(0, "", "", tmp_path / "bundle" / "detail").manifest
    assert second.program["first_recorded_step"] > ran.manifest.program["first_recorded_step"]
    assert (detail.options["shapes"], detail.options["stacks"], detail.options["memory"]) == (True, True, True)
    assert not ran.manifest.options["stacks"]
    assert ran.manifest.program["detail"] == "detail"


def test_steps_are_timed_without_the_profiler_before_and_after(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + "train(40, lambda turn: time.sleep(0.01))\n", options=FEW)
    before, after = ran.manifest.unprofiled_step_ns, ran.manifest.unprofiled_after_step_ns
    assert (len(before), len(after)) == (2, 5)
    assert all(ns > 10_000_000 for ns in (*before, *after))


def test_the_program_ends_once_all_is_recorded_where_that_is_asked_for(tmp_path: Path):
    ran = run_source(tmp_path, LOOP + "try:\n    train(10**9)\nfinally:\n    print('tidied')\n", options=[*FEW, "--stop-after"])
    assert (ran.status, ran.output) == (0, "tidied\n")
    assert ran.manifest.complete


def test_a_class_that_breaks_the_watching_breaks_nothing_of_the_program(tmp_path: Path):
    source = LOOP + (
        "class Own(nn.Sequential):\n    def parameters(self, recurse=True):\n        raise ZeroDivisionError('mine')\n"
        "train(3)\nnet = Own(*net)\ntrain(20)\nprint('trained')\n"
    )
    ran = run_source(tmp_path, source, options=FEW)
    assert (ran.status, ran.output) == (0, "trained\n")
    assert "Watching the program failed, and nothing more is recorded; the program itself goes on." in ran.errors
    assert "ZeroDivisionError: mine" in ran.errors
    assert not ran.bundle.exists()


# Signals


def started(folder: Path, source: str, *options: str) -> subprocess.Popen:
    """The program, once it has printed a line."""
    (folder / "train.py").write_text(source, encoding="utf-8")
    program = subprocess.Popen(
        command(folder, *options, "train.py"), cwd=folder, env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    assert program.stdout is not None
    program.stdout.readline()
    return program


def ended(program: subprocess.Popen, folder: Path) -> Ran:
    output, errors = program.communicate(timeout=PATIENCE_S)
    return Ran(program.returncode, output, errors, folder / "bundle")


FOREVER = LOOP + "def slow(turn):\n    time.sleep(0.005)\n    if turn == {turn}:\n        print('now')\ntrain(10**9, slow)\n"
INSIDE = FOREVER.format(turn=FIRST + 2)  # it says so where two steps are recorded and many are to come
MANY = ("--steps", "100000", "--wait", "2", "--warmup", "1")


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_the_program_as_it_would_have_and_what_was_recorded_is_kept(tmp_path: Path, number: signal.Signals):
    program = started(tmp_path, INSIDE, *MANY)
    time.sleep(0.3)
    program.send_signal(number)
    ran = ended(program, tmp_path)
    assert ran.status == -number
    assert ("KeyboardInterrupt" in ran.errors) == (number == signal.SIGINT)
    assert not ran.manifest.complete
    assert ran.manifest.options["recorded_steps"] >= 2
    assert ran.codes[0] == "exception"


@posix
def test_a_signal_that_the_program_handles_is_its_own(tmp_path: Path):
    handler = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (print('mine'), sys.exit(3)))\n"
    program = started(tmp_path, handler + INSIDE, *MANY)
    program.send_signal(signal.SIGTERM)
    ran = ended(program, tmp_path)
    assert (ran.status, ran.output) == (3, "mine\n")
    assert not ran.manifest.complete


@posix
@pytest.mark.parametrize("way", ["signal", "file"])
def test_a_running_program_is_recorded_when_somebody_asks(tmp_path: Path, way: str):
    asked = tmp_path / "record-now"
    turn = 20  # long after a recording could have begun by itself
    program = started(tmp_path, FOREVER.format(turn=turn), *FEW, "--on-demand", str(asked), "--stop-after")
    program.send_signal(signal.SIGUSR1) if way == "signal" else asked.touch()
    ran = ended(program, tmp_path)
    assert ran.status == 0, ran.errors
    assert ran.manifest.complete
    assert ran.manifest.program["first_recorded_step"] > turn
