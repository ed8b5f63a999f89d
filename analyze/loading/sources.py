"""What the user named (bundle, trace, folder, glob, archive, URL, standard input) -> the files to read, one for each rank."""

import glob
import os
import re
import shutil
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from ...capture.bundle import (
    DETAIL_FOLDER,
    MANIFEST_NAME,
    PART_NAME,
    BundleFile,
    Manifest,
    is_bundle,
    manifest_names,
    newest_launch,
    read_manifest,
    without_details,
)
from ...capture.errors import BundleError
from .streams import EMPTY_ZIP, GZIP, ZIP, ZSTD, File, ordinary_file

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".gz", ".zst")
HANDLER_NAME = re.compile(r"(?P<worker>.+)\.(?P<time>\d+)\.pt\.trace\.json(\.gz)?$")  # of torch's tensorboard_trace_handler
HOST_AND_PROCESS = re.compile(r".*_\d+")  # a worker as torch's handler calls it by itself: worker-1 is then the name of a machine
RANK_IN_NAME = re.compile(r"(?:^|[^a-z0-9])(?:rank|profile|worker|r)[_.\-]?(\d+)(?=[^0-9]|$)", re.IGNORECASE)
MOST_NAMED = 4  # files named in a sentence
SNIFFED_BYTES = 1 << 16


@dataclass(frozen=True)
class Input:
    """One rank's files. `given`: as the user named it; `rank`: as a manifest or a file name says, None where neither does."""

    given: str
    file: File
    rank: int | None = None
    manifest: Manifest | None = None
    averages: File | None = None
    averages_by_shape: File | None = None
    notes: dict[str, tuple[int, str]] = field(default_factory=dict)  # trouble known before reading: code -> count, detail


def inputs(named: Sequence[str | Path]) -> list[Input]:
    """In the order given; BundleError where nothing can be read under a name."""
    return [found for name in named for found in _inputs(name)]


def _inputs(name: str | Path) -> list[Input]:
    text = str(name)
    if text == "-":
        return [Input("standard input", _standard_input())]
    if re.match(r"[A-Za-z][A-Za-z0-9+.\-]+://", text):
        return [Input(text, _remote(text), rank_in(text))]
    path = Path(name)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as problem:  # a name too long to be one, or a folder that may not be looked into
        raise BundleError(f"{text[:200]} cannot be opened ({problem.strerror}); check the path.") from problem
    if not exists and glob.has_magic(text):
        return _of_glob(text)
    if is_folder:
        return _of_bundle(text, path) if is_bundle(path) else _of_folder(path)
    return _of_file(path)


def _of_file(path: Path) -> list[Input]:
    file = ordinary_file(path)
    if _first_bytes(file).startswith((ZIP, EMPTY_ZIP)):
        return _of_zip(path)
    return [Input(str(path), file, rank_in(path.name), notes=_suffix_note(path.name, file))]


def _of_glob(pattern: str) -> list[Input]:
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - the pattern may begin anywhere, also at a root
    if not found:
        raise BundleError(f"{pattern} matches no file; check the pattern.")
    return [made for name in found for made in _inputs(name)]


# Bundles


def _of_bundle(given: str, folder: Any) -> list[Input]:
    """The ranks of one launch, each with the manifest, or the part of it, that tells of it. `folder`: a Path, or inside a zip."""
    told = {name: read_manifest(folder, name) for name in manifest_names(folder) or [MANIFEST_NAME]}
    joined = newest_launch(list(told.values()))
    if not any(manifest.ranks for manifest in joined):
        raise BundleError(f"{given} holds no rank; capture again.")
    member, notes = partial(_member, given, folder), _bundle_notes(told, joined)
    return [
        Input(
            given,
            member(files.trace),
            files.rank,
            manifest,
            member(files.key_averages) if files.key_averages else None,
            member(files.key_averages_by_shape) if files.key_averages_by_shape else None,
            notes,
        )
        for manifest in joined
        for files in manifest.ranks
    ]


