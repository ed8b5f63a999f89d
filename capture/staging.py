"""Files made in a hidden folder -> the bundle's folder: all of them or, after a failure, the old ones.

Several ranks may write one bundle, at any time and in any order. Each touches only what is its own: `rankR.*`, and rank 0
also the manifest and the files of ranks that its launch does not have. So nobody waits, and nobody takes away what another
has just put there; which files belong together stands in the manifest and its parts.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .bundle import manifest_name, manifest_names, read_manifest
from .errors import BundleError, CaptureError, FolderUsedError
from .launch import Launch, this_launch

HIDDEN_SUFFIX, LOCK_NAME = ".tmp", "lock"
BUNDLE_FILE = re.compile(
    r"manifest\.json|rank(\d+)\.(trace\.json\.gz|manifest\.json|key_averages(_by_shape)?\.json|memory\.json)"
)


@dataclass(frozen=True)
class Staging:
    """A bundle's folder and the hidden folder inside it, on the same disk, where the files of this rank are made."""

    folder: Path
    hidden: Path
    launch: Launch
    remove_empty: bool  # the folder was made for this recording alone
    lock: IO[bytes] | None  # of the hidden folder; None where the system has none


def prepared(folder: Path, *, force: bool, launch: Launch | None = None) -> Staging:
    """Make the folder and its hidden folder; CaptureError when it is in use (unless `force`) or cannot be written."""
    folder, launch = folder.absolute(), launch or this_launch()  # the program may change its working directory
    remove_empty = launch.token is None and not folder.exists()
    try:
        for abandoned in folder.glob(f".capture-*{HIDDEN_SUFFIX}"):
            _remove_abandoned(abandoned)
        if not force:
            _refuse_used(folder, launch)
        folder.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=_hidden_prefix(launch), suffix=HIDDEN_SUFFIX, dir=folder))
        lock = _locked(hidden)
    except OSError as failure:
        raise CaptureError(f"{folder} cannot be written ({failure}); name a folder that can.") from failure
    return Staging(folder, hidden, launch, remove_empty, lock)


def publish(staging: Staging) -> None:
    """Put the hidden folder's files in the place of older ones of this rank; when that fails, all is as it was before.

    The old manifest goes first and the new one comes last, so that no reader finds a manifest with the wrong files.
    """
    old = staging.hidden / "old"
    old.mkdir()
    outwards = [(path, old / path.name) for path in reversed(_manifests_last(own_files(staging.folder, staging.launch)))]
    made = _manifests_last(path for path in staging.hidden.iterdir() if BUNDLE_FILE.fullmatch(path.name))
    move_all([*outwards, *((path, staging.folder / path.name) for path in made)])


def move_all(moves: list[tuple[Path, Path]]) -> None:
    """Rename each file, in order; when one fails, or Ctrl-C comes, take back those before it."""
    done: list[tuple[Path, Path]] = []
    try:
        for origin, place in moves:
            origin.replace(place)
            done.append((origin, place))
    except BaseException:
        for origin, place in reversed(done):
            place.replace(origin)
        raise


def discard(staging: Staging) -> None:
    """Remove the hidden folder, and the bundle's folder if it was made for a bundle that never came."""
    if staging.lock:
        staging.lock.close()
    shutil.rmtree(staging.hidden, ignore_errors=True)
    if staging.remove_empty:
        with suppress(OSError):  # not empty: the bundle is there
            staging.folder.rmdir()


def _locked(hidden: Path) -> IO[bytes] | None:
    """A file there, locked as long as this process lives; it gets its name once it is, so that nobody finds it free before."""
    unnamed = hidden / f"{LOCK_NAME}.new"
    file = unnamed.open("wb")
    if _takes(file):
        unnamed.replace(hidden / LOCK_NAME)
        return file
    file.close()
    return None


def _remove_abandoned(hidden: Path) -> None:
    """Remove a hidden folder whose process was killed: nobody holds its lock. One without a lock says nothing, and stays."""
    with suppress(OSError), (hidden / LOCK_NAME).open("rb+") as file:
        if _takes(file):
            shutil.rmtree(hidden, ignore_errors=True)


def _takes(file: IO[bytes]) -> bool:
    """Whether a file could be locked: nobody else has, and the system can."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def own_files(folder: Path, launch: Launch) -> list[Path]:
    """The files of a folder that have a bundle's names and are this rank's to replace."""
    return [path for path in folder.iterdir() if path.is_file() and _owner(path.name, launch.world_size) == launch.rank]


def _owner(name: str, world_size: int) -> int | None:
    """The rank that a bundle's file is of; rank 0 where nobody else would be; None of other people's files."""
    match = BUNDLE_FILE.fullmatch(name)
    if match is None:
        return None
    rank = int(match[1] or 0)
    return rank if rank < world_size else 0


def _manifests_last(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.name.endswith("manifest.json"), path.name))


def _hidden_prefix(launch: Launch) -> str:
    return ".capture-" if launch.token is None else f".capture-{launch.token}-"


def is_free(folder: Path) -> bool:
    """Whether `prepared` would take a folder without force."""
    try:
        _refuse_used(folder, this_launch())
    except FolderUsedError:
        return False
    return True


def _refuse_used(folder: Path, launch: Launch) -> None:
    """Unless what is there is of other ranks of this launch, and this one has not written yet."""
    held = [path.name for path in folder.iterdir()] if folder.exists() else []
    told = manifest_names(folder)  # looked for last: a rank that is done has its manifest before its hidden folder goes
    peers = _begun_by_peers(held, launch) or _told_by_peers(folder, told, launch)
    if told and (manifest_name(launch.rank) in told or not peers):
        raise FolderUsedError(f"{folder} already holds a bundle; name another folder", "replace it")
    if held and not peers:
        raise FolderUsedError(f"{folder} is not empty; name a new or empty folder", "write into it")


def _begun_by_peers(held: list[str], launch: Launch) -> bool:
    return launch.token is not None and any(name.startswith(_hidden_prefix(launch)) for name in held)


def _told_by_peers(folder: Path, told: list[str], launch: Launch) -> bool:
    return launch.token is not None and any(_launch_of(folder, name) == launch.token for name in told)


def _launch_of(folder: Path, name: str) -> str | None:
    try:
        return read_manifest(folder, name).launch
    except BundleError:  # whatever it is, it is none of ours
        return None
