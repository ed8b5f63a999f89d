"""A named file, member of a zip, URL or standard input -> its JSON text, block by block, unpacked by its first bytes.

Nothing is held but a block. The SHA-256 of what was read and how much it was are known at the end.
"""

import gc
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from isal import igzip_lib

from ...capture.errors import BundleError

BLOCK_BYTES = 1 << 18
INPUT_BYTES = 1 << 14
LONG_BYTES = 8 << 20  # of a packed file, some seconds of work; below it the start of a second process costs what it saves
LONG_TEXT_BYTES = 96 << 20
LARGEST_BYTES = 16 * 10**9  # of text out of an archive; about 3 GB of tables
GZIP, ZIP, EMPTY_ZIP, ZSTD = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06", b"\x28\xb5\x2f\xfd"
OTHER_MAGIC = {
    b"\xfd7zXZ": "an .xz file; unpack it first (xz -d)",
    b"BZh": "a .bz2 file; unpack it first (bzip2 -d)",
    b"7z\xbc\xaf": "a .7z archive; unpack it first",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"%PDF": "a PDF; name the trace it was made from",
    b"SQLite format 3": "an Nsight Systems or SQLite database; export a chrome trace from torch.profiler instead",
    b"\x80": "a pickle; longpole opens no pickles, name the chrome trace",
}


class Opener(Protocol):
    """Opens a file anew, at its start, for reading bytes."""

    def __call__(self) -> IO[bytes]: ...


@dataclass(frozen=True)
class File:
    """One file to read. `name`: as messages and reports show it; `sha256`: what it should be, where a manifest says so."""

    name: str
    open: Opener
    path: Path | None = None  # where it is an ordinary file
    size_bytes: int | None = None
    sha256: str | None = None
    packed: str = ""  # "zip": a member, whose size is what it unpacks to


def ordinary_file(path: Path, sha256: str | None = None) -> File:
    """A file on disk."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as missing:
        raise BundleError(f"{path} does not exist; check the path.") from missing
    except OSError as problem:
        raise BundleError(f"{path} cannot be read: {problem.strerror or problem}.") from problem
    return File(str(path), partial(path.open, "rb"), path, size, sha256)


def is_long(file: File) -> bool:
    """Whether a second process saves more than its start costs."""
    if file.path is None or file.size_bytes is None:
        return False
    return file.size_bytes >= (LONG_TEXT_BYTES if file.path.suffix == ".json" else LONG_BYTES)


@dataclass
class Reading:
    """What is known of a file while and after it is read."""

    read_bytes: int = 0  # of the file itself
    text_bytes: int = 0  # unpacked
    packed: str = ""  # "gzip", "zstd": how it turned out to be packed
    damage: str = ""  # why a packed file ended early
    sha256: str = ""


def blocks(file: File, reading: Reading, largest_bytes: int = LARGEST_BYTES) -> Iterator[bytes]:
    """The unpacked text; BundleError where the file cannot be opened, changes, or holds more than `largest_bytes`."""
    with ExitStack() as stack:
        try:
            stream = stack.enter_context(file.open())
            before = _state(file)
            first = stream.read(BLOCK_BYTES)
        except FileNotFoundError as missing:
            raise BundleError(f"{file.name} does not exist; check the path.") from missing
        except OSError as problem:
            raise BundleError(f"{file.name} cannot be read: {problem.strerror or problem}.") from problem
        if not first:
            raise BundleError(f"{file.name} is empty; the capture did not finish writing it, capture again.")
        digest = hashlib.sha256()
        raw = _hashed(first, stream, reading, file.name, digest)
        yield from _bounded(_unpacked(file.name, first, raw, reading), file, reading, largest_bytes)
        if not reading.text_bytes:
            raise BundleError(f"{file.name} is a damaged archive ({reading.damage}); copy it again or capture again.")
        for _ in raw:  # what follows the end of an archive belongs to the file all the same
            pass
        if _state(file) != before:
            raise BundleError(f"{file.name} changed while it was read; wait until the capture has written it, then try again.")
    reading.sha256 = digest.hexdigest()
    if file.sha256 not in (None, reading.sha256):
        raise _altered(file)


def refuse_altered(file: File) -> None:
    """BundleError where a file of a bundle is not the one that its manifest describes."""
    if file.sha256 is not None:
        with file.open() as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != file.sha256:  # type: ignore[arg-type]
                raise _altered(file)


def _altered(file: File) -> BundleError:
    return BundleError(f"{file.name} is not the file that was captured (its SHA-256 is not the manifest's); copy it again.")


def _state(file: File) -> tuple[int, int] | None:
    if file.path is None:
        return None
    stat = file.path.stat()
    return stat.st_size, stat.st_mtime_ns


def _hashed(first: bytes, stream: IO[bytes], reading: Reading, name: str, digest: Any) -> Iterator[bytes]:
    block = first
    while block:
        digest.update(block)
        reading.read_bytes += len(block)
        yield block
        try:
            block = stream.read(BLOCK_BYTES)
        except OSError as problem:
            raise BundleError(f"{name} cannot be read to its end: {problem.strerror or problem}.") from problem
        except (zlib.error, EOFError, ValueError) as problem:  # a damaged member of a zip
            reading.damage = f"the archive is damaged ({problem})"
            return


def _unpacked(name: str, first: bytes, raw: Iterator[bytes], reading: Reading) -> Iterator[bytes]:
    for magic, what in OTHER_MAGIC.items():
        if first.startswith(magic):
            raise BundleError(f"{name} is {what}.")
    if first.startswith(GZIP):
        reading.packed = "gzip"
        return _inflated(name, raw, reading)
    if first.startswith(ZSTD):
        reading.packed = "zstd"
        return _zstd(name, raw, reading)
    if first.startswith(ZIP):
        raise BundleError(f"{name} holds an archive inside an archive; unpack it and name the trace.")
    return raw


def _inflated(name: str, raw: Iterator[bytes], reading: Reading) -> Iterator[bytes]:
    """One gzip member after the other; a damaged or cut one gives what it holds up to there."""
    inflater = None
    try:
        for block in _sliced(raw):
            while block:
                if inflater is None:
                    block = block.lstrip(b"\0")
                    if block[:2] != GZIP[: len(block)]:
                        return  # bytes after the end of the archive
                    if not block:
                        break
                    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
                yield from _filled(inflater, block)
                if not inflater.eof:
                    break
                block, inflater = inflater.unused_data, None
        if inflater is not None:
            reading.damage = reading.damage or "the gzip file ends early"
    except (igzip_lib.error, EOFError, OSError) as problem:  # pyright: ignore[reportGeneralTypeIssues]
        reading.damage = f"the gzip file is damaged ({problem})"


def _sliced(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces of input: what a damaged file gives up to its damage is lost by no more than one of them."""
    for block in raw:
        for at in range(0, len(block), INPUT_BYTES):
            yield block[at : at + INPUT_BYTES]


