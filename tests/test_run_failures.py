"""What can go wrong around `longpole run`, each provoked: what the user is told, what is kept; the program notices nothing.

Exceptions, signals and profilers of torch.profiler stand in test_run_ends.py.
"""

import gzip
import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from run_program import FEW, FIRST, LOOP, Ran
from warm_runs import WarmRuns

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is needed to run programs"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked from one that has imported torch"),
]
FULL = Path("/dev/full")
IN_WINDOW = FIRST + 1
RECORDED = "longpole: recorded bundle; to explain it: longpole report bundle\n"


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmRuns]:
    with WarmRuns() as server:
        yield server


def phases(ran: Ran) -> list[dict]:
    """Of the trace, in their order."""
    found = json.loads(gzip.decompress((ran.bundle / "rank0.trace.json.gz").read_bytes()))["traceEvents"]
    marked = [event for event in found if event.get("cat") == "user_annotation" and event["name"].startswith("longpole.phase#")]
    return sorted(marked, key=lambda event: event["ts"])


def assert_whole(ran: Ran, output: str = "") -> None:
    assert (ran.status, ran.output, ran.errors) == (0, output, RECORDED)
    assert ran.manifest.complete
    assert not list(ran.bundle.glob(".*"))


# Exceptions that the program catches


CAUGHT = """
class Moody(torch.optim.SGD):
    turns = 0
    def step(self, closure=None):
        self.turns += 1
        if self.turns == {turn} + 2:
            raise RuntimeError("moody")
        return super().step(closure)
optimizer = Moody(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled={scaled})
for turn in range(40):
    try:
        optimizer.zero_grad()
        loss = net(torch.randn(2, 5 if turn == {turn} else 4)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    except (RuntimeError, AssertionError):
        pass
"""


@pytest.mark.parametrize("scaled", [False, True], ids=["optimizer", "scaler"])
@pytest.mark.parametrize("turn", [1, IN_WINDOW - 2])  # in a turn that is watched, and in one that is recorded
def test_a_loop_that_catches_what_a_forward_and_an_optimizer_raise_is_recorded(
    warm: WarmRuns, tmp_path: Path, turn: int, scaled: bool
):
    ran = warm.run(tmp_path, LOOP + CAUGHT.format(turn=turn, scaled=scaled), *FEW)
    assert_whole(ran)
    marked = phases(ran)
    assert {event["name"].partition("#")[2] for event in marked} >= {"forward", "backward", "optimizer"}
    apart = [pair for pair in pairwise(marked) if pair[0]["name"] != pair[1]["name"]]  # an optimizer calls that of its base class
    assert all(before["ts"] + before["dur"] <= after["ts"] for before, after in apart)  # none is left open
    assert [event["name"] for event in marked].count("longpole.phase#backward") >= 4


# Folders and streams


def test_the_bundle_lands_where_it_was_asked_for_though_the_program_changes_its_directory_and_removes_it(
    warm: WarmRuns, tmp_path: Path
):
    source = "import os\nos.mkdir('elsewhere')\nos.chdir('elsewhere')\nos.rmdir('../elsewhere')\n"
    assert_whole(warm.run(tmp_path, LOOP + source + "train(40)\n", *FEW))


def test_a_program_that_removes_its_output_folder_is_told(warm: WarmRuns, tmp_path: Path):
    ran = warm.run(tmp_path, LOOP + "import shutil\nshutil.rmtree('bundle')\ntrain(40)\nprint('end')\n")
    assert (ran.status, ran.output) == (0, "end\n")
    assert "bundle was removed while it was recorded into; name a folder that the program leaves alone.\n" in ran.errors


REPLACED = "sys.stdout, sys.stderr = open('own.txt', 'w'), open('heard.txt', 'w')\n"
CLOSED = "sys.stdout.close()\nsys.stderr.close()\n"


