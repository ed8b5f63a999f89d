"""A bundle's folder -> one .zip, the same bytes every time; and back: whole, checked by SHA-256, nothing but a bundle's files."""

import hashlib
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from .bundle import (
    DETAIL_FOLDER,
    MANIFEST_NAME,
    PART_NAME,
    Manifest,
    has_detail,
    is_bundle,
    manifest_names,
    read_manifest,
    without_details,
)
from .errors import BundleError, FolderUsedError
from .staging import BUNDLE_FILE, move_all

EARLIEST = (1980, 1, 1, 0, 0, 0)  # of all dates that a zip can hold
LEVEL = 6
BLOCK_BYTES = 1 << 20
IN_DETAIL = f"{DETAIL_FOLDER}/"
LARGEST_MANIFEST_BYTES = 64 << 20  # real ones have some kB, those of a thousand ranks a MB
# Snapshots, which shrink best, go to a twentieth. Deflate itself can do 1032 : 1, with nothing to tell.
MOST_RATIO = 200
SMALL_BYTES = 1 << 20  # of so much a ratio says nothing
UNSAFE = re.compile(r"[\x00-\x1f\\:]|^/|(^|/)\.\.(/|$)")  # a drive letter has its colon


def pack(folder: Path, target: Path, *, force: bool = False) -> list[str]:
    """Write the bundle's files, and those of its detail pass, into one zip.

    Returns the names of what else the folder holds, which is left out.
    """
    places = _places(folder)
    refuse_used(target, force=force)
    own = [path for place in places.values() for path in _own(place)]
    if any(path.resolve() == target.resolve() for path in own):
        raise BundleError(f"{target} is a file of the bundle itself and would be lost; name another place with -o.")
    sums = {f"{within}{name}": sha256 for within, place in places.items() for name, sha256 in _sums_in(place).items()}
    names = sorted({_name_in(folder, path) for path in own} | sums.keys(), key=_order)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name in names:
                    _add(archive, folder, name, sums.get(name))
            file.flush()
            os.fsync(file.fileno())
        known = {*names, temporary.name, target.name, *(within.rstrip("/") for within in places)}
        found = [path for place in places.values() for path in place.iterdir()]
        others = sorted(name for path in found if (name := _name_in(folder, path)) not in known)
        temporary.replace(target)
    except OSError as problem:
        raise BundleError(f"{target} cannot be written ({problem.strerror or problem}); name another place with -o.") from problem
    finally:
        with suppress(OSError):  # its folder may be none
            temporary.unlink(missing_ok=True)
    return others


def unpack(packed: Path, folder: Path, *, largest_bytes: int, force: bool = False) -> list[str]:
    """Make the bundle's folder from its zip; returns the names of what else the zip holds, which is left out."""
    with _opened(packed) as archive:
        place, members, others = _members(packed, archive)
        with _damage_told(packed):
            inside = zipfile.Path(archive, place)
            sums = _sums_in(inside)
            if any(name.startswith(IN_DETAIL) for name in members):
                sums |= {f"{IN_DETAIL}{name}": sha256 for name, sha256 in _sums_in(inside / DETAIL_FOLDER).items()}
        if missing := sorted(sums.keys() - members.keys()):
            raise BundleError(f"{packed} lacks {missing[0]}, which its manifest lists; pack the bundle again.")
        _refuse_used_folder(folder, force)
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".unpack-", suffix=".tmp", dir=folder) as hidden:
                _write_members(packed, archive, members, sums, Path(hidden), largest_bytes)
                _put_in_place(Path(hidden), folder)
        except OSError as problem:
            raise BundleError(f"{folder} cannot be written ({problem.strerror or problem}); name another place.") from problem
        finally:
            if is_new:
                with suppress(OSError):  # not empty: the bundle is there
                    folder.rmdir()
    return others


def refuse_used(target: Path, *, force: bool) -> None:
    """FolderUsedError where a file would be replaced that nobody said could be."""
    if not force and target.exists():
        raise FolderUsedError(f"{target} is there already; name another file", "replace it")


