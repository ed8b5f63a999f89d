"""What several charts share: the time axis, and how a change and its interval look."""

from collections.abc import Callable

from ..formats import Unit, interval, number
from ..svg import Face, Svg, coord, nice_ticks, text_width, tick_decimals

CUT = 4.0  # a bar more than so many times its neighbours is cut, or they would all be lines
BASELINE = 0.36  # from the middle of a line of text down to its baseline, in font sizes


def linear(low: float, high: float, left: float, right: float) -> Callable[[float], float]:
    px_per_unit = (right - left) / (high - low)
    return lambda value: left + (value - low) * px_per_unit


def draw_time_axis(
    svg: Svg,
    limits: tuple[float, float],
    unit: Unit,
    to_x: Callable[[float], float],
    top: float,
    bottom: float,
    sign: bool = False,
) -> None:
    """Vertical grid lines and their labels below; the unit stands once, at zero or at the first."""
    small, per_unit = svg.medium.small_size, unit.ns_per_unit
    ticks = nice_ticks(limits[0] / per_unit, limits[1] / per_unit, 6)
    named = 0.0 if 0.0 in ticks else ticks[0]
    for tick in ticks:
        x = to_x(tick * per_unit)
        svg.line(x, top, x, bottom, "grid" if tick else "ink3" if sign else "rule")
        label = number(tick, tick_decimals(ticks), sign)
        shift = text_width(label, small) / 2  # the digits stand under the line, also where the unit follows
        text = f"{label}\u202f{unit.name}" if tick == named else label
        x = min(max(x - shift, 0), svg.medium.width - text_width(text, small))
        svg.text(x, bottom + 4 + small, text, "ink3", small)


def draw_break(svg: Svg, x: float, base: float) -> None:
    """Two strokes over the foot of an axis that does not begin at zero."""
    for stroke, width in (("paper", 5), ("ink2", 1)):
        svg.path("".join(f"M{coord(x - 4)} {coord(base - y + 2)}l9 -4" for y in (7, 10)), stroke=stroke, width=width)


def change_style(change_ns: float, low_ns: float | None, high_ns: float | None) -> tuple[str, Face]:
    """Grey, where the interval holds zero or is unknown."""
    if low_ns is None or high_ns is None or low_ns <= 0 <= high_ns:
        return "ink3", "regular"
    return ("good" if change_ns < 0 else "bad"), "strong"


def interval_text(low_ns: float | None, high_ns: float | None, unit: Unit) -> str:
    if low_ns is None or high_ns is None:
        return "–"
    low, high = (number(ns / unit.ns_per_unit, unit.decimals, sign=True) for ns in (low_ns, high_ns))
    return interval(low, high)