@pytest.mark.parametrize("streams", [REPLACED, CLOSED], ids=["replaced", "closed"])
def test_a_program_that_takes_its_streams_away_keeps_its_bundle_and_status(warm: WarmRuns, tmp_path: Path, streams: str):
    ran = warm.run(tmp_path, LOOP + streams + f"train({FIRST + 3})\nsys.exit(5)\n", *FEW)
    assert (ran.status, ran.output) == (5, "")
    assert ran.codes[0] == "loop_ended"
    if streams is REPLACED:
        assert (tmp_path / "heard.txt").read_text() == ""
        assert ran.errors.endswith(RECORDED)


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_leaves_the_program_and_the_older_bundle_alone(warm: WarmRuns, tmp_path: Path):
    whole = warm.run(tmp_path, LOOP + "train(40)\n", *FEW)
    before = {path.name: path.read_bytes() for path in whole.bundle.iterdir()}
    fill = (
        "import glob, os\ndef fill(turn):\n    if turn == 8:\n"
        "        os.symlink('/dev/full', glob.glob('bundle/.capture-*')[0] + '/rank0.trace.json.gz')\n"
    )
    ran = warm.run(tmp_path, LOOP + fill + "train(40, fill)\nsys.exit(9)\n", *FEW, "--force")
    assert ran.status == 9
    assert "No space left on device); free space there, or name another folder.\n" in ran.errors
    assert {path.name: path.read_bytes() for path in ran.bundle.iterdir()} == before


def test_what_a_program_that_ends_at_once_leaves_is_no_obstacle_to_the_next_one(warm: WarmRuns, tmp_path: Path):
    ran = warm.run(tmp_path, LOOP + f"import os\ntrain({IN_WINDOW})\nos._exit(3)\n", *FEW)
    assert (ran.status, len(list(ran.bundle.glob(".capture-*")))) == (3, 1)
    assert_whole(warm.run(tmp_path, LOOP + "train(40)\n", *FEW))


STUCK = """
import glob, os, signal, threading
def come(fifo):
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.3)
    open(fifo, "rb").read()  # until then writing waits; then it fails, for this is no file
def get_stuck(turn):
    if turn == 8:
        fifo = glob.glob("bundle/.capture-*")[0] + f"/.manifest.json.{os.getpid()}.tmp"
        os.mkfifo(fifo)
        threading.Thread(target=come, args=(fifo,), daemon=True).start()
train(10**9, get_stuck)
"""


def test_sigterm_while_writing_fails_ends_the_program_and_leaves_the_older_bundle(warm: WarmRuns, tmp_path: Path):
    whole = warm.run(tmp_path, LOOP + "train(40)\n", *FEW)
    before = {path.name: path.read_bytes() for path in whole.bundle.iterdir()}
    ran = warm.run(tmp_path, LOOP + STUCK, *FEW, "--force")
    assert (ran.status, ran.output) == (-15, "")
    assert ran.errors == "longpole: SIGTERM came while the recording was written; nothing of it is kept.\n"
    assert {path.name: path.read_bytes() for path in ran.bundle.iterdir()} == before


# Processes and threads


LOADER = """
import os, signal
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 24
    def __getitem__(self, index):
        torch.ones(3).sum()
        told = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "longpole.capture.recorder" in sys.modules
        with open(f"{METHOD}-{os.getpid()}.txt", "w") as file:
            print(*told, file=file)
        return torch.randn(4)
if __name__ == "__main__":
    for _ in range(TURNS):
        loader = DataLoader(Data(), batch_size=2, num_workers=2, multiprocessing_context=METHOD)
        for batch in loader:
            optimizer.zero_grad()
            net(batch).sum().backward()
            optimizer.step()
    import multiprocessing
    process = multiprocessing.get_context(METHOD).Process(target=time.sleep, args=(100,))
    process.start()
    process.terminate()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_are_left_alone(warm: WarmRuns, tmp_path: Path, method: str):
    turns = 3 if method == "fork" else 1  # an epoch of twelve turns: with `fork` workers start inside the window
    source = LOOP + LOADER.replace("METHOD", repr(method)).replace(f"{{{method!r}}}", method).replace("TURNS", str(turns))
    ran = warm.run(tmp_path, source, *FEW)
    assert_whole(ran, output="-15\n")
    told = [path.read_text().split() for path in tmp_path.glob(f"{method}-*.txt")]
    assert len(told) == 2 * turns
    assert {signals for signals, _ in told} == {"True"}
    assert {loaded for _, loaded in told} == ({"False"} if method == "spawn" else {"True"})
    assert {path.name for path in ran.bundle.iterdir()} == {"manifest.json", "rank0.key_averages.json", "rank0.trace.json.gz"}


SPAWNED = """
import torch
def work(rank):
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(40):
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    print("worker", rank, flush=True)
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
    print("end")