def sums_of(manifests: Sequence[Manifest], given: str) -> dict[str, str]:
    """Name -> SHA-256 of each file that the manifests list; BundleError where a name is not one of a bundle's."""
    ranks = [rank for manifest in manifests for rank in manifest.ranks]
    files = [file for rank in ranks for file in (rank.trace, rank.key_averages, rank.key_averages_by_shape, rank.memory)]
    for file in filter(None, files):
        if not BUNDLE_FILE.fullmatch(file.name):
            raise BundleError(f"{given} lists {file.name!r} in its manifest, which is no file of a bundle; capture again.")
    return {file.name: file.sha256 for file in files if file is not None}


# Packing


def _places(folder: Path) -> dict[str, Path]:
    """Where the files of a bundle lie, by what stands before their names in the zip."""
    manifests = [read_manifest(folder, name) for name in manifest_names(folder) or [MANIFEST_NAME]]
    detail = folder / DETAIL_FOLDER
    told = any(map(has_detail, manifests)) and is_bundle(detail)
    return {"": folder, IN_DETAIL: detail} if told else {"": folder}


def _sums_in(place: Any) -> dict[str, str]:
    return sums_of([read_manifest(place, name) for name in manifest_names(place)], str(place))


def _name_in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _order(name: str) -> tuple[bool, bool, str]:
    """The bundle before its detail pass, and of each the manifest first."""
    return name.startswith(IN_DETAIL), not _is_manifest(_base(name)), name


def _add(archive: zipfile.ZipFile, folder: Path, name: str, sha256: str | None) -> None:
    """One file; a trace as it is, for it is packed already."""
    path = folder / name
    try:
        source = path.open("rb")
    except FileNotFoundError as missing:
        raise BundleError(f"{path.parent} lacks {path.name}, which its manifest lists; copy the whole folder again.") from missing
    with source:
        entry = zipfile.ZipInfo(name, EARLIEST)
        entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16  # Unix, whatever this system is
        entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".gz" else zipfile.ZIP_DEFLATED
        entry._compresslevel = LEVEL  # pyright: ignore[reportAttributeAccessIssue] - writestr sets it so too
        entry.file_size = os.fstat(source.fileno()).st_size  # tells whether the entry needs 64 bits
        with archive.open(entry, "w") as file:
            found = _copied(_blocks(source), file)
    if sha256 not in (None, found):
        raise _altered(path)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(BLOCK_BYTES):
        yield block


def _copied(blocks: Iterable[bytes], target: IO[bytes]) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


def _altered(path: Path) -> BundleError:
    return BundleError(f"{path} is not the file that was captured (its SHA-256 is not the manifest's); copy it again.")


# Unpacking


