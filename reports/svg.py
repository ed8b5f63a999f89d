"""Drawing commands in, the text of one SVG out, for either medium; and the arithmetic of labels, gaps and axes.

The medium decides two things only. Size: a chart is drawn at the width at which it is shown, so text keeps its size.
Paint: HTML gets class names (CSS variables then give both themes); PDF gets attributes, because WeasyPrint applies no page
CSS inside an SVG. Widths come from the bundled fonts' advance table, so labels fit in both and text-anchor, which costs
a form XObject per label in the PDF, is never needed; nor is opacity, which costs a group.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Literal

from .palette import LIGHT

Face = Literal["regular", "strong", "mono"]
Align = Literal["left", "centre", "right"]
Box = tuple[float, float, float, float]  # x, y, width, height

FONT_FILES: dict[Face, str] = {"regular": "Inter-Regular", "strong": "Inter-SemiBold", "mono": "JetBrainsMono-Regular"}
PDF_FACES: dict[Face, str] = {"regular": "", "strong": ' font-weight="600"', "mono": ' font-family="JetBrains Mono"'}
HTML_FACES: dict[Face, str] = {"regular": "", "strong": " w600", "mono": " m"}
FALLBACK_ADVANCE, WIDE_ADVANCE = 0.62, 1.0  # em, of characters that system fonts draw; the second is for CJK and emoji
CAPTION_LIMIT = 160  # characters of a name in tooltips and alternative texts

# Not allowed in XML, or able to turn the reading direction of what follows.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Medium:
    """Where a chart is shown; sizes in CSS pixels."""

    pdf: bool
    width: float
    label_size: float
    small_size: float
    scale: float  # of heights and gaps


HTML = Medium(pdf=False, width=880, label_size=12.5, small_size=11.5, scale=1.25)
PDF = Medium(pdf=True, width=665, label_size=9.6, small_size=8.8, scale=1.0)  # 176 mm, 7.2 pt, 6.6 pt


class Svg:
    """Collects the elements of one drawing."""

    def __init__(self, medium: Medium, height: float) -> None:
        self.medium = medium
        self.height = height
        self._elements: list[str] = []

    def text_of(self, alt: str) -> str:
        """The finished drawing; `alt` says in words what it shows."""
        medium, body = self.medium, "".join(self._elements)
        width, height = coord(medium.width), coord(self.height)
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        if medium.pdf:
            return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Inter">{body}</svg>'
        # No namespace inline: the page then holds no "http" at all.
        return f'<svg {size} role="img" aria-label="{_quoted(alt)}">{body}</svg>'

    def rect(self, box: Box, fill: str, tip: str = "") -> None:
        x, y, width, height = (coord(v) for v in box)
        self._add(f'<rect x="{x}" y="{y}" width="{width}" height="{height}"', self._paint(fill), self._tip(tip), "/>")

    def rects(self, boxes: Iterable[Box], fill: str) -> None:
        """Many boxes of one colour as one path: far fewer elements for WeasyPrint and the browser."""
        d = "".join(f"M{coord(x)} {coord(y)}h{coord(w)}v{coord(h)}h{coord(-w)}z" for x, y, w, h in boxes if w > 0 and h > 0.02)
        if d:
            self.path(d, fill)

    def discs(self, centres: Iterable[tuple[float, float]], radius: float, fill: str) -> None:
        """Many dots of one colour as one path."""
        r, turn = coord(radius), coord(2 * radius)
        d = "".join(f"M{coord(x - radius)} {coord(y)}a{r} {r} 0 1 0 {turn} 0a{r} {r} 0 1 0 -{turn} 0z" for x, y in centres)
        if d:
            self.path(d, fill)

    def path(self, d: str, fill: str = "", stroke: str = "", width: float = 0, dash: str = "", strength: float = 1) -> None:
        self._add(f'<path d="{d}"', self._paint(fill, stroke, width, dash, strength), "/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "rule", width: float = 0.75, dash: str = "") -> None:
        self.path(f"M{coord(x1)} {coord(y1)}L{coord(x2)} {coord(y2)}", stroke=stroke, width=width, dash=dash)

    def hover(self, box: Box, tip: str) -> None:
        """An invisible area that shows a tooltip; nothing in the PDF."""
        if not self.medium.pdf:
            x, y, width, height = (coord(v) for v in box)
            self._add(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="hit"', self._tip(tip), "/>")

    def text(
        self, x: float, y: float, text: str, fill: str = "ink2", size: float = 0, face: Face = "regular", align: Align = "left"
    ) -> None:
        """One line of text; `y` is its baseline, `size` that of labels unless given."""
        text, size = clean(text), size or self.medium.label_size
        x -= text_width(text, size, face) * {"left": 0, "centre": 0.5, "right": 1}[align]
        if self.medium.pdf:
            style = f' fill="{LIGHT[fill]}"{PDF_FACES[face]}'
        else:
            style = f' class="{fill if fill.startswith("on-") else f"f-{fill}"}{HTML_FACES[face]}"'
        self._add(f'<text x="{coord(x)}" y="{coord(y)}" font-size="{coord(size)}"', style, f">{_quoted(text)}</text>")

    def _add(self, *pieces: str) -> None:
        self._elements.append("".join(pieces))

    def _paint(self, fill: str, stroke: str = "", width: float = 0, dash: str = "", strength: float = 1) -> str:
        if self.medium.pdf:
            style = f' fill="{LIGHT[fill] if fill else "none"}"' + (f' stroke="{LIGHT[stroke]}"' if stroke else "")
        else:
            style = f' class="{f"f-{fill}" if fill else "f0"}{f" s-{stroke}" if stroke else ""}"'
        style += f' stroke-width="{coord(width)}"' if width else ""
        style += f' stroke-dasharray="{dash}"' if dash else ""
        return style + (f' fill-opacity="{coord(strength)}"' if strength < 1 else "")

    def _tip(self, tip: str) -> str:
        return f' data-t="{_quoted(tip, newline="&#10;")}"' if tip and not self.medium.pdf else ""


def coord(value: float) -> str:
    """The shortest fixed-point text of a coordinate: equal bytes everywhere, small files."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def clean(text: str) -> str:
    """The text without characters that XML forbids or that reorder the line; tabs and line breaks become spaces."""
    return UNSAFE.sub("\ufffd", " ".join(text.split()) if any(c in text for c in "\t\n\r") else text)


