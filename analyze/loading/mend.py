"""The text of one event, read with tolerance -> the same as valid JSON; every change is named.

torch has written names raw until 2.14: quotes, backslashes and control characters stand in its strings as they are. What closes
a string is then told by what may follow it: a key that events have, or the end of the object.
"""

import re

import msgspec

from .events import NOT_JSON, LooseEvent

EVENT_KEYS = r"(?:ph|cat|name|pid|tid|ts|dur|args|id|id2|bp|s|cname|tts|tdur|scope|sf|esf|stack|estack|bind_id|flow_in|flow_out)"
OWN_TEXTS = {"ph", "cat", "pid", "tid", "ts", "dur", "id", "id2", "bp", "s"}  # their values are not the user's
SPACE = r"[ \t\r\n]*"
OWN_TEXT = re.compile(r'"([^"\\]*)"')
SPACES_OF_TEXT = re.compile(SPACE)
AFTER_VALUE = re.compile(rf'{SPACE}(?:,{SPACE}"{EVENT_KEYS}"{SPACE}:|\}}{SPACE}$)')
AFTER_ARGUMENT = re.compile(rf'{SPACE}(?:,{SPACE}"[^"\n]{{1,200}}"{SPACE}:|\}}{SPACE}[,\]}}])')
AFTER_ELEMENT = re.compile(rf'{SPACE}(?:\]{SPACE}[,\]}}]|,{SPACE}["\[{{\-+\dtfnNiI])')
TOKEN = re.compile(rf"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?={SPACE}[,\]}}]|{SPACE}$)")
NO_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?|1\.#\w+)(?:\([\w ]*\))?", re.IGNORECASE)
ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
CONTROL = re.compile(r"[\x00-\x1f]")

Mended = tuple[bytes, set[str]]  # an event's text, nothing where there was none; codes of what was changed

_any_event = msgspec.json.Decoder(LooseEvent)


class Unmendable(Exception):  # noqa: N818 - a result, told by raising because it comes from deep inside the text
    """Not even by these rules is the text an event."""


def mended_text(piece: bytes) -> Mended | None:
    """None where not even tolerance makes it an event."""
    text = piece.decode("utf-8", "replace")
    kinds = {"bad_utf8"} if text.encode("utf-8") != piece else set[str]()
    try:
        mender = _Mender(text)
        mended = mender.event().encode("utf-8")
    except (Unmendable, RecursionError):
        return None
    return (mended, kinds | mender.kinds) if is_event(mended) and _any_event.decode(mended).ph else None


def is_event(piece: bytes) -> bool:
    """Whether it is valid JSON, in valid UTF-8, and an object."""
    try:
        piece.decode("utf-8")
        _any_event.decode(piece)
        return True
    except NOT_JSON:
        return False


class _Mender:
    """One event's text, read with tolerance and written anew as JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.kinds: set[str] = set()

    def event(self) -> str:
        self._space()
        self._object(AFTER_VALUE)
        self._space()
        if self.at != len(self.text):
            raise Unmendable
        return "".join(self.out)

    def _space(self) -> str:
        character = self.text[self.at : self.at + 1]
        if character and character in " \t\r\n":
            spaces = SPACES_OF_TEXT.match(self.text, self.at)
            self.at = spaces.end() if spaces else self.at
            return self.text[self.at : self.at + 1]
        return character

    def _take(self, character: str) -> None:
        if self._space() != character:
            raise Unmendable
        self.at += 1
        self.out.append(character)

    def _object(self, after_value: re.Pattern[str]) -> None:
        self._take("{")
        self._skip_commas()
        while self._space() != "}":
            key = self._own_text()
            self._take(":")
            if after_value is AFTER_VALUE and key in OWN_TEXTS and self._space() == '"':
                self._own_text()
            else:
                self._value(after_value)
            self._comma("}")
        self._take("}")

    def _own_text(self) -> str:
        """A string that the tool chose, so without quotes and backslashes."""
        text = OWN_TEXT.match(self.text, self.at)
        if text is None:
            raise Unmendable
        self.out.append(f'"{self._escaped(text[1])}"')
        self.at = text.end()
        return text[1]

    def _list(self) -> None:
        self._take("[")
        self._skip_commas()
        while self._space() != "]":
            self._value(AFTER_ELEMENT)
            self._comma("]")
        self._take("]")

    def _comma(self, closing: str) -> None:
        if self._space() == closing:
            return
        self._take(",")
        self._skip_commas()
        if self._space() == closing:  # nothing follows it
            self.out.pop()
            self.kinds.add("stray_commas")

    def _skip_commas(self) -> None:
        while self._space() == ",":
            self.at += 1
            self.kinds.add("stray_commas")

    def _value(self, after: re.Pattern[str]) -> None:
        first = self._space()
        if first == "{":
            self._object(AFTER_ARGUMENT)
        elif first == "[":
            self._list()
        elif first == '"':
            self._string(after)
        else:
            self._number()

    def _number(self) -> None:
        if token := TOKEN.match(self.text, self.at):
            self.out.append(token.group())
        elif token := NO_NUMBER.match(self.text, self.at):
            self.out.append("null")
            self.kinds.add("non_json_number")
        else:
            raise Unmendable
        self.at = token.end()

    def _string(self, after: re.Pattern[str]) -> None:
        if self._space() != '"':
            raise Unmendable
        start = end = self.at + 1
        while (end := self.text.find('"', end)) >= 0:
            if not self._is_escaped(end) and after.match(self.text, end + 1):
                self.out.append(f'"{self._escaped(self.text[start:end])}"')
                self.at = end + 1
                return
            end += 1
        raise Unmendable

    def _is_escaped(self, quote: int) -> bool:
        before = quote
        while self.text[before - 1] == "\\":
            before -= 1
        return (quote - before) % 2 == 1

    def _escaped(self, content: str) -> str:
        if "\\" in content or '"' in content:
            content = self._valid_escapes(content)
        if CONTROL.search(content):
            self.kinds.add("control_characters")
            content = CONTROL.sub(lambda c: f"\\u{ord(c.group()):04x}", content)
        return content

    def _valid_escapes(self, content: str) -> str:
        """Escapes as they are; a backslash that begins none, a quote that has none, half a character: made valid."""
        parts: list[str] = []
        at = 0
        for escape in ESCAPE.finditer(content):
            parts += [self._unescaped(content[at : escape.start()]), escape.group()]
            at = escape.end()
        whole = "".join([*parts, self._unescaped(content[at:])])
        if LONE_SURROGATE.search(whole):
            pairs = [*SURROGATES.findall(whole), ""]
            halves = [LONE_SURROGATE.sub(r"\\ufffd", part) for part in SURROGATES.split(whole)]
            mended = "".join(half + pair for half, pair in zip(halves, pairs, strict=True))
            self.kinds |= {"bad_utf8"} if mended != whole else set()
            return mended
        return whole

    def _unescaped(self, part: str) -> str:
        if "\\" in part:
            self.kinds.add("raw_backslashes")
            part = part.replace("\\", "\\\\")
        if '"' in part:
            self.kinds.add("unescaped_quotes")
            part = part.replace('"', '\\"')
        return part
