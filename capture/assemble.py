"""A window that is over -> its bundle: trace packed and checked, snapshots, manifest, all put in place together."""

import gzip
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from . import health
from .beside import Beside, unseen
from .bundle import BundleFile, HealthNote, Manifest, RankFiles, described, write_atomically, write_manifest
from .core_time import CoreTime
from .errors import CaptureError
from .machine import machine_facts, program_facts, version_facts
from .memory_history import MemoryHistory
from .snapshot import EVENT_BUDGET, encoded, snapshot
from .staging import Staging, publish

INCOMPLETE_CODES = ("exception", "loop_ended", "steps_missing", "trace_invalid")
INTERRUPTED = "snapshot_interrupted"
GZIP_LEVEL = 6  # measured on a 41 MB trace: 9 takes three times as long for a file 10 % smaller


@dataclass(frozen=True)
class About:
    """What the user said about the recording."""

    title: str
    captured_at: str
    mode: str | None
    samples_per_step: int | None
    program: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How the loop went: whole steps recorded, wall times of the steps before, and why it ended early, if it did.

    `unprofiled_core`: of the loop's thread in the steps before; None where there were none.
    `loader_workers`: worker processes of the DataLoader that the loop goes through, None where it is something else.
    `beside`: the other threads when the recorded steps began and when they ended.
    """

    recorded_steps: int
    unprofiled_step_ns: tuple[int, ...]
    ended_early: HealthNote | None
    unprofiled_core: CoreTime | None = None
    loader_workers: int | None = None
    notes: tuple[HealthNote, ...] = ()
    beside: tuple[Beside, Beside] | None = None

    @property
    def step_ranges(self) -> int:
        """How many the trace should hold: torch closes the step in which the loop ended as if it were whole."""
        return self.recorded_steps + (self.ended_early is not None)


class Settings(Protocol):
    """How a profiler was set up: any dataclass of flat facts."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Recorded(Protocol):
    """A profiler whose window is over; `export`: its trace as plain JSON; `lost`: another profiler took its events away."""

    cuda: bool
    profiler: Any
    export: Path
    lost: bool
    memory_history: MemoryHistory | None


def write_bundle(staging: Staging, plan: Settings, window: Recorded, about: About, outcome: Outcome) -> Manifest:
    """Make every file in the hidden folder, then publish them; CaptureError when the trace holds none of the steps."""
    if window.lost:
        raise CaptureError("Another PyTorch profiler took the recorded events away; take it out of the loop.")
    rank = staging.launch.rank
    trace = packed(window.export, staging.hidden / f"rank{rank}.trace.json.gz")
    check = health.checked(trace)
    if check.step_ranges == 0 and outcome.step_ranges:
        raise CaptureError("The trace holds none of the steps; take other profilers out of the loop and record again.")
    options = options_of(plan, window, outcome)
    snapshots, snapshot_notes = snapshot_files(staging.hidden, rank, window, check.events, options)
    memory, memory_notes = memory_file(staging.hidden, rank, window.memory_history)
    notes = [*trace_notes(check, plan, window, outcome), *snapshot_notes, *memory_notes, *outcome.notes]
    manifest = Manifest(
        title=about.title,
        captured_at=about.captured_at,
        mode=about.mode,
        machine=machine_facts(),
        versions=version_facts(),
        options=options,
        program=program_facts() | about.program,
        ranks=(RankFiles(rank, described(trace), **snapshots, memory=memory),),
        unprofiled_step_ns=outcome.unprofiled_step_ns,
        samples_per_step=about.samples_per_step,
        complete=not any(note.code in INCOMPLETE_CODES for note in notes),
        health=tuple(notes),
        world_size=staging.launch.world_size,
        launch=staging.launch.token,
    )
    write_manifest(staging.hidden, manifest)
    publish(staging)
    if check.problem is not None and check.problem.code == "trace_invalid":
        raise CaptureError(f"{check.problem.message} What was recorded is kept in {staging.folder}.")
    return manifest


