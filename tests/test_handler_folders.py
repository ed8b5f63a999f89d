"""Folders that torch's tensorboard_trace_handler and Accelerate leave: real ones, of several workers and cycles."""

import subprocess
import sys
from pathlib import Path

import pytest

from longpole.analyze import trace as t
from longpole.analyze.load import load_run

torch = pytest.importorskip("torch")

# A worker of two cycles of two steps. Arguments: folder, gzip or not, worker's name or "", rank or "", file of the others.
WORKER = """
import sys, torch
folder, packed, name, rank, meeting = sys.argv[1:]
if rank:
    torch.distributed.init_process_group("gloo", init_method="file://" + meeting, rank=int(rank), world_size=2)
handler = torch.profiler.tensorboard_trace_handler(folder, worker_name=name or None, use_gzip=packed == "gzip")
schedule = torch.profiler.schedule(wait=0, warmup=1, active=2)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=handler) as profiler:
    for turn in range(6):
        with torch.profiler.record_function(f"cycle {turn // 3}"):
            torch.ones(4).sum()
        profiler.step()
if rank:
    torch.distributed.destroy_process_group()
"""  # noqa: E501


def run_workers(folder: Path, packed: str, names: list[str], ranks: list[str]) -> list[str]:
    """The files that the workers left."""
    meeting = str(folder.with_name("meeting"))
    commands = [[sys.executable, "-c", WORKER, str(folder), packed, *who, meeting] for who in zip(names, ranks, strict=True)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for worker in running:
        _, error = worker.communicate(timeout=120)
        assert worker.returncode == 0, error
    return sorted(path.name for path in folder.iterdir())


def ranges(trace: t.Trace) -> set[str]:
    return {trace.names[row] for row in trace.host.name} & {"cycle 0", "cycle 1"}


def test_two_ranks_of_two_cycles_are_the_last_window_of_each(tmp_path: Path):
    files = run_workers(tmp_path / "log", "gzip", ["", ""], ["1", "0"])
    assert len(files) == 4
    traces = load_run([tmp_path / "log"])
    assert [(trace.source.rank, trace.source.world_size, ranges(trace)) for trace in traces] == [
        (0, 2, {"cycle 1"}),
        (1, 2, {"cycle 1"}),
    ]
    (older,) = [note for trace in traces for note in trace.warnings if note.code == "older_windows"]
    assert older.count == 2
    read = {trace.source.files[0].name for trace in traces}
    assert all(name in older.message for name in set(files) - read)


def test_workers_that_are_named_by_their_ranks_and_know_no_others(tmp_path: Path):
    run_workers(tmp_path / "log", "plain", ["rank10", "rank9"], ["", ""])
    assert [(trace.source.rank, ranges(trace)) for trace in load_run([tmp_path / "log"])] == [(9, {"cycle 1"}), (10, {"cycle 1"})]


def test_workers_that_tell_no_rank_are_in_the_order_of_their_process_ids(tmp_path: Path):
    run_workers(tmp_path / "log", "plain", ["worker-1_10000", "worker-1_9999"], ["", ""])
    traces = load_run([tmp_path / "log"])
    assert [trace.source.rank for trace in traces] == [0, 1]
    assert [trace.source.files[0].name.split(".")[0] for trace in traces] == ["worker-1_9999", "worker-1_10000"]


def test_files_of_accelerate_are_ranks_by_their_numbers(tmp_path: Path):
    for rank in (10, 2, 0):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            torch.ones(rank + 1).sum()
        profiler.export_chrome_trace(str(tmp_path / f"profile_{rank}.json"))
    traces = load_run([tmp_path])
    assert [(trace.source.rank, trace.source.files[0].name) for trace in traces] == [
        (rank, f"profile_{rank}.json") for rank in (0, 2, 10)
    ]
    assert [note.code for trace in traces for note in trace.warnings if note.code in ("older_windows", "other_files")] == []
