"""`longpole run` as a user types it, in a process of its own -> what the program printed, and the bundle."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longpole.capture.bundle import Manifest, read_manifest

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_S = 240
LOOP = """
import sys, time
import torch
from torch import nn
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def train(turns, inside=lambda turn: None):
    for turn in range(turns):
        optimizer.zero_grad()
        net(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        inside(turn)
"""
FEW = ("--steps", "4", "--wait", "2", "--warmup", "1")
FIRST = 3 + 1 + 2 + 1  # turns before the first recorded one: watched, cut, timed, thrown away


@dataclass(frozen=True)
class Ran:
    """How a program that was watched ended."""

    status: int
    output: str
    errors: str
    bundle: Path

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.bundle)

    @property
    def codes(self) -> list[str]:
        """Of what the manifest notes."""
        return [note.code for note in self.manifest.health]

    @property
    def stopwatch(self) -> list[dict[str, float]]:
        """Of each of its steps: seconds by part, as the program itself measured them."""
        line = next(line for line in self.output.splitlines() if line.startswith("STOPWATCH "))
        return json.loads(line.removeprefix("STOPWATCH "))


def command(folder: Path, *options: str | Path) -> list[str]:
    return [sys.executable, "-m", "longpole.reports.cli", "run", "-o", str(folder / "bundle"), *map(str, options)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PYTHONPATH", "")]), **more}


def run_watched(folder: Path, *arguments: str | Path, options: Sequence[str] = (), **more: str) -> Ran:
    """`longpole run OPTIONS ARGUMENTS`; a script is named by its name in tests/programs, or as source text by a path."""
    done = subprocess.run(
        command(folder, *options, *arguments), cwd=folder, env=environment(**more), capture_output=True, text=True,
        encoding="utf-8", timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr, folder / "bundle")


def run_source(folder: Path, source: str, *arguments: str, options: Sequence[str] = (), **more: str) -> Ran:
    """The same for a program given as text; it is called train.py."""
    (folder / "train.py").write_text(source, encoding="utf-8")
    return run_watched(folder, "train.py", *arguments, options=options, **more)