def raise_interrupt(manifest: Manifest) -> None:
    """KeyboardInterrupt, where it came while the bundle was made."""
    if any(note.code == INTERRUPTED for note in manifest.health):
        raise KeyboardInterrupt


def packed(export: Path, trace: Path) -> Path:
    """The export, compressed; the same text always makes the same bytes."""
    with (
        export.open("rb") as source,
        trace.open("wb") as target,
        gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0) as file,
    ):
        shutil.copyfileobj(source, file, 2**20)
    export.unlink()
    return trace


def options_of(plan: Settings, window: Recorded, outcome: Outcome) -> dict[str, Any]:
    """The plan, flat, and what came of it."""
    activities = "cpu,cuda" if window.cuda else "cpu"
    core = outcome.unprofiled_core
    facts = {"recorded_steps": outcome.recorded_steps, "loader_workers": outcome.loader_workers}
    facts |= {"unprofiled_cpu_ns": core and core.cpu_ns, "unprofiled_core_wait_ns": core and core.waited_ns}
    return asdict(plan) | {"activities": activities, **facts}


def trace_notes(check: health.TraceCheck, plan: Settings, window: Recorded, outcome: Outcome) -> list[HealthNote]:
    """What is missing in the trace, and why the loop ended early."""
    early = [] if outcome.ended_early is None else [outcome.ended_early]
    elsewhere = unseen(*outcome.beside, check.threads) if outcome.beside and check.problem is None else None
    kernels_expected = window.cuda and _cuda_used()
    missing = health.notes(check, expected_step_ranges=outcome.step_ranges, kernels_expected=kernels_expected)
    return [*early, *missing, *([elsewhere] if elsewhere else [])]


def snapshot_files(
    folder: Path, rank: int, window: Recorded, events: int, options: dict[str, Any]
) -> tuple[dict[str, BundleFile], list[HealthNote]]:
    """The snapshots that could be made, by their name in RankFiles, and a note for each that was left out."""
    if events > EVENT_BUDGET:
        message = f"key_averages() was left out: {events:,} events are more than {EVENT_BUDGET:,}; record fewer steps."
        return {}, [HealthNote("snapshot_over_budget", message)]
    notes = [] if options["shapes"] else [HealthNote("no_shapes", "key_averages() by input shape needs shapes=True.")]
    try:
        return dict(_written_snapshots(folder, rank, window, events, options)), notes
    except RuntimeError as failure:  # torch cannot always read its own events back, with stacks above all
        return {}, [HealthNote("snapshot_failed", f"key_averages() failed in torch: {failure}")]
    except KeyboardInterrupt:  # it takes a while, and the trace is whole: `raise_interrupt` passes it on once that is kept
        return {}, [HealthNote(INTERRUPTED, "key_averages() was left out: Ctrl-C came while torch read its events back.")]


def _written_snapshots(
    folder: Path, rank: int, window: Recorded, events: int, options: dict[str, Any]
) -> Iterator[tuple[str, BundleFile]]:
    for name, by_shape in (("key_averages", False), ("key_averages_by_shape", True)):
        if options["shapes"] or not by_shape:
            averages = window.profiler.key_averages(group_by_input_shape=by_shape)
            path = folder / f"rank{rank}.{name}.json"
            write_atomically(path, encoded(snapshot(averages, by_shape=by_shape, events=events, options=options)))
            yield name, described(path)


def memory_file(folder: Path, rank: int, history: MemoryHistory | None) -> tuple[BundleFile | None, list[HealthNote]]:
    """What the GPU's memory held, where that was asked for, and why not, where it was not to be had."""
    if history is None:
        return None, []
    notes = [] if history.problem is None else [history.problem]
    if history.content is None:
        return None, notes
    path = folder / f"rank{rank}.memory.json"
    write_atomically(path, encoded(history.content))
    return described(path), notes


def _cuda_used() -> bool:
    import torch

    return torch.cuda.is_initialized()
