"""What does a recording cost the loop? Recordings beside plain torch.profiler, and steps outside a window beside none.

python run.py bench capture [ROUNDS]     rounds of all ways in turn, 15
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from longpole.capture import record, watch
from longpole.capture.bundle import read_manifest
from longpole.capture.running.options import Options
from longpole.capture.running.requests import Requests
from longpole.capture.running.session import Session

WAIT, WARMUP, STEPS, AFTER, REST = 5, 3, 20, 5, 20
LEARNED = 3  # steps that are watched before a recording begins by itself
Times = list[float]  # ms of CPU of the loop's thread: what else the machine does adds to that least


def loop(turns: int, each: Callable[[], None] = lambda: None) -> Times:
    """A training step of about two milliseconds, and how long each took, with what is done at its end."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.ReLU())])
    optimizer, given = torch.optim.Adam(net.parameters()), torch.randn(64, 128)
    times = []
    for _ in range(turns):
        began = time.thread_time()
        optimizer.zero_grad()
        nn.functional.mse_loss(net(given), given).backward()
        optimizer.step()
        each()
        times.append(1e3 * (time.thread_time() - began))
    return times


def plain_profiler(folder: Path) -> Times:
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = schedule(wait=WAIT, warmup=WARMUP, active=STEPS, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
        times = loop(WAIT + WARMUP + STEPS, profiler.step)
    return times[WAIT + WARMUP : -1]  # the last one ends with the work of the profiler


def recorded(folder: Path) -> Times:
    with record(folder, steps=STEPS, wait=WAIT, warmup=WARMUP) as rec:
        times = loop(WAIT + WARMUP + STEPS, rec.step)
    return times[WAIT + WARMUP : -1]


def watched(folder: Path) -> Times:
    with watch(folder, steps=STEPS, wait=WAIT, warmup=WARMUP):
        times = loop(LEARNED + WAIT + WARMUP + STEPS + 2)
    first = int(read_manifest(folder).program["first_recorded_step"])
    return times[first + 1 : first + STEPS]  # where a step begins, longpole works; the first one begins with the profiler


def alone(folder: Path) -> Times:
    return loop(LEARNED + REST)[LEARNED:]


def waiting(folder: Path) -> Times:
    """Watched, and nobody asks for a recording."""
    session = Session(Options(folder, "waiting"), Requests(on_demand=folder / "never"))
    session.start()
    times = loop(LEARNED + REST)[LEARNED:]
    session.leave(None)
    return times


def behind(folder: Path) -> Times:
    """Behind the window of a recording."""
    with watch(folder, steps=2, wait=1, warmup=1, after=AFTER):
        times = loop(LEARNED + 4 + AFTER + REST + 2)
    return times[-REST:]


PAIRS = (
    ("record(), beside plain torch.profiler", recorded, plain_profiler),
    ("longpole run, beside plain torch.profiler", watched, plain_profiler),
    ("longpole run before anybody asks, beside no longpole", waiting, alone),
    ("longpole run behind its window, beside no longpole", behind, alone),
)


def main() -> int:
    import torch

    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    ways = dict.fromkeys(way for _, *pair in PAIRS for way in pair)
    medians: dict[Callable, Times] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for way in ways if number % 2 else reversed(ways):  # what drifts meets all alike
                medians[way].append(float(np.median(way(Path(folder, f"{way.__name__}{number}")))))
    print(f"| CPU of the median step, {rounds} rounds in turn | ms | beside, ms | ratio, median of rounds | middle half |")
    print("| --- | --- | --- | --- | --- |")
    for title, ours, other in PAIRS:
        ratios = np.array(medians[ours]) / np.array(medians[other])
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        own, beside = np.median(medians[ours]), np.median(medians[other])
        print(f"| {title} | {own:.3f} | {beside:.3f} | {middle:.3f} | {low:.3f} to {high:.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
