"""Which phases make the difference between before and after? A horizontal waterfall."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from ..formats import Unit, choose_unit, time
from ..svg import Medium, Svg, clip, shortened
from .parts import BASELINE, change_style, draw_time_axis, interval_text, linear
from .rows import Change, Chart, smaller

MOST_CHANGES = 12


def waterfall(medium: Medium, before_ns: float, after_ns: float, rows: Sequence[Change], id: str = "waterfall") -> Chart:
    """From before to after, the largest change first; what the rows do not explain is a row of its own."""
    rows = _balanced(rows, after_ns - before_ns, max(before_ns, after_ns))
    levels = list(accumulate((r.change_ns for r in rows), initial=before_ns))
    unit = replace(choose_unit(max(before_ns, after_ns)), decimals=2)  # small changes stand beside the whole step
    left, right, row_height = 122 * medium.scale, 178 * medium.scale, 22 * medium.scale
    low_ns, high_ns = min(0.0, *levels), max(*levels, after_ns, 1)
    to_x = linear(low_ns, high_ns, left, medium.width - right)
    bottom = (len(rows) + 2) * row_height
    svg = Svg(medium, bottom + 20 * medium.scale)
    draw_time_axis(svg, (low_ns, high_ns), unit, to_x, 0, bottom)
    _draw_total(svg, 0, "Before", before_ns, unit, to_x)
    for i, row in enumerate(rows):
        _draw_change(svg, (i + 1) * row_height, row, levels[i], unit, to_x)
    _draw_step_down(svg, (len(rows) + 1) * row_height, to_x(levels[-1]))
    _draw_total(svg, (len(rows) + 1) * row_height, "After", after_ns, unit, to_x)
    small = medium.small_size
    svg.text(medium.width, bottom + 4 + small, "95\u202f% interval", "ink3", small, align="right")
    changes = "; ".join(f"{shortened(r.label, 60)} {time(r.change_ns, unit, sign=True)}" for r in rows)
    alt = f"Waterfall from {time(before_ns, unit)} before to {time(after_ns, unit)} after: {changes or 'no changes'}"
    return Chart(id, svg.text_of(alt), alt)


def _balanced(rows: Sequence[Change], difference_ns: float, scale_ns: float) -> list[Change]:
    """The largest changes, and one row for all else, so that the steps end at the after bar."""
    ranked = sorted(rows, key=lambda r: -abs(r.change_ns))
    shown = ranked if len(ranked) <= MOST_CHANGES else ranked[: MOST_CHANGES - 1]
    rest_ns = difference_ns - sum(r.change_ns for r in shown)
    merged = len(ranked) - len(shown)
    if merged or abs(rest_ns) > 5e-4 * scale_ns:  # less than that is rounding and cannot be seen
        shown.append(Change(smaller(merged, "change") if merged else "Not in a phase", rest_ns))
    return shown


def _draw_total(svg: Svg, y: float, label: str, ns: float, unit: Unit, to_x: Callable[[float], float]) -> None:
    row = 22 * svg.medium.scale
    base = y + row / 2 + svg.medium.label_size * BASELINE
    svg.text(0, base, label, "ink", face="strong")
    svg.rect((to_x(0), y + row * 0.19, max(to_x(ns) - to_x(0), 0.5), row * 0.62), "ink2", f"{label}\n{time(ns, unit)}")
    svg.text(_change_column(svg.medium), base, time(ns, unit), "ink", face="strong", align="right")


def _draw_change(svg: Svg, y: float, change: Change, from_ns: float, unit: Unit, to_x: Callable[[float], float]) -> None:
    medium, row = svg.medium, 22 * svg.medium.scale
    x1, x2 = to_x(from_ns), to_x(from_ns + change.change_ns)
    colour, face = change_style(change.change_ns, change.low_ns, change.high_ns)
    _draw_step_down(svg, y, x1)
    interval = interval_text(change.low_ns, change.high_ns, unit)
    value = time(change.change_ns, unit, sign=True)
    box = (min(x1, x2), y + row * 0.19, max(abs(x2 - x1), 1.2), row * 0.62)
    svg.rect(box, colour, f"{shortened(change.label)}\n{value}\n95\u202f% interval {interval}")
    base = y + row / 2 + medium.label_size * BASELINE
    svg.text(0, base, clip(change.label, medium.label_size, 114 * medium.scale), "ink2")
    svg.text(_change_column(medium), base, value, colour, face=face, align="right")
    svg.text(medium.width, base, interval, "ink3", medium.small_size, align="right")


def _draw_step_down(svg: Svg, y: float, x: float) -> None:
    reach = 22 * svg.medium.scale * 0.19
    svg.line(x, y - reach, x, y + reach, "ink3")


def _change_column(medium: Medium) -> float:
    return medium.width - 102 * medium.scale
