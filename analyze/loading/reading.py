"""Blocks of JSON text -> chunks of events in the order of the file, and what stands beside them.

Text is cut between two events and each piece decoded as a list of its own, which can only succeed where the cut lay between
elements of the list: inside a string a quote is open there, inside arguments a bracket is. So no layout is assumed, and a piece
that decodes is proven whole. One that does not is handed to the repair, alone.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from ...capture.errors import BundleError
from .events import NOT_JSON, Chunk, Decoder, Header, is_json, loose_chunk
from .repair import Repairs, Split, Whole, is_cut, whole_events

CHUNK_BYTES = 1 << 17  # at least: with a block more, the objects of one chunk still fit the cache of a core when they are freed
BROKEN_BYTES = 2 * CHUNK_BYTES  # text in which no cut proved right: looked at event by event
LARGEST_BYTES = 1 << 26  # one event, or the metadata beside them: a few MB at the most in any real file
LONGEST_KEY_BYTES = 1 << 10  # the key of the events with the spaces around it
MOST_CUTS = 3  # borders tried from the end of a chunk before it is looked at event by event
EVENTS_KEY = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[')
CUT = re.compile(rb'\}[ \t\r\n]*(,)[ \t\r\n]*\{[ \t\r\n]*"(?:ph|name|cat|pid|tid|ts|args|dur|id)"[ \t\r\n]*:')
ANY_CUT = re.compile(rb"\}[ \t\r\n]*(,)[ \t\r\n]*\{")  # where no event begins with a key that is known
CUT_WITHIN = 1 << 13  # bytes at the end of a chunk in which its last border is looked for first
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SECOND_TRACE = re.compile(rb'"traceEvents"[ \t\r\n]*:|"schemaVersion"[ \t\r\n]*:')
EVENTS_OR_EVENT = re.compile(rb'"traceEvents"[ \t\r\n]*:|"ph"[ \t\r\n]*:[ \t\r\n]*"')  # what metadata do not hold
ESCAPED_CHARACTER = re.compile(rb"\\u[0-9a-fA-F]{4}")  # as only a writer who escapes writes them
FRAME = re.compile(r"\(\d+\): ")  # "path(line): function", as Python frames are called
CONTROL = re.compile(r"[\x08-\x0d]")
DRIVE = re.compile(r"[A-Za-z]:[\x08-\x0d]")  # C:\temp, read as if its backslash began an escape


NO_END_OF_OBJECT = "the object around the events does not end"


class RawBackslashes(Exception):  # noqa: N818 - a decision, told by raising because the file must be read again from its start
    """The writer does not escape backslashes: all that were read as escapes until now were none."""


@dataclass
class Findings:
    """What reading met besides events. `repairs`: as in `repair`; the rest are codes of trouble with their counts."""

    repairs: Repairs = field(default_factory=Repairs)
    counts: Counter[str] = field(default_factory=Counter)
    cut_off: str = ""  # why the file has no end: after which no event can be told to be the last


class Reader:
    """One pass over a file's text. `header`: complete once all chunks were taken."""

    def __init__(self, name: str, raw_backslashes: bool = False) -> None:
        self.name, self.raw_backslashes = name, raw_backslashes
        self.header = Header()
        self.found = Findings()
        self.decoder = Decoder()
        self.bare_list = False
        self.escapes = False  # a name was read that only a writer who escapes can have written

    def chunks(self, blocks: Iterator[bytes]) -> Iterator[Chunk]:
        """BundleError where the text is no trace, RawBackslashes where it must be read again by that rule."""
        rest = self._head(blocks)
        while True:
            text, at_end = _gathered(rest, blocks)
            if at_end:
                yield from self._last(text)
                return
            chunk, rest = self._chunk(text)
            if chunk is not None:
                yield chunk
            elif len(text) > BROKEN_BYTES:
                split = whole_events(rest, False, self.raw_backslashes, self.found.repairs)
                yield from self._repaired(split, rest)
                rest = rest[split.rest :]
                if split.ended:
                    self._trailer(rest + _all_of(blocks))
                    return
                if len(rest) > LARGEST_BYTES:
                    raise BundleError(f"{self.name} holds {len(rest) / 1e6:.0f} MB without the end of an event; it is damaged.")

    # Before the events

    def _head(self, blocks: Iterator[bytes]) -> bytes:
        """Reads up to the first event; returns the text from there on."""
        text = next(blocks, b"")
        while len(text) < len(BYTE_ORDER_MARK) and (more := next(blocks, b"")):
            text += more
        if text.startswith(BYTE_ORDER_MARK):
            text = text[len(BYTE_ORDER_MARK) :]
            self.found.counts["byte_order_mark"] = 1
        while not text.strip() and (more := next(blocks, b"")):
            text = more
        text = text.lstrip()
        if text[:1] not in (b"{", b"["):
            raise BundleError(f"{self.name} is not a trace (it holds no JSON); name a chrome trace or a bundle.")
        if text[:1] == b"[":
            self.bare_list = True
            return text[1:]
        searched = 0
        while EVENTS_KEY.search(text, searched) is None:
            searched = max(0, len(text) - LONGEST_KEY_BYTES)
            more = next(blocks, b"")
            if not more or len(text) > LARGEST_BYTES:
                raise NoEvents(self.name, text)
            text += more
        return self._beside_first(text)

    def _beside_first(self, text: bytes) -> bytes:
        """The key at the outermost level, which the text before it proves; where that is broken, the first one."""
        keys = list(EVENTS_KEY.finditer(text))
        for key in keys:
            if (header := _header(text[: key.end()] + b"]}")) is not None:
                self.header = header
                return text[key.end() :]
        self.header = self._beside(text[: keys[0].end()] + b"]}")
        return text[keys[0].end() :]

    def _beside(self, text: bytes) -> Header:
        """What stands beside the events; where that is broken, what can be found by name."""
        header = _header(text)
        if header is None:
            self.found.counts["broken_metadata"] += 1
        return header or header_by_name(text)

    # The events

    def _chunk(self, text: bytearray) -> tuple[Chunk | None, bytes]:
        """The events up to the last border that proves right, and the text after it; None and all of it where none does."""
        for comma in _last_commas(text):
            text[comma] = ord("]")
            try:
                return self._decoded(memoryview(text)[: comma + 1]), bytes(text[comma + 1 :])
            except NOT_JSON:
                text[comma] = ord(",")
        return None, bytes(text[1:])

    def _decoded(self, text: memoryview | bytes) -> Chunk:
        if not self.raw_backslashes:
            return self.decoder.chunk(text)
        chunk = self.decoder.any_chunk(bytes(text).replace(b"\\", b"\\\\"))
        self.found.repairs.kinds["raw_backslashes"] += sum("\\" in (event.name or "") for event in chunk.events)
        return chunk

    def _repaired(self, split: Split, original: bytes) -> Iterator[Chunk]:
        repairs = self.found.repairs
        if (repairs.dropped or repairs.kinds["broken_borders"]) and SECOND_TRACE.search(original, 0, split.rest):
            raise two_writers(self.name)
        chunk = self._each(split.events) if split.events else None
        self.escapes = self.escapes or ESCAPED_CHARACTER.search(original, 0, split.rest) is not None
        if repairs.kinds["raw_backslashes"] and not self.raw_backslashes and not self.escapes:
            raise RawBackslashes
        if chunk is not None:
            yield chunk

    def _each(self, events: list[Whole]) -> Chunk:
        """Texts that are JSON each; what no decoder takes all the same is dropped and counted."""
        try:
            chunk = self.decoder.any_chunk(b"[" + b",".join(event.text for event in events) + b"]")
        except NOT_JSON:
            good = [event for event in events if is_json(event.text)]
            self.found.repairs.dropped += len(events) - len(good)
            events, chunk = good, loose_chunk([event.text for event in good])
        events = [event for event in events if event.text.startswith(b"{")]  # the others are no events
        if len(events) != len(chunk.events):  # which one is which cannot be told
            return replace(chunk, judged=True)
        mended = np.array([event.mended for event in events], np.bool_)
        self.judge([event.name for event, changed in zip(chunk.events, mended, strict=True) if event.name and not changed])
        return replace(chunk, judged=True, mended=mended)

    # The end

    def _last(self, text: bytearray) -> Iterator[Chunk]:
        """What is left at the end of the file: the last events, and what stands after them."""
        if not self.raw_backslashes and (whole := self._whole(text)) is not None:
            yield whole
            return
        body = bytes(text[1:])
        split = whole_events(body, True, self.raw_backslashes, self.found.repairs)
        yield from self._repaired(split, body)
        rest = body[split.rest :]
        if split.ended:
            self._trailer(rest)
        else:
            yield from self._cut(rest)

    def _whole(self, text: bytearray) -> Chunk | None:
        """The common case: the end of a healthy file, where nothing but the last bracket and metadata follow the events."""
        if self.bare_list:
            return self._decoded_or_none(text)
        end = text.rfind(b"]")
        after = _header(b'{"":0' + text[end + 1 :])
        chunk = self._decoded_or_none(text[: end + 1]) if after is not None else None
        if after is not None and chunk is not None:
            self.header = merged(self.header, after)
        return chunk

    def _decoded_or_none(self, text: bytearray) -> Chunk | None:
        try:
            return self.decoder.chunk(text)
        except NOT_JSON:
            return None

    def _cut(self, rest: bytes) -> Iterator[Chunk]:
        """The list of events never ends: the file was cut off."""
        whole = rest.rstrip().rstrip(b",")
        self.found.cut_off = self.found.cut_off or "the list of events does not end"
        if not whole:
            return
        if SECOND_TRACE.search(rest):
            raise two_writers(self.name)
        if is_json(whole):
            yield self._each([Whole(whole)])
        else:
            self.found.counts["cut_events"] += 1

    def _trailer(self, rest: bytes) -> None:
        """What stands after the list of events."""
        if self.bare_list:
            if rest.strip():
                self._extra(rest)
            return
        text = b'{"":0' + rest
        if (header := _header(text)) is not None:
            self.header = merged(self.header, header)
            return
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as problem:
            if EVENTS_OR_EVENT.search(text):
                raise two_writers(self.name) from problem
            if rest.rstrip()[-1:] == b"}" and not (isinstance(problem, json.JSONDecodeError) and is_cut(problem)):
                self.header = merged(self.header, self._beside(text))
            else:
                self.found.cut_off = NO_END_OF_OBJECT
                self.header = merged(self.header, header_by_name(text))
            return
        whole = text.decode("utf-8", "replace")
        self.header = merged(self.header, self._beside(whole[:end].encode("utf-8")))
        self._extra(whole[end:].encode("utf-8"))

    def _extra(self, rest: bytes) -> None:
        """Text after the end: of another trace where two programs wrote to one file."""
        if SECOND_TRACE.search(rest) or EVENTS_OR_EVENT.search(rest):
            raise two_writers(self.name)
        self.found.counts["trailing_text"] += 1

    # Names

    def judge(self, names: list[str]) -> None:
        """RawBackslashes where new names show that the writer's backslashes were no escapes, though JSON takes them so."""
        for name in names:
            if '"' in name:
                self.escapes = True
            elif not (self.raw_backslashes or self.escapes) and _is_path_misread(name):
                raise RawBackslashes