def _bundle_notes(told: Mapping[str, Manifest], joined: Sequence[Manifest]) -> dict[str, tuple[int, str]]:
    """Ranks of the launch that left nothing, or less than was asked for, and what another launch left in the folder."""
    first = joined[0]
    complete = {files.rank: manifest.complete for manifest in joined for files in manifest.ranks}
    expected = range(first.world_size) if first.launch else ()
    missing = [f"rank {rank}" for rank in expected if rank not in complete]
    incomplete = [f"rank {rank}" for rank in expected if complete.get(rank) is False]
    others = [name for name, manifest in told.items() if manifest not in joined]
    found = (("missing_ranks", missing), ("incomplete_ranks", incomplete), ("other_launches", others))
    return {code: (len(names), _some(names)) for code, names in found if names}


def _member(given: str, folder: Any, file: BundleFile) -> File:
    place = folder / file.name
    if "/" in file.name or "\\" in file.name or not place.is_file():
        raise BundleError(f"{given} lacks {file.name}, which its manifest lists; copy the whole bundle again.")
    if isinstance(place, Path):
        return ordinary_file(place, file.sha256)
    opener = partial(_open_member, Path(folder.root.filename), place.at)
    return File(f"{given}/{file.name}", opener, size_bytes=file.size_bytes, sha256=file.sha256, packed="zip")


def detail_inputs(given: str) -> list[Input]:
    """The ranks of the detail pass inside a bundle that was named before, a folder or a zip."""
    if not holds_detail(given):
        raise BundleError(f"the bundle holds no folder {DETAIL_FOLDER} with a manifest")
    with _damage_told(Path(given)):
        return _of_bundle(f"{given}/{DETAIL_FOLDER}", _detail_place(Path(given)))


def holds_detail(given: str) -> bool:
    """Whether a bundle that was named before has a detail pass, readable or not."""
    return is_bundle(_detail_place(Path(given)))


def _detail_place(path: Path) -> Any:
    return (path if path.is_dir() else _place_in_zip(path)) / DETAIL_FOLDER


# Folders of traces


def _of_folder(folder: Path) -> list[Input]:
    """A file for each rank; JSON files that are no traces are left out and named."""
    try:
        files = sorted(path for path in folder.iterdir() if path.name.endswith(TRACE_SUFFIXES) and path.is_file())
    except OSError as problem:
        raise BundleError(f"{folder} cannot be read: {problem.strerror or problem}.") from problem
    traces = [path for path in files if _looks_like_trace(path)]
    if not traces:
        raise BundleError(
            f"{folder} is a folder without a {MANIFEST_NAME} and without traces, so there is nothing to read; name a bundle, "
            "a trace, or a folder of rank files."
        )
    others = [path.name for path in files if path not in traces]
    windows = _newest_windows(traces)
    older = [path.name for path in traces if path not in windows]
    notes = {code: (len(names), _some(names)) for code, names in (("other_files", others), ("older_windows", older)) if names}
    made = [Input(str(folder), ordinary_file(path), rank_in(path.name)) for path in windows]
    return [Input(m.given, m.file, m.rank, notes=notes if i == 0 else {}) for i, m in enumerate(made)]


def _newest_windows(traces: Sequence[Path]) -> list[Path]:
    """The handler of torch writes a file for each worker and window: of each worker the last one."""
    newest: dict[str, tuple[int, Path]] = {}
    for path in traces:
        match = HANDLER_NAME.match(path.name)
        worker, time = (match["worker"], int(match["time"])) if match else (path.name, 0)
        newest[worker] = max(newest.get(worker, (time, path)), (time, path))
    return sorted((path for _, path in newest.values()), key=_counted)


def _counted(path: Path) -> list[tuple[int, str]]:
    """Sorts host_999 before host_1000."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _looks_like_trace(path: Path) -> bool:
    """Whether a list of events begins near the file's start; what cannot be told here is tried."""
    first = _first_bytes(ordinary_file(path))
    if first.startswith((GZIP, ZSTD)):
        return ".json" in path.name or ".trace" in path.name
    text = first.lstrip(b"\xef\xbb\xbf \t\r\n")
    return b'"traceEvents"' in first or (text.startswith(b"[") and b'"ph"' in first) or path.name.endswith(".pt.trace.json")


