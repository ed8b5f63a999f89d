"""The command line of a workload that runs by itself: its options -> its last result and how fast it was, as text."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from .loops import Job, Setup, best_device, one_thread


def run_script(make: Callable[[Setup], Job], description: str, turns: str = "--steps") -> None:
    """Make the job that the command line asks for, run it once and print a line about it."""
    asked = _options(description, turns)
    with one_thread():
        job = make(Setup(asked.variant, asked.turns, asked.seed, asked.device or best_device()))
        began = time.perf_counter()
        results = job.run()
        seconds = time.perf_counter() - began
    sys.stdout.write(f"{job.title}, {asked.variant}: {_last(job, results)}, {_speed(job, asked.turns, seconds)}\n")


def _options(description: str, turns: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--variant", choices=["before", "after"], default="before", help="a first draft, or its bottlenecks removed"
    )
    parser.add_argument(turns, dest="turns", type=_count, default=100, help="turns of the loop (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="default: cuda where there is a GPU, else cpu")
    return parser.parse_args()


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return count


def _last(job: Job, results: Sequence[float]) -> str:
    return f"{'loss' if job.mode == 'training' else 'token'} {results[-1]:.6g} at the end"


def _speed(job: Job, turns: int, seconds: float) -> str:
    return f"{1e3 * seconds / turns:.2f} ms a step, {turns * job.samples_per_step / seconds:,.0f} samples/s"