class NoEvents(Exception):  # noqa: N818 - what it means is decided where other kinds of JSON are known
    """The text is a JSON object without a list of events."""

    def __init__(self, name: str, text: bytes) -> None:
        super().__init__(name)
        self.text = text


def _is_path_misread(name: str) -> bool:
    return CONTROL.search(name) is not None and (FRAME.search(name) is not None or DRIVE.match(name) is not None)


def two_writers(name: str) -> BundleError:
    """The refusal of a file in which two traces are mixed: which event belongs to which can not be told."""
    return BundleError(
        f"{name} holds two traces written into one file, interleaved; give each process a file name of its own and capture again."
    )


def _gathered(rest: bytes, blocks: Iterator[bytes]) -> tuple[bytearray, bool]:
    """`[` and enough text to decode; whether the file ends with it."""
    text = bytearray(b"[")
    text += rest
    enough = max(CHUNK_BYTES, 2 * len(rest))
    while len(text) < enough:
        block = next(blocks, None)
        if block is None:
            return text, True
        text += block
    return text, False


def _all_of(blocks: Iterator[bytes]) -> bytes:
    """The rest of the file, as far as metadata reach."""
    text = bytearray()
    for block in blocks:
        if len(text) < LARGEST_BYTES:
            text += block
    return bytes(text)