def rank_in(name: str) -> int | None:
    """`rank3.trace.json`, `trace_rank_3.json`, `profile_3.json` -> 3."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    found = RANK_IN_NAME.search(base)
    worker = HANDLER_NAME.match(base)
    if found and worker and "rank" not in found[0].lower() and HOST_AND_PROCESS.fullmatch(worker["worker"], found.end()):
        return None
    return int(found[1]) if found else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


# Archives, URLs, standard input


def _of_zip(path: Path) -> list[Input]:
    """The bundle, or the one trace, inside."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as problem:
        raise BundleError(f"{path} is a damaged zip file ({problem}); copy it again.") from problem
    with archive:
        members = [info for info in archive.infolist() if not info.is_dir() and not _is_litter(info.filename)]
    names = [info.filename for info in members]
    bundles = _bundle_places(names)
    if len(bundles) == 1:
        with _damage_told(path):
            return _of_bundle(str(path), zipfile.Path(path, bundles.pop()))
    traces = [info for info in members if info.filename.endswith(TRACE_SUFFIXES)]
    if len(traces) != 1:
        held = [info.filename for info in traces] or names
        what = f"{len(traces)} traces" if traces else "no trace"
        raise BundleError(f"{path} holds {what} ({_some(held) or 'it is empty'}); unpack it and name the trace you mean.")
    if traces[0].flag_bits & 1:
        raise BundleError(f"{path} is encrypted; unpack it and name the trace.")
    name = traces[0].filename
    file = File(f"{path}/{name}", partial(_open_member, path, name), size_bytes=traces[0].file_size, packed="zip")
    return [Input(str(path), file, rank_in(name))]


def _place_in_zip(path: Path) -> zipfile.Path:
    """Where the bundle lies in a zip that was read before."""
    with _damage_told(path), zipfile.ZipFile(path) as archive:
        [place] = _bundle_places([name for name in archive.namelist() if not _is_litter(name)])
    return zipfile.Path(path, place)


def _bundle_places(names: Sequence[str]) -> set[str]:
    told = [name for name in names if _base(name) == MANIFEST_NAME or PART_NAME.fullmatch(_base(name))]
    return without_details(name[: -len(_base(name))] for name in told)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as problem:
        raise BundleError(f"{path} is a damaged or encrypted zip file ({problem}); copy it again.") from problem


def _open_member(path: Path, name: str) -> IO[bytes]:
    return zipfile.ZipFile(path).open(name)


def _is_litter(name: str) -> bool:
    return name.startswith("__MACOSX/") or _base(name).startswith(".")


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _standard_input() -> File:
    """Copied to a temporary file first: some files must be read twice."""
    spool = _Spool(sys.stdin.buffer)
    return File("standard input", spool.open, size_bytes=spool.size_bytes)


class _Spool:
    """What can be read once -> what can be opened again and again, for as long as this lives."""

    def __init__(self, source: IO[bytes]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when nobody can open it any more
        weakref.finalize(self, self._file.close)
        shutil.copyfileobj(source, self._file, 1 << 20)
        self.size_bytes = self._file.tell()

    def open(self) -> IO[bytes]:
        """The file, at its start."""
        self._file.seek(0)
        return os.fdopen(os.dup(self._file.fileno()), "rb")


def _remote(url: str) -> File:
    """Streamed through fsspec, which knows s3, gs, http and more by the packages that are installed."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as missing:
        raise BundleError(f'{url} is a URL, and fsspec is not installed: pip install "longpole[remote]".') from missing
    try:
        storage, path = url_to_fs(url)
        size = storage.size(path)
    except FileNotFoundError as missing:
        raise BundleError(f"{url} does not exist; check the address.") from missing
    except Exception as problem:  # any backend may raise anything, from a missing package to a refused login
        raise BundleError(f"{url} cannot be opened ({' '.join(str(problem).split())[:300]}).") from problem
    return File(url, partial(storage.open, path, "rb"), size_bytes=size)


# First bytes


def _first_bytes(file: File) -> bytes:
    try:
        with file.open() as stream:
            return stream.read(SNIFFED_BYTES)
    except OSError as problem:
        raise BundleError(f"{file.name} cannot be read: {problem.strerror or problem}.") from problem


def _suffix_note(name: str, file: File) -> dict[str, tuple[int, str]]:
    """A name that promises another packing than the file has."""
    first = _first_bytes(file)
    packed = "gzip" if first.startswith(GZIP) else "zstd" if first.startswith(ZSTD) else "plain text"
    promised = {".gz": "gzip", ".zst": "zstd", ".zip": "zip", ".json": "plain text"}.get(Path(name).suffix.lower())
    return {} if promised in (None, packed) else {"wrong_suffix": (1, f"{Path(name).suffix} promises {promised}, it is {packed}")}