def _opened(packed: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(packed)
    except FileNotFoundError as missing:
        raise BundleError(f"{packed} does not exist; check the path.") from missing
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as problem:
        raise BundleError(f"{packed} is no zip file, or a damaged one ({problem}); copy it again.") from problem
    except OSError as problem:
        raise BundleError(f"{packed} cannot be read: {problem.strerror or problem}.") from problem


def _members(packed: Path, archive: zipfile.ZipFile) -> tuple[str, dict[str, zipfile.ZipInfo], list[str]]:
    """Where in the zip the bundle lies, its files by name, and the names of others; BundleError where one could do harm."""
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    _refuse_harmful(packed, archive.infolist())
    entries = [entry for entry in entries if not _is_litter(entry.filename)]
    manifests = [entry for entry in entries if _is_manifest(_base(entry.filename))]
    places = without_details(entry.filename.removesuffix(_base(entry.filename)) for entry in manifests)
    if len(places) != 1:
        what = f"{len(places)} bundles" if places else f"no bundle: there is no {MANIFEST_NAME} in it"
        raise BundleError(f"{packed} holds {what}; name a file that longpole pack has made.")
    if (largest := max(entry.file_size for entry in manifests)) > LARGEST_MANIFEST_BYTES:
        raise BundleError(f"{packed} has a manifest of {largest / 1e6:.0f} MB, which no bundle has.")
    place = places.pop()
    names = {entry.filename: entry.filename.removeprefix(place) for entry in entries if entry.filename.startswith(place)}
    detail = any(name.startswith(IN_DETAIL) and _is_manifest(name.removeprefix(IN_DETAIL)) for name in names.values())
    own = {names[entry.filename]: entry for entry in entries if _is_own(names.get(entry.filename, ""), detail)}
    return place, own, sorted(entry.filename for entry in entries if entry not in own.values())


def _is_own(name: str, detail: bool) -> bool:
    """`detail`: whether there is a detail pass at all."""
    return BUNDLE_FILE.fullmatch(name.removeprefix(IN_DETAIL) if detail else name) is not None


def _refuse_harmful(packed: Path, entries: list[zipfile.ZipInfo]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        name, shown = entry.orig_filename, ascii(entry.orig_filename[:200])
        if UNSAFE.search(name):
            raise BundleError(f"{packed} holds {shown}, a name that leads out of its folder; nothing of it was unpacked.")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise BundleError(f"{packed} holds a link ({shown}), and a bundle has none; nothing of it was unpacked.")
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            raise BundleError(f"{packed} holds {seen[same]!a} and {shown}, which some systems take for one file; pack it again.")
        seen[same] = name[:200]
        if entry.flag_bits & 1:
            raise BundleError(f"{packed} is encrypted; decrypt it first, or name the folder.")
        if entry.file_size > max(SMALL_BYTES, MOST_RATIO * entry.compress_size):
            raise BundleError(
                f"{packed} holds {shown}, which would unpack to more than {MOST_RATIO} times its size; that is a trick."
            )


def _is_litter(name: str) -> bool:
    """What systems leave in folders: nobody misses it."""
    return name.startswith("__MACOSX/") or _base(name).startswith(".")


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _is_manifest(name: str) -> bool:
    return name == MANIFEST_NAME or PART_NAME.fullmatch(name) is not None


def _write_members(
    packed: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], sums: dict[str, str], hidden: Path,
    largest_bytes: int,
) -> None:  # fmt: skip
    left = largest_bytes
    for name, entry in members.items():
        (hidden / name).parent.mkdir(exist_ok=True)
        with _damage_told(packed), archive.open(entry) as source, (hidden / name).open("xb") as file:
            found = _copied(_bounded(_blocks(source), packed, left, largest_bytes), file)
            left -= file.tell()
        if sums.get(name, found) != found:
            raise _altered(packed / name)


def _refuse_used_folder(folder: Path, force: bool) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not force:
        what = "already holds a bundle" if is_bundle(folder) else "is not empty"
        raise FolderUsedError(f"{folder} {what}; name another folder", "write into it")
    detail = folder / DETAIL_FOLDER
    if detail.is_symlink() or (detail.exists() and not detail.is_dir()):
        raise BundleError(f"{detail} is a link or a file, where a bundle has a folder; name another folder.")


def _put_in_place(hidden: Path, folder: Path) -> None:
    """All of an older bundle out, all of the new one in: the manifest first and last, so that nobody reads a mixture."""
    old = hidden / "old"
    (old / DETAIL_FOLDER).mkdir(parents=True)
    detail = folder / DETAIL_FOLDER
    if (hidden / DETAIL_FOLDER).is_dir():
        detail.mkdir(exist_ok=True)
    outwards = [(path, old / _name_in(folder, path)) for path in reversed(_manifests_last(folder))]
    inwards = [(path, folder / _name_in(hidden, path)) for path in _manifests_last(hidden)]
    try:
        move_all([*outwards, *inwards])
    finally:
        with suppress(OSError):  # there is none, or it is in use
            detail.rmdir()


def _own(folder: Path) -> list[Path]:
    """The files with a bundle's names; other people's are left alone."""
    return [path for path in folder.iterdir() if path.is_file() and BUNDLE_FILE.fullmatch(path.name)]


def _manifests_last(folder: Path) -> list[Path]:
    """All files of a bundle and its detail pass; the bundle's manifest is the very last."""
    detail = folder / DETAIL_FOLDER
    passes = [*([detail] if is_bundle(detail) else []), folder]
    return [path for one in passes for path in sorted(_own(one), key=lambda path: (_is_manifest(path.name), path.name))]


@contextmanager
def _damage_told(packed: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as problem:
        raise BundleError(f"{packed} is a damaged zip file ({problem}); copy it again.") from problem


def _bounded(blocks: Iterator[bytes], packed: Path, left: int, largest_bytes: int) -> Iterator[bytes]:
    """Counted as they come: what a zip says of its sizes need not be so."""
    for block in blocks:
        left -= len(block)
        if left < 0:
            raise BundleError(
                f"{packed} unpacks to more than {largest_bytes / 1e9:g} GB; where that is no trick, raise the limit with "
                f"--max-gb {2 * largest_bytes / 1e9:g}."
            )
        yield block