def shortened(text: str, limit: int = CAPTION_LIMIT) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def text_width(text: str, size: float, face: Face = "regular") -> float:
    table = _advances(face)
    return sum(table[c] if c in table else _fallback_advance(c) for c in text) * size


def clip(text: str, size: float, room: float, face: Face = "regular") -> str:
    """The text, cut with an ellipsis where it is wider than the room; nothing if not even two letters fit."""
    text = clean(text[:500])  # no label shows more; a template name may have 100,000 characters
    if text_width(text, size, face) <= room:
        return text
    room -= text_width("…", size, face)
    fitting, used = 0, text_width(text[:1], size, face)
    while used <= room:
        fitting += 1
        used += text_width(text[fitting : fitting + 1], size, face)
    return text[:fitting].rstrip() + "…" if fitting >= 2 else ""


def spread(items: Sequence[tuple[float, float]], low: float, high: float, gap: float) -> list[float]:
    """Centres for items (wanted centre, size) in order, without overlap and inside low..high as far as they fit."""
    centres: list[float] = []
    edge = low
    for wanted, item_size in items:
        centres.append(max(wanted, edge + item_size / 2))
        edge = centres[-1] + item_size / 2 + gap
    edge = high
    for i in range(len(items) - 1, -1, -1):
        centres[i] = min(centres[i], edge - items[i][1] / 2)
        edge = centres[i] - items[i][1] / 2 - gap
    return centres


def nice_step(span: float, at_most: int) -> float:
    """The smallest of 1, 2, 5 · 10^n that divides the span into at most so many intervals."""
    rough = span / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))


def nice_ticks(low: float, high: float, at_most: int) -> list[float]:
    """Round values inside low..high, ascending."""
    if not high > low:
        return [low]
    step = nice_step(high - low, at_most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_decimals(ticks: Sequence[float]) -> int:
    """So many decimals that neighbouring tick labels differ."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(ticks[0]) or 1.0
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _quoted(text: str, newline: str = " ") -> str:
    return newline.join(escape(clean(line)) for line in text.split("\n"))


@cache
def _advances(face: Face) -> dict[str, float]:
    table = resources.files("longpole.templates").joinpath("fonts", "advances.json").read_text(encoding="utf-8")
    return json.loads(table)[FONT_FILES[face]]


def _fallback_advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    return WIDE_ADVANCE if unicodedata.east_asian_width(character) in "WF" else FALLBACK_ADVANCE
