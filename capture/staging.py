"""Files made in a hidden folder -> the bundle's folder: all of them or, after a failure, the old ones."""

import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .bundle import MANIFEST_NAME, is_bundle
from .errors import CaptureError, FolderUsedError

BUNDLE_FILE = re.compile(r"manifest\.json|rank\d+\.(trace\.json\.gz|key_averages(_by_shape)?\.json|memory\.json)")


@dataclass(frozen=True)
class Staging:
    """A bundle's folder and the hidden folder inside it, on the same disk, where the files are made."""

    folder: Path
    hidden: Path
    folder_is_new: bool


def prepared(folder: Path, *, force: bool) -> Staging:
    """Make the folder and its hidden folder; CaptureError when it is in use (unless `force`) or cannot be written."""
    folder_is_new = not folder.exists()
    try:
        if not force:
            _refuse_used(folder)
        folder.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=".capture-", suffix=".tmp", dir=folder))
    except OSError as failure:
        raise CaptureError(f"{folder} cannot be written ({failure}); name a folder that can.") from failure
    return Staging(folder, hidden, folder_is_new)


def publish(staging: Staging) -> None:
    """Put the hidden folder's files in the place of an older bundle's; when that fails, all is as it was before.

    The old manifest goes first and the new one comes last, so that no reader finds a manifest with the wrong files.
    """
    old = staging.hidden / "old"
    old.mkdir()
    outwards = [(path, old / path.name) for path in reversed(_manifest_last(bundle_files(staging.folder)))]
    made = _manifest_last(path for path in staging.hidden.iterdir() if path.is_file())
    move_all([*outwards, *((path, staging.folder / path.name) for path in made)])


def move_all(moves: list[tuple[Path, Path]]) -> None:
    """Rename each file, in order; when one fails, take back those before it and raise the OSError."""
    done: list[tuple[Path, Path]] = []
    try:
        for origin, place in moves:
            origin.replace(place)
            done.append((origin, place))
    except OSError:
        for origin, place in reversed(done):
            place.replace(origin)
        raise


def discard(staging: Staging) -> None:
    """Remove the hidden folder, and the bundle's folder if it was made for a bundle that never came."""
    shutil.rmtree(staging.hidden, ignore_errors=True)
    if staging.folder_is_new:
        with suppress(OSError):  # not empty: the bundle is there
            staging.folder.rmdir()


def bundle_files(folder: Path) -> list[Path]:
    """The files of a folder that have a bundle's names; other people's files are left alone."""
    return [path for path in folder.iterdir() if path.is_file() and BUNDLE_FILE.fullmatch(path.name)]


def _manifest_last(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.name == MANIFEST_NAME, path.name))


def _refuse_used(folder: Path) -> None:
    if is_bundle(folder):
        raise FolderUsedError(f"{folder} already holds a bundle; name another folder", "replace it")
    if folder.exists() and any(folder.iterdir()):
        raise FolderUsedError(f"{folder} is not empty; name a new or empty folder", "write into it")