def _filled(inflater: Any, block: bytes) -> Iterator[bytes]:
    """All that some input inflates to, a bounded piece at a time: a bomb is noticed before it is large."""
    piece = inflater.decompress(block, BLOCK_BYTES)
    while piece:
        yield piece
        piece = b"" if inflater.eof or inflater.needs_input else inflater.decompress(b"", BLOCK_BYTES)


def _zstd(name: str, raw: Iterator[bytes], reading: Reading) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as missing:
        raise BundleError(f'{name} is a .zst file, and zstandard is not installed: pip install "longpole[zst]".') from missing
    joined: Any = _Joined(raw)
    stream = zstandard.ZstdDecompressor().stream_reader(joined, read_across_frames=True)
    try:
        while block := stream.read(BLOCK_BYTES):
            yield block
    except zstandard.ZstdError as problem:
        reading.damage = f"the zstd file is damaged ({problem})"


class _Joined(io.RawIOBase):
    """Blocks as a file to read from."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self.source, self.rest = source, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.source, b"")
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def _bounded(text: Iterator[bytes], file: File, reading: Reading, largest_bytes: int) -> Iterator[bytes]:
    for block in text:
        reading.text_bytes += len(block)
        if reading.text_bytes > largest_bytes and (reading.packed or file.packed):
            size = "" if file.packed or not file.size_bytes else f" out of {file.size_bytes / 1e6:.3g} MB"
            raise BundleError(
                f"{file.name} unpacks to more than {largest_bytes / 1e9:g} GB{size}; where that is no trick, raise the limit "
                f"with --max-gb {2 * largest_bytes / 1e9:g}."
            )
        yield block


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the search for cycles of objects, a twelfth of the time: decoded events are in none, and freed by themselves."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


Progress = Callable[[int, int | None, int], None]  # bytes of the file read, of how many (None: not known), events so far
