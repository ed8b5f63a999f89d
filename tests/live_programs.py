"""Programs that a test records as it runs: ranks of which one sleeps, ranks of torchrun that record one bundle, and compiled
functions with one known trouble.

`python tests/live_programs.py` records them into tests/data/live, small; `… rank RANK STORE TRACE` is one rank,
`… launched FOLDER ENDS` one that torchrun started, `… plain` one that knows nothing of longpole.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from longpole.capture.bundle import manifest_name
from longpole.capture.errors import FolderUsedError

DATA = Path(__file__).parent / "data" / "live"
STEPS, RANKS, SLEEPER, ASLEEP_S = 5, 2, 1, 0.02
PATIENCE_S = 90  # importing torch twice on a busy machine
BEGAN = time.time()
KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
HEAD = ("schemaVersion", "baseTimeNanoseconds", "distributedInfo")
COMPILED = ("whole", "broken", "reading", "disabled", "shapes")


def record_ranks(folder: Path) -> list[Path]:
    """Two processes that talk over the loopback device only; both are gone when this returns."""
    traces = [folder / f"rank{rank}.json" for rank in range(RANKS)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, __file__, "rank", str(rank), str(folder / "store"), str(trace)], env=environment)
        for rank, trace in enumerate(traces)
    ]
    try:
        codes = [rank.wait(timeout=PATIENCE_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(codes):
        raise RuntimeError(f"the ranks ended with {codes}")
    return traces


def train(rank: int, store: str, trace: Path) -> None:
    """Steps with an all-reduce for each gradient; one rank sleeps before them."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    timeout = timedelta(seconds=PATIENCE_S)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS, timeout=timeout)
    model = torch.nn.Linear(64, 64)

    def step(_: int) -> None:
        model(torch.randn(32, 64)).sum().backward()
        if rank == SLEEPER:
            time.sleep(ASLEEP_S)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    record(step, trace)
    dist.destroy_process_group()


def torchrun(folder: Path, ranks: int, ends: str = "") -> subprocess.CompletedProcess[str]:
    """Ranks that record into one folder. `ends`: "1:raises" or "0:dies": that rank, in its window, once the others are done."""
    return _torchrun(ranks, __file__, "launched", str(folder), ends)


def torchrun_longpole(folder: Path, ranks: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Ranks of a program that knows nothing of longpole, under `longpole run`."""
    command = [sys.executable, "-m", "longpole.reports.cli", "run", "-o", str(folder), *options, __file__, "plain"]
    return _torchrun(ranks, "--no-python", *command)


def _torchrun(ranks: int, *command: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *command]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return subprocess.run(launcher, env=environment, capture_output=True, text=True, timeout=ranks * PATIENCE_S, check=False)


def plain() -> None:
    """A DDP model and its optimizer."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE_S))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10 * STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


def launched(folder: Path, ends: str) -> None:
    """A DDP model; alone, where one rank ends early: else the others would wait for it in an all-reduce."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE_S))
    model: Any = torch.nn.Linear(16, 16)
    if not ends:
        model = torch.nn.parallel.DistributedDataParallel(model)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    others = [folder / manifest_name(other) for other in range(world_size) if other != rank]
    with recording(folder, rank) as rec:
        for turn in rec.steps(range(STEPS + 3)):
            model(torch.randn(8, 16)).sum().backward()
            if ends.startswith(f"{rank}:") and turn == STEPS:
                wait_for(others)
                if ends.endswith("dies"):
                    os._exit(9)
                raise ValueError("the user's own")
    dist.destroy_process_group()


@contextmanager
def recording(folder: Path, rank: int) -> Iterator[Any]:
    """By force where it is refused without, and says so."""
    from longpole.capture import record

    with ExitStack() as stack:
        try:
            rec = stack.enter_context(record(folder, steps=STEPS, wait=1, warmup=1))
        except FolderUsedError as refusal:
            sys.stdout.write(f"rank {rank} is refused: {refusal}\n")
            sys.stdout.flush()
            rec = stack.enter_context(record(folder, steps=STEPS, wait=1, warmup=1, force=True))
        yield rec


def wait_for(files: list[Path]) -> None:
    """Until they were written since this process began."""
    until = time.time() + PATIENCE_S
    while not all(file.is_file() and file.stat().st_mtime > BEGAN for file in files):
        if time.time() > until:
            raise TimeoutError(f"not all of {files} were written")
        time.sleep(0.02)


def record_compiled(kind: str, trace: Path) -> None:
    """A function under torch.compile with its backend "eager", called once before, but for the one whose shapes change."""
    import torch
    import torch._dynamo

    torch._dynamo.reset()

    @torch._dynamo.disable
    def outside(y: Any) -> Any:
        return y * 2 + 1

    def function(x: Any, weight: Any) -> Any:
        y = torch.relu(x @ weight)
        if kind == "broken":
            torch._dynamo.graph_break()
        elif kind == "reading" and y.sum().item() > 1e9:
            y = y + 1
        elif kind == "disabled":
            y = outside(y)
        return torch.sin(y).sum()

    compiled, weight = torch.compile(function, backend="eager", dynamic=False), torch.randn(16, 16, requires_grad=True)
    if kind != "shapes":
        compiled(torch.randn(16, 16), weight).backward()
    record(lambda i: compiled(torch.randn(16 + i * (kind == "shapes"), 16), weight).backward(), trace)


def record(step: Callable[[int], object], trace: Path) -> None:
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
        for turn in range(STEPS + 1):
            step(turn)
            profiler.step()
    profiler.export_chrome_trace(str(trace))


def keep_small(trace: Path, kept: Path) -> None:
    """What analyses of a CPU run read, without what it says about the machine."""
    whole = json.loads(trace.read_text(encoding="utf-8"))
    events = [_short(event) for event in whole["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
    text = json.dumps({**{key: whole[key] for key in HEAD if key in whole}, "traceEvents": events}, separators=(",", ":"))
    kept.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _short(event: dict[str, Any]) -> dict[str, Any]:
    forward = event.get("args", {}).get("Fwd thread id", 0)
    return {**{key: event[key] for key in KEPT}, **({"args": {"Fwd thread id": forward}} if forward else {})}


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for trace in record_ranks(Path(folder)):
            keep_small(trace, DATA / f"{trace.name}.gz")
        for kind in COMPILED:
            record_compiled(kind, Path(folder) / f"{kind}.json")
            keep_small(Path(folder) / f"{kind}.json", DATA / f"{kind}.json.gz")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        train(int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
    elif sys.argv[1:2] == ["launched"]:
        launched(Path(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["plain"]:
        plain()
    else:
        main()
