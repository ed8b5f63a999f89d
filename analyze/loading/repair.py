"""Text of events that do not decode -> the same events as valid JSON, or nothing; every change is named.

An event ends where its JSON ends. One that is broken is mended up to where the next sound one begins, or kept without its
arguments, or dropped and counted.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .events import is_json
from .mend import Mended, is_event, mended_text

EVENT_START = re.compile(rb'\{[ \t\r\n]*(?:\}|"(?:ph|name|cat|pid|tid|ts|args|dur|id|id2|bp|s|cname)"[ \t\r\n]*:)')
EVENT_HEAD = re.compile(  # as Kineto begins events, told where the rest of one is broken
    rb'\{[ \t\r\n]*(?:"name"[ \t\r\n]*:[ \t\r\n]*"[^"{}]*"[ \t\r\n]*,[ \t\r\n]*"ph"[ \t\r\n]*:'
    rb'|"ph"[ \t\r\n]*:[ \t\r\n]*"[A-Za-z]"[ \t\r\n]*,[ \t\r\n]*"(?:cat|name|id|pid|s)"[ \t\r\n]*:)'
)
LIST_END = re.compile(rb"\}[ \t\r\n,]*\]")
BRACKET = re.compile(rb"\]")
FILE_END = re.compile(rb'[ \t\r\n]*(?:\}?[ \t\r\n]*\Z|,[ \t\r\n]*"[^"\n]{1,200}"[ \t\r\n]*:)')  # or another key of its object
SPACES = re.compile(rb"[ \t\r\n]*")
SEPARATOR = re.compile(rb"[ \t\r\n]*(,[ \t\r\n,]*)?")
PHASE_KEY = re.compile(rb'"ph"[ \t\r\n]*:[ \t\r\n]*"')
ARGS_KEY = re.compile(rb',[ \t\r\n]*"args"[ \t\r\n]*:')
FIRST_PART = 1 << 12  # longer than nearly all events
MOST_TRIED = 8  # places at which a broken event may end
MOST_SEARCHED = 2000  # objects among which the next event is looked for
MOST_BRACKETS = 100  # in the last event, if it is broken, and the one after it that ends the list
JUNK_BYTES = 4  # between two events; more may have been an event
UNDECIDED_BYTES = 1 << 16  # an event that has not ended by then, and whose end may not have been read yet, is called broken

HALF_A_TOKEN = re.compile(r"[\\\w.+-]{0,10}\s*\Z")

_json = json.JSONDecoder()


@dataclass
class Repairs:
    """What was changed, by code: in how many events. `dropped`: events of which nothing could be kept."""

    kinds: Counter[str] = field(default_factory=Counter)
    dropped: int = 0


@dataclass(frozen=True)
class Whole:
    """An event as valid JSON; `mended`: it did not stand so in the file."""

    text: bytes
    mended: bool = False


@dataclass(frozen=True)
class Split:
    """`rest`: where the text that was not used begins; `ended`: the list of events ended there."""

    events: list[Whole]
    rest: int
    ended: bool


def whole_events(text: bytes, at_end: bool, raw_backslashes: bool, repairs: Repairs) -> Split:
    """The events of a text that begins with one; the last stays in the rest where nothing shows that it is whole."""
    return _Splitter(_doubled(text) if raw_backslashes else text, at_end, raw_backslashes, repairs).split()


def _doubled(text: bytes) -> bytes:
    """The same, its backslashes escaped."""
    return text.replace(b"\\", b"\\\\")


class _Splitter:
    """One event after the other: to the end of its JSON, or where that is broken, to where the next one begins."""

    def __init__(self, text: bytes, at_end: bool, is_doubled: bool, repairs: Repairs) -> None:
        self.text, self.at_end, self.is_doubled, self.repairs = text, at_end, is_doubled, repairs
        self.characters = text.decode("latin-1")  # one for each byte: what is JSON's own is the same in both
        self.events: list[Whole] = []
        self.start = 0

    def split(self) -> Split:
        while not self._is_at_end_of_list():
            end = self._value_end(self.start)
            if end is not None and SPACES.fullmatch(self.text, end):
                break  # nothing shows that it is over
            if not (self._sound(end) or self._broken()):
                break
        else:
            self.start += 1
            return Split(self.events, self._rest(), ended=True)
        return Split(self.events, self._rest(), ended=False)

    def _is_at_end_of_list(self) -> bool:
        self.start = _end(SPACES, self.text, self.start)
        return self.text.startswith(b"]", self.start)

    def _rest(self) -> int:
        return len(self.text[: self.start].replace(b"\\\\", b"\\")) if self.is_doubled else self.start

    def _value_end(self, start: int) -> int | None:
        found = self._value(start)
        return found and found[1]

    def _value(self, start: int) -> tuple[Any, int] | None:
        """JSON that begins there, and where it ends. In parts: a failure costs the length of the text that was given."""
        size = FIRST_PART
        while True:
            part = self.characters[start : start + size]
            is_all = start + size >= len(self.characters)
            try:
                value, length = _json.raw_decode(part)
                if length < len(part) or is_all:
                    return value, start + length
            except json.JSONDecodeError as problem:
                if is_all or not is_cut(problem):
                    return None
            except (ValueError, RecursionError):
                return None
            size *= 16

    def _sound(self, end: int | None) -> bool:
        """An element of the list that is JSON, and what separates it from the next."""
        if end is None or self.text.startswith(b"[", self.start):  # which may have been a comma: there are no lists in the list
            return False
        after = _end(SEPARATOR, self.text, end)
        commas, is_last = self.text.count(b",", end, after), self.text.startswith(b"]", after)
        if not (commas or is_last or self.text.startswith(b"{", self.start)):
            return False
        self._take(self.text[self.start : end])
        self.repairs.kinds["stray_commas"] += commas > 1 - is_last
        self.repairs.kinds["broken_borders"] += not (commas or is_last)
        self.start = after
        return True

    def _take(self, piece: bytes) -> None:
        if not (is_event(piece) or is_json(piece)):  # an element that is no event is counted where events are told apart
            mended = self._mended(piece)
            self.repairs.dropped += mended is None
            self._keep(mended)
            return
        self.repairs.kinds["raw_backslashes"] += self.is_doubled and b"\\" in piece
        self.events.append(Whole(piece))

    # Events that are not

    def _broken(self) -> bool:
        """An event with something that is no JSON in it; False where it may not have ended yet."""
        for place, piece in self._endings():
            mended = (b"", {"broken_borders"}) if _is_junk(piece) else self._mended(piece)
            if mended is not None:
                self._keep(mended)
                self.start = place
                return True
            if self._is_event_at(place):
                break
        place = self._next_start()
        if place is None or not (self.at_end or len(self.text) - self.start > UNDECIDED_BYTES):
            return False
        piece = self.text[self.start : place]
        kept = self._without_args(piece)
        self.repairs.dropped += max(1, len(PHASE_KEY.findall(piece))) - (kept is not None)
        self._keep(kept)
        self.start = place
        return True

    def _endings(self) -> Iterator[tuple[int, bytes]]:
        """Where the event may end, and its text up to there: before what looks like another, or like the end of the list."""
        starts = [match.start() for match in islice(EVENT_START.finditer(self.text, self.start + 1), MOST_TRIED)]
        within = starts[-1] if len(starts) == MOST_TRIED else len(self.text)
        for place in sorted([*starts, *islice(self._list_ends(within), MOST_TRIED)]):
            yield place, self.text[self.start : place].rstrip(b" \t\r\n,")

    def _list_ends(self, within: int) -> Iterator[int]:
        found = LIST_END.finditer(self.text, self.start, within)
        return (match.end() - 1 for match in found if FILE_END.match(self.text, match.end()))

    def _next_start(self) -> int | None:
        """Where reading goes on after an event that can not be read."""
        starts = (match.start() for match in EVENT_START.finditer(self.text, self.start + 1))
        start = next((place for place in islice(starts, MOST_SEARCHED) if self._is_event_at(place)), None)
        return self._end_of_list() if start is None and self.at_end else start

    def _end_of_list(self) -> int | None:
        """Of the whole text, after its last event, which is broken and not cut off."""
        try:
            _json.raw_decode(self.characters[self.start :])
        except json.JSONDecodeError as problem:
            if is_cut(problem):
                return None
        except (ValueError, RecursionError):
            pass
        places = (match.start() for match in BRACKET.finditer(self.text, self.start))
        return next((place for place in islice(places, MOST_BRACKETS) if self._ends_file(place + 1)), None)

    def _ends_file(self, place: int) -> bool:
        after = self.characters[place:].rstrip()
        try:
            return not after or _json.raw_decode('{"":0' + after)[1] == len(after) + len('{"":0')
        except (ValueError, RecursionError):
            return False

    def _is_event_at(self, place: int) -> bool:
        if EVENT_HEAD.match(self.text, place):
            return True
        value, _ = self._value(place) or (None, 0)
        return isinstance(value, dict) and "ph" in value and ("pid" in value or "name" in value)

    def _mended(self, piece: bytes) -> Mended | None:
        """The event with quotes and backslashes set right, and a brace around it where only that lacks."""
        for text, kinds in _with_braces(piece):
            for as_written in (text, _doubled(text)) if b"\\" in text and not self.is_doubled else (text,):
                if (mended := mended_text(as_written)) is not None:
                    escapes = {"raw_backslashes"} if b"\\" in text and (self.is_doubled or as_written != text) else set[str]()
                    return mended[0], mended[1] | kinds | escapes
        return None

    def _without_args(self, piece: bytes) -> Mended | None:
        """The event up to its arguments, which can not be read."""
        for match in islice(ARGS_KEY.finditer(piece), MOST_TRIED):
            if (mended := self._mended(piece[: match.start()] + b"}")) is not None:
                return mended[0], mended[1] | {"lost_arguments"}
        return None

    def _keep(self, mended: Mended | None) -> None:
        text, kinds = mended or (b"", set[str]())
        self.repairs.kinds.update(kinds)
        if text:
            self.events.append(Whole(text, mended=True))


def _end(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    """Of a match that may be empty."""
    found = pattern.match(text, start)
    return found.end() if found else start


def is_cut(problem: json.JSONDecodeError) -> bool:
    """Whether JSON is right as far as it goes, and only its end lacks, perhaps in the middle of a token."""
    return problem.msg.startswith("Unterminated string") or HALF_A_TOKEN.match(problem.doc, problem.pos) is not None


def _is_junk(piece: bytes) -> bool:
    return len(piece) <= JUNK_BYTES and b'"' not in piece


def _with_braces(piece: bytes) -> Iterator[tuple[bytes, set[str]]]:
    yield piece, set()
    quote = piece.find(b'"')
    if not piece.startswith(b"{") and 0 <= quote <= JUNK_BYTES:
        yield b"{" + piece[quote:], {"broken_borders"}
    if piece.endswith(b"}"):
        yield piece + b"}", {"broken_borders"}