def _last_commas(text: bytearray) -> list[int]:
    """Places of the commas between two events, the last first."""
    near = max(0, len(text) - CUT_WITHIN)
    for border, begin in ((CUT, near), (CUT, 0), (ANY_CUT, near)):
        if found := [match.start(1) for match in border.finditer(text, begin)]:
            return found[: -MOST_CUTS - 1 : -1]
    return []


def _header(text: bytes) -> Header | None:
    try:
        return msgspec.json.decode(text, type=Header)
    except NOT_JSON:
        return None


HEADER_FIELDS = msgspec.structs.fields(Header)


def merged(header: Header, more: Header) -> Header:
    """What stands before the events and after them; the first word holds."""
    given = {}
    for f in HEADER_FIELDS:
        first = getattr(header, f.name)
        given[f.name] = getattr(more, f.name) if first == f.default else first
    return Header(**given)


def header_by_name(text: bytes) -> Header:
    """The known keys of text that is no JSON as a whole: each value that is one by itself."""
    whole = text.decode("utf-8", "replace")
    given: dict[str, Any] = {}
    for f in HEADER_FIELDS:
        for key in re.finditer(rf'"{f.encode_name}"\s*:\s*', whole):
            try:
                given.setdefault(f.name, json.JSONDecoder(strict=False).raw_decode(whole, key.end())[0])
            except (ValueError, RecursionError):
                continue
    return Header(**given)