"""


def test_a_loop_in_other_processes_is_not_recorded_and_that_is_said(warm: WarmRuns, tmp_path: Path):
    ran = warm.run(tmp_path, SPAWNED)
    assert (ran.status, ran.output) == (0, "worker 0\nend\n")
    assert "Nothing was recorded" in ran.errors
    assert "not in this process and thread" in ran.errors
    assert not ran.bundle.exists()


FORKED = """
import atexit, os
def fork(turn):
    if turn == 8:
        child = os.fork()
        if child == 0:
            train(20)
            atexit.register(os._exit, 6)
            sys.exit(6)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
train(40, fork)
"""


def test_a_forked_process_that_goes_on_with_the_loop_says_and_takes_nothing(warm: WarmRuns, tmp_path: Path):
    assert_whole(warm.run(tmp_path, LOOP + FORKED, *FEW), output="6\n")


THREADED = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def forward():
    given = torch.randn(2, 4)
    for _ in range(200):
        net(given)
    return net(given).sum()
for turn in range(40):
    optimizer.zero_grad()
    pool.submit(forward).result().backward()
    optimizer.step()
"""


def test_a_model_that_is_called_in_another_thread_than_the_optimizer_is_noted_as_missing(warm: WarmRuns, tmp_path: Path):
    ran = warm.run(tmp_path, LOOP + THREADED, *FEW)
    assert_whole(ran)
    if Path("/proc/self/schedstat").exists():
        assert "threads_unseen" in ran.codes
    assert {event["name"] for event in phases(ran)} == {"longpole.phase#backward", "longpole.phase#optimizer"}


COROUTINES = """
import asyncio
async def turns():
    for turn in range(40):
        await asyncio.sleep(0)
        yield torch.randn(2, 4)
async def main():
    async for given in turns():
        optimizer.zero_grad()
        loss = net(given).sum()
        await asyncio.sleep(0)
        loss.backward()
        optimizer.step()
asyncio.run(main())
"""


def test_a_loop_of_coroutines_and_generators_is_recorded_like_any_other(warm: WarmRuns, tmp_path: Path):
    ran = warm.run(tmp_path, LOOP + COROUTINES, *FEW)
    assert_whole(ran)
    assert [event["name"].partition("#")[2] for event in phases(ran)][:3] == ["forward", "backward", "optimizer"]


# Other profilers


OLDER = """
def profile(turn):
    if turn in TURNS:
        with torch.autograd.profiler.profile() as prof:
            net(torch.randn(2, 4))
        print(sum(event.name == "aten::addmm" for event in prof.function_events))
train(50, profile)
"""


@pytest.mark.parametrize("turn", [IN_WINDOW, FIRST + 4 + 1], ids=["in the window", "while steps are timed after it"])
def test_the_older_profiler_of_autograd_keeps_its_events_and_a_whole_bundle_is_made(warm: WarmRuns, tmp_path: Path, turn: int):
    ran = warm.run(tmp_path, LOOP + OLDER.replace("TURNS", f"({turn},)"), *FEW)
    assert_whole(ran, output="2\n")
    assert (ran.manifest.program["first_recorded_step"] > turn) == (turn == IN_WINDOW)
