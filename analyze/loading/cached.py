"""The Traces of a file <-> a folder of `.npy` files and one JSON file, found again by what the trace file holds.

The key is the SHA-256 of the file's content with its base name, so a file that changes is never taken for what it was. A folder
is written under a temporary name and renamed; what is damaged or of another version is not there.
"""

import hashlib
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .. import trace as t
from .streams import File

CACHE_VERSION = 4  # of the files below; the version of longpole counts too
TABLES: dict[str, Any] = {
    "host": t.HostRanges, "device": t.DeviceRanges, "device_marks": t.DeviceRanges, "untimed": t.DeviceRanges,
    "allocations": t.Allocations, "host_arguments": t.Arguments, "device_arguments": t.Arguments,
    "mark_arguments": t.Arguments, "slices": t.Slices,
}  # fmt: skip
META_NAME = "trace.json"


class _Rest(msgspec.Struct):
    """What a Trace holds beside its tables; manifest and snapshots are read with their bundle each time."""

    source: t.Source
    origin_ns: int
    window_ns: int
    profiler_start_ns: int | None
    names: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    shapes: tuple[str, ...]
    coverage: t.Coverage
    argument_keys: tuple[str, ...]
    argument_values: tuple[str, ...]
    snapshot: dict[str, Any] | None
    whole_until_ns: int | None
    whole_steps: tuple[str, ...] | None
    warnings: tuple[t.TraceWarning, ...]


def default_folder() -> Path:
    """LONGPOLE_CACHE, or the place where the system keeps what can be made again."""
    if named := os.environ.get("LONGPOLE_CACHE"):
        return Path(named)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "longpole" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longpole"


def key_of(file: File) -> str:
    """Of a file's content and its name, which the trace repeats."""
    with file.open() as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    name = hashlib.sha256(file.name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{content}-{name[:8]}-{version('longpole')}.{CACHE_VERSION}"


def read(folder: Path, key: str) -> tuple[t.Trace, ...] | None:
    """The ranks of a file; None where it was not kept, or cannot be read."""
    place = folder / key
    try:
        ranks = msgspec.json.decode((place / META_NAME).read_bytes(), type=list[_Rest])
        return tuple(_trace(place, number, rest) for number, rest in enumerate(ranks))
    except (OSError, ValueError, EOFError, msgspec.MsgspecError):
        return None


def _trace(place: Path, number: int, rest: _Rest) -> t.Trace:
    kept = {f.name: getattr(rest, f.name) for f in msgspec.structs.fields(_Rest)}
    for name, table in TABLES.items():
        kept[name] = table(**{f.name: np.load(_file(place, number, name, f.name), allow_pickle=False) for f in fields(table)})
    return t.Trace(manifest=None, **kept)


def _file(place: Path, number: int, table: str, column: str) -> Path:
    return place / f"{number}.{table}.{column}.npy"


def write(folder: Path, key: str, traces: Sequence[t.Trace]) -> None:
    """Keep the ranks of a file; where the disk does not let us, it is parsed again the next time."""
    temporary = folder / f"{uuid.uuid4().hex}.tmp"
    try:
        temporary.mkdir(parents=True)
        for number, trace in enumerate(traces):
            for name, table in TABLES.items():
                for f in fields(table):
                    column = getattr(getattr(trace, name), f.name)
                    np.save(_file(temporary, number, name, f.name), column, allow_pickle=False)
        ranks = [_Rest(**{f.name: getattr(trace, f.name) for f in msgspec.structs.fields(_Rest)}) for trace in traces]
        (temporary / META_NAME).write_bytes(msgspec.json.encode(ranks))
        shutil.rmtree(folder / key, ignore_errors=True)  # one that could not be read
        temporary.replace(folder / key)
    except OSError:  # also where another process has just written the same
        pass
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def kept(folder: Path) -> tuple[int, int]:
    """How many traces are kept, and their bytes."""
    places = _places(folder)
    return len(places), sum(file.stat().st_size for place in places for file in place.iterdir())


def clear(folder: Path) -> tuple[int, int]:
    """Remove every trace that was kept; how many, and their bytes."""
    count, size_bytes = kept(folder)
    for place in _places(folder):
        shutil.rmtree(place)
    return count, size_bytes


def _places(folder: Path) -> list[Path]:
    """What this module has written, whole or not; nothing else in the folder is touched."""
    if not folder.is_dir():
        return []
    return [place for place in folder.iterdir() if (place / META_NAME).is_file() or (place.is_dir() and place.suffix == ".tmp")]
