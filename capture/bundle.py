"""The bundle: a folder with a manifest, traces and snapshots. Read and written with the standard library only.

A bundle holds for each rank `rankR.trace.json.gz` and, when they were made, `rankR.key_averages.json`,
`rankR.key_averages_by_shape.json` and `rankR.memory.json`. What the trace does not say stands in `manifest.json` for
rank 0, and for every other rank in a part of it, `rankR.manifest.json`, of the same fields. Every file is written under a
temporary name, flushed and then renamed; the manifest comes last, so that a rank with a manifest is whole. Times are
integer nanoseconds.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from .errors import BundleError

FORMAT_VERSION = 3
# History of the format:
#   1  first format: one rank
#   2  unprofiled_after_step_ns
#   3  several ranks: `launch`, and the parts rankR.manifest.json; rankR.memory.json
MANIFEST_NAME = "manifest.json"
PART_NAME = re.compile(r"rank(\d+)\.manifest\.json")
DETAIL_FOLDER = "detail"  # in a bundle: that of a second pass, a bundle of its own; the manifest's `program["detail"]` names it


@dataclass(frozen=True)
class BundleFile:
    """One file of a bundle: its base name, SHA-256 (hexadecimal) and size."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class RankFiles:
    """The files of one rank; a snapshot is None when it was not made (the manifest's health says why)."""

    rank: int
    trace: BundleFile
    key_averages: BundleFile | None = None
    key_averages_by_shape: BundleFile | None = None
    memory: BundleFile | None = None  # what gpu_memory makes of the allocator's snapshot


@dataclass(frozen=True)
class HealthNote:
    """One thing that is missing or unusual in a recording: a code for tools, a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Manifest:
    """What the traces of a bundle do not say about themselves; a part of it: about one rank.

    `machine`, `versions`, `options` and `program` are flat: string keys; strings, numbers, booleans or None as values.
    `unprofiled_step_ns` are wall times of whole steps measured before the profiler was started, in the order they ran,
    `unprofiled_after_step_ns` those after it had stopped.
    `complete` is False when the loop ended before all the steps that were asked for had been recorded.
    `launch` is the same for all ranks that were started together, and for no others; None of a process on its own.
    """

    title: str
    captured_at: str  # UTC, ISO 8601 with seconds, "2026-11-30T18:56:00Z"
    mode: str | None  # "training", "inference", or None where the recorder was not told
    machine: dict[str, Any]
    versions: dict[str, Any]
    options: dict[str, Any]
    program: dict[str, Any]
    ranks: tuple[RankFiles, ...]
    unprofiled_step_ns: tuple[int, ...] = ()
    unprofiled_after_step_ns: tuple[int, ...] = ()
    samples_per_step: int | None = None
    complete: bool = True
    health: tuple[HealthNote, ...] = ()
    world_size: int = 1
    launch: str | None = None
    format_version: int = field(default=FORMAT_VERSION)


def unprofiled_times(manifest: Manifest | None) -> tuple[int, ...]:
    """All steps that were timed without a profiler, before the window and after it; none without a manifest."""
    return (*manifest.unprofiled_step_ns, *manifest.unprofiled_after_step_ns) if manifest else ()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def described(path: Path) -> BundleFile:
    """The manifest's entry for a file that is already in place."""
    return BundleFile(path.name, sha256_of(path), path.stat().st_size)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def manifest_name(rank: int) -> str:
    """The file that tells of a rank: rank 0 has the manifest, the others each a part of it."""
    return MANIFEST_NAME if rank == 0 else f"rank{rank}.manifest.json"


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write the manifest, or the part of its rank, into the bundle's folder; the last step of a recording."""
    path = folder / manifest_name(min((files.rank for files in manifest.ranks), default=0))
    text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape
    return path


def manifest_names(folder: Any) -> list[str]:
    """The manifest and its parts that lie in a folder, the manifest first. `folder`: a Path, or the same place inside a zip."""
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if path.name == MANIFEST_NAME or PART_NAME.fullmatch(path.name)]
    return sorted(names, key=lambda name: (name != MANIFEST_NAME, name))


