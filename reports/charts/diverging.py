"""Which operators changed? Diverging bars with their intervals and three columns of numbers."""

import math
from collections.abc import Callable, Sequence

from ..formats import Unit, choose_unit, number, time
from ..svg import Face, Medium, Svg, clip, coord, shortened
from .parts import BASELINE, CUT, change_style, draw_time_axis, interval_text, linear
from .rows import Chart, OpChange, smaller

MOST_OPERATORS = 15


FASTER_SLOWER = ("← faster", "slower →")


def diverging(medium: Medium, rows: Sequence[OpChange], id: str = "diverging", sides: tuple[str, str] = FASTER_SLOWER) -> Chart:
    """The change of each operator with its interval, the largest first, and three columns of numbers."""
    rows = _largest_changes(rows)
    unit = choose_unit(max((max(r.before_ns, r.after_ns) for r in rows), default=0))
    low_ns, high_ns = _change_range(rows)
    left, right = 206 * medium.scale, 158 * medium.scale
    to_x = linear(low_ns, high_ns, left, medium.width - right)
    top, row_height = 16 * medium.scale, 19 * medium.scale
    bottom = top + len(rows) * row_height
    svg = Svg(medium, bottom + 20 * medium.scale)
    draw_time_axis(svg, (low_ns, high_ns), unit, to_x, top, bottom, sign=True)
    _draw_diverging_heads(svg, top - 5, to_x(0), unit, sides)
    for i, row in enumerate(rows):
        _draw_op_change(svg, top + i * row_height, row, unit, to_x, (low_ns, high_ns))
    changes = "; ".join(f"{shortened(r.label, 60)} {time(r.after_ns - r.before_ns, unit, sign=True)}" for r in rows)
    alt = f"Diverging bars, change of each operator: {changes or 'no operators'}"
    return Chart(id, svg.text_of(alt), alt)


def _largest_changes(rows: Sequence[OpChange]) -> list[OpChange]:
    ranked = sorted(rows, key=lambda r: -abs(r.after_ns - r.before_ns))
    if len(ranked) <= MOST_OPERATORS:
        return ranked
    rest = ranked[MOST_OPERATORS - 1 :]
    merged = OpChange(smaller(len(rest), "change"), sum(r.before_ns for r in rest), sum(r.after_ns for r in rest))
    return [*ranked[: MOST_OPERATORS - 1], merged]


def _change_range(rows: Sequence[OpChange]) -> tuple[float, float]:
    """The scale: all bars and their whiskers; but one bar more than four times the next does not set it."""
    changes = [r.after_ns - r.before_ns for r in rows]
    ranked = sorted((abs(c) for c in changes), reverse=True)
    cut = len(ranked) > 1 and ranked[0] > CUT * ranked[1] > 0
    reach_ns = max(ranked[1] * 1.6 if cut else max(ranked, default=0) * 1.05, 1)
    ends = [end for r, c in zip(rows, changes, strict=True) for end in (c, r.low_ns, r.high_ns) if end is not None]
    # A very uncertain small change must not set the scale either.
    low, high = max(min(0.0, *ends, 0.0), -reach_ns * 1.3), min(max(0.0, *ends, 0.0), reach_ns * 1.3)
    if cut:
        low, high = max(low, -reach_ns), min(high, reach_ns)
    # Each side keeps room for its heading and to show that nothing is there.
    return min(low, -0.35 * high, -0.25), max(high, -0.35 * low, 0.25)


def _draw_diverging_heads(svg: Svg, y: float, zero: float, unit: Unit, sides: tuple[str, str]) -> None:
    small = svg.medium.small_size
    less, more = ("good", "bad") if sides == FASTER_SLOWER else ("ink3", "ink3")
    svg.text(zero - 8, y, sides[0], less, small, align="right")
    svg.text(zero + 8, y, sides[1], more, small)
    for x, head in zip(_op_columns(svg.medium), ("before", "after", f"change, {unit.name}"), strict=True):
        svg.text(x, y, head, "ink3", small, align="right")


def _op_columns(medium: Medium) -> tuple[float, float, float]:
    return tuple(medium.width - x * medium.scale for x in (112, 68, 0))  # type: ignore[return-value]


def _draw_op_change(
    svg: Svg, y: float, row: OpChange, unit: Unit, to_x: Callable[[float], float], limits: tuple[float, float]
) -> None:
    medium, small, row_height = svg.medium, svg.medium.small_size, 19 * svg.medium.scale
    change_ns = row.after_ns - row.before_ns
    colour, face = change_style(change_ns, row.low_ns, row.high_ns)
    end_ns = min(max(change_ns, limits[0]), limits[1])
    zero, end = to_x(0), to_x(end_ns)
    box = (min(zero, end), y + row_height * 0.24, max(abs(end - zero), 1), row_height * 0.52)
    interval = interval_text(row.low_ns, row.high_ns, unit)
    svg.rect(box, colour, f"{shortened(row.label)}\n{time(change_ns, unit, sign=True)}\n95\u202f% interval {interval}")
    if end_ns != change_ns:
        _draw_break(svg, end, box, inwards=math.copysign(1, zero - end))
    elif row.low_ns is not None and row.high_ns is not None:
        _draw_whisker(svg, y + row_height / 2, (row.low_ns, row.high_ns), to_x, limits)
    base = y + row_height / 2 + small * BASELINE
    label_face: Face = "mono" if _is_identifier(row.label) else "regular"
    svg.text(
        0, base, clip(row.label, small, 196 * medium.scale, label_face), "ink3" if colour == "ink3" else "ink", small, label_face
    )
    decimals = unit.decimals
    values = [number(ns / unit.ns_per_unit, decimals) for ns in (row.before_ns, row.after_ns)]
    values.append(number(change_ns / unit.ns_per_unit, decimals, sign=True))
    styles: tuple[tuple[str, Face], ...] = (("ink3", "regular"), ("ink3", "regular"), (colour, face))
    for x, value, (fill, value_face) in zip(_op_columns(medium), values, styles, strict=True):
        svg.text(x, base, value, fill, small, value_face, "right")


def _draw_break(svg: Svg, end: float, box: tuple[float, float, float, float], inwards: float) -> None:
    _, y, _, height = box
    marks = "".join(f"M{coord(end + inwards * d - 1.5)} {coord(y + height + 1)}l3 {coord(-height - 2)}" for d in (6, 10))
    svg.path(marks, stroke="paper", width=1.6)


def _draw_whisker(
    svg: Svg, y: float, interval_ns: tuple[float, float], to_x: Callable[[float], float], limits: tuple[float, float]
) -> None:
    """The interval; an end outside the chart has no cap."""
    low, high = (min(max(ns, limits[0]), limits[1]) for ns in interval_ns)
    if to_x(high) - to_x(low) < 2:
        return
    caps = [to_x(ns) for ns, shown in zip(interval_ns, (low, high), strict=True) if ns == shown]
    line = f"M{coord(to_x(low))} {coord(y)}H{coord(to_x(high))}"
    svg.path(line + "".join(f"M{coord(x)} {coord(y - 2.5)}v5" for x in caps), stroke="ink", width=0.9)


def _is_identifier(label: str) -> bool:
    """Operators and kernels look like code; names made of words do not."""
    return any(mark in label for mark in ("::", "_", "<"))
