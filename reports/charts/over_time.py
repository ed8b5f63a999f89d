"""How does a value change over time? A stepped area for each device, on one time axis and one scale."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ..formats import BINARY_UNITS, Unit, by_suffix, choose_unit, interval, number, time
from ..svg import Medium, Svg, clip, coord, nice_step, nice_ticks, shortened, text_width, tick_decimals
from .parts import BASELINE, draw_break, draw_time_axis, linear
from .rows import Chart, Lane, Piece, StepSpan

MOST_LANES = 8  # a node has eight GPUs; of more the highest are drawn, and the others counted
MOST_STEPS = 40  # the borders of more are a hatching
DRAWN_PIECES, DRAWN_TIPS = 400, 48  # of all lanes together; at most twice as many where long ones lie between short ones
LANE_HEIGHTS = (118, 84, 56)  # of one, of two, of more lanes
FLAT_SHARE = 0.8  # of the highest value: where all is above that, an axis from zero would show a mere block
SAME_BORDER = 4  # pixels between the end of a step and the start of the next
WEAKER = 0.45


def over_time(medium: Medium, lanes: Sequence[Lane], steps: Sequence[StepSpan], name: str, id: str = "over_time") -> Chart:
    """Lanes as they are at least and at most in each piece of time. `name` ends in their unit: `held_bytes`, `waiting_count`."""
    highest = _highest(lanes)
    drawn = [replace(lane, pieces=tuple(_fewer(lane.pieces, DRAWN_PIECES // len(highest)))) for lane in highest]
    plot = _plot(medium, drawn, steps if len(steps) <= MOST_STEPS else (), name)
    bottom, more, varies = plot.bottom(len(drawn) - 1), len(lanes) - len(drawn), any(map(_varies, drawn))
    svg = Svg(medium, bottom + (38 if more or varies else 20) * medium.scale)
    draw_time_axis(svg, plot.limits, choose_unit(plot.limits[1]), plot.to_x, plot.top, bottom)
    for i, lane in enumerate(drawn):
        _draw_lane(svg, plot, i, lane)
        _draw_names(svg, plot, i, lane, named=len(drawn) > 1)
        _hover(svg, plot, i, lane, max(DRAWN_TIPS // len(drawn), 1))
    _draw_steps(svg, plot, len(drawn))
    _draw_notes(svg, plot, more, varies)
    alt = _in_words(drawn, plot)
    return Chart(id, svg.text_of(alt), alt)


@dataclass(frozen=True)
class _Plot:
    name: str
    unit: Unit  # of the values
    left: float
    right: float
    top: float
    lane_height: float
    lane_gap: float
    most_ticks: int
    limits: tuple[float, float]  # of time
    floor: float  # the values at the bottom and the top of a lane
    ceiling: float
    steps: tuple[StepSpan, ...]

    @property
    def to_x(self) -> Callable[[float], float]:
        return linear(*self.limits, self.left, self.right)

    def bottom(self, lane: int) -> float:
        return self.top + max(lane, 0) * (self.lane_height + self.lane_gap) + self.lane_height

    def name_base(self, lane: int) -> float:
        """The baseline of what is written above the lane."""
        return self.bottom(lane) - self.lane_height - self.lane_gap / 3

    def to_y(self, lane: int) -> Callable[[float], float]:
        return linear(self.floor, self.ceiling, self.bottom(lane), self.bottom(lane) - self.lane_height)

    def said(self, value: float) -> str:
        return by_suffix(self.name, value)


def _highest(lanes: Sequence[Lane]) -> list[Lane]:
    ranked = sorted(range(len(lanes)), key=lambda i: -_peak(lanes[i]))
    return [lanes[i] for i in sorted(ranked[:MOST_LANES]) if lanes[i].pieces]


def _peak(lane: Lane) -> float:
    return max((p.high for p in lane.pieces), default=0)


def _plot(medium: Medium, lanes: Sequence[Lane], steps: Sequence[StepSpan], name: str) -> _Plot:
    low, high = min((p.low for lane in lanes for p in lane.pieces), default=0), max(map(_peak, lanes), default=0)
    unit = _value_unit(name, high)
    floor = _floor(low, high, unit)
    ceiling = high + 0.05 * (high - floor) if high > floor else floor + 1
    first, last = ([lane.pieces[row] for lane in lanes] for row in (0, -1))
    limits = (min((p.start_ns for p in first), default=0), max((p.end_ns for p in last), default=1))
    height = LANE_HEIGHTS[min(max(len(lanes), 1), len(LANE_HEIGHTS)) - 1] * medium.scale
    plot = _Plot(
        name, unit, 0, medium.width - 2, (34 if steps else 18) * medium.scale, height, 22 * medium.scale,
        5 if len(lanes) == 1 else 3, limits, floor, ceiling, tuple(steps),
    )  # fmt: skip
    ticks = _ticks(plot)
    labels = [unit.name, "step", *(number(tick, tick_decimals(ticks)) for tick in ticks)]
    return replace(plot, left=max(36 * medium.scale, 8 + max(text_width(label, medium.small_size) for label in labels)))


def _floor(low: float, high: float, unit: Unit) -> float:
    """Zero, or where all values are far from it, a round value below them."""
    if not low > FLAT_SHARE * high or not high > low:
        return min(low, 0)
    step = nice_step((high - low) / unit.ns_per_unit, 3) * unit.ns_per_unit
    return max(math.ceil(low / step) - 1, 0) * step


def _value_unit(name: str, highest: float) -> Unit:
    if not name.endswith("_bytes"):
        return Unit("", 1, 0)
    return Unit(*next((u for u in reversed(BINARY_UNITS) if highest >= u[1]), BINARY_UNITS[0]))


def _ticks(plot: _Plot) -> list[float]:
    """Round values; of what cannot be divided, whole ones."""
    per_unit = plot.unit.ns_per_unit
    ticks = nice_ticks(plot.floor / per_unit, plot.ceiling / per_unit, plot.most_ticks)
    return [tick for tick in ticks if per_unit > 1 or float(tick).is_integer()]


def _draw_lane(svg: Svg, plot: _Plot, row: int, lane: Lane) -> None:
    _draw_value_axis(svg, plot, row)
    svg.path(
        _outline(plot, row, lane, [p.high for p in lane.pieces]), "fwd", "ink3", 0.75, strength=WEAKER if _varies(lane) else 1
    )
    if _varies(lane):
        svg.path(_outline(plot, row, lane, [p.low for p in lane.pieces]), "fwd")
    if plot.floor > 0:
        draw_break(svg, plot.left, plot.bottom(row))


def _varies(lane: Lane) -> bool:
    return any(p.low < p.high for p in lane.pieces)


def _fewer(pieces: Sequence[Piece], most: int) -> Iterator[Piece]:
    """As they are, or if they are more: those that lie close together as one, with the least and the most of them."""
    start, part_ns = pieces[0].start_ns, (pieces[-1].end_ns - pieces[0].start_ns) / most

    def place(piece: Piece) -> tuple[int, bool]:
        return int((piece.start_ns - start) / part_ns), piece.end_ns - piece.start_ns > part_ns

    for _, near in groupby(pieces, place) if len(pieces) > most else ((None, [piece]) for piece in pieces):
        group = list(near)
        yield Piece(group[0].start_ns, group[-1].end_ns, min(p.low for p in group), max(p.high for p in group))


def _outline(plot: _Plot, row: int, lane: Lane, heights: Sequence[float]) -> str:
    """From the bottom up, through the steps, and down; where the height stays there is no corner."""
    to_x, to_y, base = plot.to_x, plot.to_y(row), coord(plot.bottom(row))
    path, before = f"M{coord(to_x(lane.pieces[0].start_ns))} {base}", ""
    for x, y in ((coord(to_x(p.start_ns)), coord(to_y(height))) for p, height in zip(lane.pieces, heights, strict=True)):
        if y != before:
            path += f"H{x}V{y}"
            before = y
    return f"{path}H{coord(to_x(lane.pieces[-1].end_ns))}V{base}"


def _draw_value_axis(svg: Svg, plot: _Plot, row: int) -> None:
    small, to_y = svg.medium.small_size, plot.to_y(row)
    ticks = _ticks(plot)
    for tick in ticks:
        y = to_y(tick * plot.unit.ns_per_unit)
        svg.line(plot.left, y, plot.right, y, "grid" if tick else "rule")
        svg.text(plot.left - 5, y + small * BASELINE, number(tick, tick_decimals(ticks)), "ink3", small, align="right")
    if row == 0:
        svg.text(plot.left - 5, plot.name_base(row), plot.unit.name, "ink3", small, align="right")


def _draw_names(svg: Svg, plot: _Plot, row: int, lane: Lane, named: bool) -> None:
    """Above the lane: whose it is, and its peak, over the moment of it."""
    small, peak = svg.medium.small_size, _peak(lane)
    x, y = plot.to_x(lane.peak_ns), plot.to_y(row)(peak)
    base, left = plot.name_base(row), plot.left
    if named:
        label = clip(lane.label, small, 140 * svg.medium.scale, "strong")
        svg.text(left, base, label, "ink", small, "strong")
        left += text_width(label, small, "strong") + 12
    text = f"peak {plot.said(peak)} at {time(lane.peak_ns)}"
    width = text_width(text, small)
    svg.discs([(x, y)], 2.2 * svg.medium.scale, "ink")
    svg.text(min(max(x - width / 2, left), plot.right - width), base, text, "ink", small)


def _draw_steps(svg: Svg, plot: _Plot, lanes: int) -> None:
    """Borders through each lane, and names above them where they fit."""
    if not plot.steps:
        return
    small, to_x, y = svg.medium.small_size, plot.to_x, svg.medium.small_size + 2
    svg.text(plot.left - 5, y, "step", "ink3", small, align="right")
    borders = _borders([(to_x(step.start_ns), to_x(step.end_ns)) for step in plot.steps])
    reaches = [(y - small, y + 3), *((plot.bottom(i) - plot.lane_height, plot.bottom(i)) for i in range(lanes))]
    lines = "".join(f"M{x} {coord(top)}V{coord(bottom)}" for x in map(coord, borders) for top, bottom in reaches)
    svg.path(lines, stroke="ink3", width=0.75, dash="2 2")
    for step in plot.steps:
        left, right = to_x(step.start_ns), to_x(step.end_ns)
        label = clip(step.label, small, right - left - 6)
        if label and (label == step.label or not step.label.isdecimal()):  # half a number is another number
            svg.text((left + right) / 2, y, label, "ink3", small, align="centre")


def _borders(spans: Sequence[tuple[float, float]]) -> list[float]:
    """Where a step begins, and where it ends unless the next one begins there."""
    begins = [left for left, _ in spans]
    return [*begins, *(right for _, right in spans if all(abs(right - left) > SAME_BORDER for left in begins))]


def _draw_notes(svg: Svg, plot: _Plot, more: int, varies: bool) -> None:
    """Below the time axis: what the two strengths mean, and how many lanes are not drawn."""
    small, swatch, x, y = svg.medium.small_size, 7 * svg.medium.scale, plot.left, svg.height - 4
    for strength, text in ((1, "throughout"), (WEAKER, "at times")) if varies else ():
        svg.path(f"M{coord(x)} {coord(y - swatch)}h{coord(swatch)}v{coord(swatch)}h-{coord(swatch)}z", "fwd", strength=strength)
        svg.text(x + swatch + 4, y, text, "ink2", small)
        x += swatch + text_width(text, small) + 18
    if more:
        svg.text(x, y, f"{more} more, none of them higher", "ink3", small)


def _hover(svg: Svg, plot: _Plot, row: int, lane: Lane, most: int) -> None:
    top, to_x = plot.bottom(row) - plot.lane_height, plot.to_x
    for piece in _fewer(lane.pieces, most) if not svg.medium.pdf else ():
        x = to_x(piece.start_ns)
        svg.hover((x, top, to_x(piece.end_ns) - x, plot.lane_height), _tip(plot, lane, piece))


def _tip(plot: _Plot, lane: Lane, piece: Piece) -> str:
    unit = choose_unit(plot.limits[1])
    low, high = plot.said(piece.low), plot.said(piece.high)
    span = interval(time(piece.start_ns, unit), time(piece.end_ns, unit))
    return f"{shortened(lane.label, 40)}, {span}\n{interval(low, high)}"


def _in_words(lanes: Sequence[Lane], plot: _Plot) -> str:
    told = [
        f"{shortened(lane.label, 60)}: {interval(plot.said(min(p.low for p in lane.pieces)), plot.said(_peak(lane)))}, "
        f"highest at {time(lane.peak_ns)}"
        for lane in lanes
    ]
    return f"Stepped area over time. {'; '.join(told) or 'Nothing'}"
