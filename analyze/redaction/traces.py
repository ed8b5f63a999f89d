"""A trace file -> the same trace without what tells whose it is, event by event, in bounded memory."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import IO, Any

import msgspec
import numpy as np

from ..loading.events import NOT_JSON, Chunk
from ..loading.reading import RawBackslashes, Reader
from ..loading.repair import Repairs, Whole
from ..loading.streams import File, Progress, Reading, blocks
from .events import RawEvent, Rules, plain
from .texts import Words, words

# Found by what comes before: a search for plain bytes is thirty times as fast as one for a pattern.
USER_FOLDERS = (b"/home/", b"/Users/", b"/users/", b"\\home\\", b"\\Users\\", b"\\users\\", b"torchinductor_")
USER_KEYS = (b'user"', b'username"', b'user_name"', b'login"', b'started_by"')
HOST_KEYS = (b'host"', b'hostname"', b'host_name"', b'node"', b'node_name"')
FOLDER = re.compile(rb"[\\/]*([\w.-]{2,64})")
VALUE = re.compile(rb'\s*:\s*"([^"\\]{2,200})"')
OVERLAP_BYTES = 512  # longer than what the patterns find


def words_in(file: File, largest_bytes: int) -> Words:
    """Names of people and machines that the text tells."""
    found = Words()
    before = b""
    for block in blocks(file, Reading(), largest_bytes):
        found |= words_of(before + block)
        before = block[-OVERLAP_BYTES:]
    return found


def words_of(text: bytes) -> Words:
    """Names in folders of users, and in what is called user or host."""
    users = [*_after(USER_FOLDERS, FOLDER, text), *_after(USER_KEYS, VALUE, text)]
    return words(users, _after(HOST_KEYS, VALUE, text))


def _after(marks: Iterable[bytes], pattern: re.Pattern[bytes], text: bytes) -> list[str]:
    found = []
    for mark in marks:
        place = text.find(mark)
        while place >= 0:
            place += len(mark)
            if name := pattern.match(text, place):
                found.append(name[1].decode("utf-8", "replace"))
            place = text.find(mark, place)
    return found


def write_redacted(file: File, target: IO[bytes], rules: Rules, largest_bytes: int, progress: Progress | None = None) -> Repairs:
    """Write the trace as it is to be read; what of the original was repaired or dropped. `target` must be able to go back."""
    try:
        return _written_once(file, target, rules, largest_bytes, progress, raw_backslashes=False)
    except RawBackslashes:
        target.seek(0)
        target.truncate()
        return _written_once(file, target, rules, largest_bytes, progress, raw_backslashes=True)


def _written_once(
    file: File, target: IO[bytes], rules: Rules, largest_bytes: int, progress: Progress | None, raw_backslashes: bool
) -> Repairs:
    reading, reader = Reading(), _EventReader(file.name, raw_backslashes)
    text = blocks(file, reading, largest_bytes)
    chunks = reader.chunks(text)
    first = next(chunks, _chunk([]))  # with it, what stands before the events is known
    head, count = rules.header(reader.header), 0
    target.write(b"{" + b"".join(_fields(head)) + b'"traceEvents":[\n')
    for chunk in chain([first], chunks):
        if not chunk.judged:
            reader.judge_new(chunk.events)
        for event in chunk.events:
            target.write(b",\n" if count else b"")
            target.write(msgspec.json.encode(rules.event(event)))
            count += 1
        if progress:
            progress(reading.read_bytes, file.size_bytes, count)
    for _ in text:  # to the end, so that its SHA-256 is the file's
        pass
    if not reader.found.cut_off:  # else the new one stays as incomplete as the old one was
        after = {key: value for key, value in rules.header(reader.header).items() if key not in head}
        target.write(b"\n]" + b"".join(b"," + field[:-1] for field in _fields(after)) + b"}\n")
    return reader.found.repairs


def _fields(values: dict[str, Any]) -> Iterator[bytes]:
    return (msgspec.json.encode(key) + b":" + msgspec.json.encode(value) + b"," for key, value in values.items())


_decoder = msgspec.json.Decoder(list[RawEvent])
_loose = msgspec.json.Decoder(list[msgspec.Raw])
_one = msgspec.json.Decoder(RawEvent)
_NO_TIMES = np.empty(0, np.int64)


class _EventReader(Reader):
    """Reads events as they stand in the file, every value as its text."""

    def __init__(self, name: str, raw_backslashes: bool) -> None:
        super().__init__(name, raw_backslashes)
        self.known: set[bytes] = set()

    def judge_new(self, events: Iterable[RawEvent]) -> None:
        """RawBackslashes where names that were not met before show that the writer does not escape."""
        new = {bytes(event["name"]) for event in events if "name" in event} - self.known
        self.known |= new
        self.judge([name for text in new if b"\\" in text and isinstance(name := plain(text), str)])

    def _decoded(self, text: memoryview | bytes | bytearray) -> Chunk:
        data = bytes(text).replace(b"\\", b"\\\\") if self.raw_backslashes else bytes(text)
        try:
            return _chunk(_decoder.decode(data))
        except msgspec.ValidationError:  # something that is no event among them
            return _chunk(_events(_loose.decode(data)))

    def _decoded_or_none(self, text: bytearray) -> Chunk | None:
        try:
            return self._decoded(text)
        except NOT_JSON:
            return None

    def _each(self, events: list[Whole]) -> Chunk:
        return _chunk(_events([event.text for event in events]), judged=True)


def _events(texts: Iterable[msgspec.Raw | bytes]) -> list[RawEvent]:
    found = []
    for text in texts:
        try:
            found.append(_one.decode(text))
        except NOT_JSON:
            continue
    return found


def _chunk(events: list[RawEvent], judged: bool = False) -> Chunk:
    return Chunk(events, _NO_TIMES, _NO_TIMES, judged=judged)