def is_bundle(path: Any) -> bool:
    """Whether a path, or a place inside a zip, is a folder that holds a manifest, or a part of one."""
    return bool(manifest_names(path))


def has_detail(manifest: Manifest) -> bool:
    """Whether a recording was to be followed by a second pass with shapes, stacks and memory."""
    return manifest.program.get(DETAIL_FOLDER) == DETAIL_FOLDER


def without_details(places: Iterable[str]) -> set[str]:
    """Of the places in a zip where bundles lie (`""`, `runs/base/`) those that are not the detail pass of another one."""
    found = set(places)
    return {place for place in found if place not in {f"{other}{DETAIL_FOLDER}/" for other in found}}


def newest_launch(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Of a manifest and its parts those of the last launch: a rank that died leaves what lay in the folder before."""
    newest = max(manifests, key=lambda manifest: manifest.captured_at)
    return [newest] if newest.launch is None else [manifest for manifest in manifests if manifest.launch == newest.launch]


def read_manifest(folder: Any, name: str = MANIFEST_NAME) -> Manifest:
    """A bundle's manifest, or a part of it; BundleError when it is missing, damaged or of a newer format."""
    path = folder / name
    try:
        fields = json.loads(path.read_bytes())
        version = fields["format_version"]
        if version > FORMAT_VERSION:
            raise BundleError(
                f"{path} has bundle format {version}, this longpole reads up to {FORMAT_VERSION}; install a newer longpole."
            )
        fields["ranks"] = tuple(_rank_files(rank) for rank in fields["ranks"])
        fields["health"] = tuple(HealthNote(**note) for note in fields["health"])
        for times in ("unprofiled_step_ns", "unprofiled_after_step_ns"):
            fields[times] = tuple(fields.get(times, ()))
        return _checked(Manifest(**fields))
    except FileNotFoundError as missing:
        raise BundleError(f"{folder} is not a bundle: it has no {name}; name a bundle folder or a trace file.") from missing
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as damage:
        raise BundleError(f"{path} is damaged ({damage!r}); capture again, or name the trace file itself.") from damage


def verified(folder: Path, file: BundleFile) -> Path:
    """The path of a bundle's file, once its SHA-256 is what the manifest says."""
    path = folder / file.name
    if path.parent != folder or not path.is_file():
        raise BundleError(f"{folder} lacks {file.name}, which its manifest lists; copy the whole folder again.")
    if sha256_of(path) != file.sha256:
        raise BundleError(f"{path} is not the file that was captured (its SHA-256 differs from the manifest); copy it again.")
    return path


def _checked(manifest: Manifest) -> Manifest:
    """The manifest, once its fields are of the types they should have; TypeError or ValueError else."""
    kinds = {
        "title": str, "captured_at": str, "mode": str | None, "machine": dict, "versions": dict, "options": dict, "program": dict,
        "samples_per_step": int | None, "complete": bool, "world_size": int, "launch": str | None,
    }  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(getattr(manifest, name), kind):
            raise TypeError(f"{name} is {getattr(manifest, name)!r}")
    for facts in (manifest.machine, manifest.versions, manifest.options, manifest.program):
        if not all(isinstance(value, str | int | float | None) for value in facts.values()):
            raise TypeError("a fact is neither text nor a number")
    for ns in (*manifest.unprofiled_step_ns, *manifest.unprofiled_after_step_ns):
        if not isinstance(ns, int) or ns <= 0:
            raise TypeError("a step time is no positive whole number")
    datetime.fromisoformat(manifest.captured_at)
    return manifest


def _rank_files(fields: dict[str, Any]) -> RankFiles:
    files = {key: BundleFile(**value) for key, value in fields.items() if isinstance(value, dict)}
    return RankFiles(rank=fields["rank"], **files)
