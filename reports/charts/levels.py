"""How does a mean go from run to run? Dots with their intervals, the level of each stretch, and where it changes or breaks."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, quantiles

from ..formats import BINARY_UNITS, Unit, by_suffix, choose_unit, number
from ..svg import Medium, Svg, clip, coord, nice_ticks, shortened, text_width, tick_decimals
from .parts import BASELINE, draw_break, linear
from .rows import Chart, Level, RunBreak, RunDot, RunLane

MOST_COLUMNS = 300  # of 2 px; of more runs neighbours are drawn as one
LANE_HEIGHTS = (150, 88)  # of one lane, of each of several
MOST_TIPS = 100  # a lane: narrower than 6 px is hard to point at
COLUMN_WIDTH = 48
DOT = 2.6
LABEL_ROWS, MARK_HEIGHT, LABEL_GAP = 2, 13, 8  # above a lane; what finds no place there has its tooltip and its row in the table
FAR, LEAST_FAR = 4.0, 0.1  # times what nine in ten runs are off their level, and of the level: such runs would flatten the others
BAR_REACH = 0.5  # of the span of the runs: longer intervals are cut
MARGIN = 0.08  # of that span


def levels(
    medium: Medium, lanes: Sequence[RunLane], breaks: Sequence[RunBreak], ends: tuple[str, str] | None = None, id: str = "levels"
) -> Chart:
    """A lane for each value, all over the same runs; `ends`: what is written below the first and the last run."""
    columns = _columns(lanes, breaks)
    drawn = [_joined(lane, columns) for lane in lanes]
    frame = _frame(medium, drawn, [RunBreak(_column_of(columns, b.at), b.text) for b in breaks], len(columns) - 1)
    bottom = frame.bottom(max(len(lanes) - 1, 0)) + frame.foot
    svg = Svg(medium, bottom + (30 if ends else 17) * medium.scale)
    for row, lane in enumerate(drawn):
        _draw_lane(svg, frame, row, lane)
        _hover(svg, frame, row, lanes[row], columns)
    _draw_run_numbers(svg, frame, columns, bottom)
    if ends:
        svg.text(frame.left, svg.height - 3, ends[0], "ink3", medium.small_size)
        x = max(frame.right, frame.left + sum(text_width(end, medium.small_size) for end in ends) + 24)
        svg.text(x, svg.height - 3, ends[1], "ink3", medium.small_size, align="right")
    alt = _in_words(lanes, breaks)
    return Chart(id, svg.text_of(alt), alt)


@dataclass(frozen=True)
class _Frame:
    left: float
    column_width: float
    columns: int
    head: float  # above each lane
    lane_height: float
    foot: float  # below each lane
    gap: float  # between lanes
    breaks: tuple[RunBreak, ...]
    marks: tuple[tuple["_Mark", ...], ...]  # of each lane

    @property
    def right(self) -> float:
        return self.x(self.columns)

    def x(self, column: float) -> float:
        """Of a border; a dot stands half a column further right."""
        return self.left + column * self.column_width

    def top(self, row: int) -> float:
        return self.head + row * (self.head + self.lane_height + self.foot + self.gap)

    def bottom(self, row: int) -> float:
        return self.top(row) + self.lane_height


@dataclass(frozen=True)
class _Mark:
    """What is written above a border; row 0 is nearest to the lane."""

    left: float
    right: float
    row: int
    text: str
    fill: str


@dataclass(frozen=True)
class _Scale:
    unit: Unit
    low: float
    high: float
    to_y: Callable[[float], float]

    @property
    def ticks(self) -> list[float]:
        """In the unit."""
        return nice_ticks(self.low / self.unit.ns_per_unit, self.high / self.unit.ns_per_unit, 5)

    def y(self, value: float) -> float:
        """At the edge for what is beyond."""
        return self.to_y(min(max(value, self.low), self.high))


def _columns(lanes: Sequence[RunLane], breaks: Sequence[RunBreak]) -> list[int]:
    """The first run of each column, and the number of all: a run a column, or neighbours between which nothing changes."""
    count = max((len(lane.dots) for lane in lanes), default=0)
    size = max(1, -(-count // MOST_COLUMNS))
    borders = {0, count, *(b.at for b in breaks), *(level.first for lane in lanes for level in lane.levels)}
    return [*(start for a, b in pairwise(sorted(borders)) for start in range(a, b, size)), count]


def _column_of(columns: Sequence[int], run: int) -> int:
    return bisect_right(columns, run) - 1


def _joined(lane: RunLane, columns: Sequence[int]) -> RunLane:
    """The lane with columns in place of runs."""

    def column(run: int) -> int:
        return _column_of(columns, run)

    return replace(
        lane,
        dots=tuple(_mean_dot(lane.dots[a:b]) for a, b in pairwise(columns)),
        levels=tuple(replace(level, first=column(level.first), after=column(level.after)) for level in lane.levels),
        jumps=tuple(replace(j, at=column(j.at), earliest=column(j.earliest), latest=column(j.latest)) for j in lane.jumps),
    )


def _mean_dot(dots: Sequence[RunDot | None]) -> RunDot | None:
    """Of several runs their mean, from the lowest to the highest."""
    known = [dot for dot in dots if dot]
    if len(known) < 2:
        return known[0] if known else None
    values = [dot.value for dot in known]
    return RunDot(f"{known[0].label} to {known[-1].label}", fmean(values), min(values), max(values))


def _frame(medium: Medium, lanes: Sequence[RunLane], breaks: Sequence[RunBreak], columns: int) -> _Frame:
    left = 52 * medium.scale
    width = min((medium.width - left - 4) / max(columns, 1), COLUMN_WIDTH * medium.scale)
    marks = tuple(
        tuple(_marks(medium, lane, breaks if row == 0 else (), lambda column: left + column * width))
        for row, lane in enumerate(lanes)
    )
    head = 22 + MARK_HEIGHT * max((mark.row + 1 for of_lane in marks for mark in of_lane), default=0)
    return _Frame(
        left, width, columns, head=head * medium.scale, lane_height=LANE_HEIGHTS[len(lanes) > 1] * medium.scale,
        foot=15 * medium.scale, gap=10 * medium.scale, breaks=tuple(breaks), marks=marks,
    )  # fmt: skip


def _marks(medium: Medium, lane: RunLane, breaks: Sequence[RunBreak], to_x: Callable[[float], float]) -> Iterator[_Mark]:
    """Beside their borders: by how much the lane changes, and why it breaks; what finds no place is left out, changes last."""
    small, taken = medium.small_size, list[_Mark]()
    for at, whole, fill in [*((j.at, j.text, j.fill) for j in lane.jumps), *((b.at, b.text, "ink2") for b in breaks)]:
        text = clip(whole, small, medium.width / 4, "strong")
        width = text_width(text, small, "strong")
        left = min(to_x(at) - 2, medium.width - width)
        places = (_Mark(left, left + width + LABEL_GAP, row, text, fill) for row in range(LABEL_ROWS))
        free = (m for m in places if all(m.row != o.row or m.right <= o.left or o.right <= m.left for o in taken))
        if mark := next(free, None):
            taken.append(mark)
            yield mark


def _scale(lane: RunLane, top: float, bottom: float) -> _Scale:
    """Over all runs but those far off their level, all levels, and intervals as far as they leave room."""
    dots, shown = [dot for dot in lane.dots if dot], [value for level in lane.levels for value in (level.begin, level.end)]
    shown += [dot.value for dot in _near(lane)] or [dot.value for dot in dots]
    low, high = min(shown, default=0), max(shown, default=1)
    reach = BAR_REACH * max(high - low, 0.01 * high)
    ends = [end for dot in dots for end in (dot.low, dot.high) if end is not None and low - reach <= end <= high + reach]
    low, high = min(low, *ends, high), max(high, *ends, low)
    margin = MARGIN * max(high - low, 0.01 * high, 1)
    low, high = max(low - margin, 0), high + margin
    return _Scale(_unit(lane.name, high), low, high, linear(low, high, bottom, top))


def _near(lane: RunLane) -> list[RunDot]:
    """The runs that are not far off their level."""
    off = [(dot, abs(dot.value - level.begin), level.begin) for level in lane.levels for dot in _dots(lane, level)]
    if len(off) < 2:
        return [dot for dot, _, _ in off]
    ninth = quantiles((by for _, by, _ in off), n=10, method="inclusive")[-1]
    drifts = any(level.begin != level.end for level in lane.levels)
    return [dot for dot, by, level in off if drifts or by <= max(FAR * ninth, LEAST_FAR * level)]


def _dots(lane: RunLane, level: Level) -> Iterator[RunDot]:
    yield from (dot for dot in lane.dots[level.first : level.after] if dot)


def _unit(name: str, highest: float) -> Unit:
    if name.endswith("_ns"):
        return choose_unit(highest)
    return Unit(*next((u for u in reversed(BINARY_UNITS) if highest >= u[1]), BINARY_UNITS[0]))


def _draw_lane(svg: Svg, frame: _Frame, row: int, lane: RunLane) -> None:
    scale = _scale(lane, frame.top(row), frame.bottom(row))
    _draw_axis(svg, frame, row, lane, scale)
    _draw_borders(svg, frame, row, lane)
    _draw_levels(svg, frame, row, lane, scale)
    _draw_dots(svg, frame, lane, scale)
    for mark in frame.marks[row]:
        y = frame.top(row) - (5 + MARK_HEIGHT * mark.row) * svg.medium.scale
        svg.text(mark.left, y, mark.text, mark.fill, svg.medium.small_size, "strong")


def _draw_axis(svg: Svg, frame: _Frame, row: int, lane: RunLane, scale: _Scale) -> None:
    small, ticks = svg.medium.small_size, scale.ticks
    for tick in ticks:
        y = scale.to_y(tick * scale.unit.ns_per_unit)
        svg.line(frame.left, y, frame.right, y, "grid" if tick else "rule")
        svg.text(frame.left - 6, y + small * BASELINE, number(tick, tick_decimals(ticks)), "ink3", small, align="right")
    svg.line(frame.left, frame.top(row), frame.left, frame.bottom(row), "rule")
    if scale.low > 0:
        draw_break(svg, frame.left, frame.bottom(row))
    label = clip(f"{lane.label}, {scale.unit.name}", small, svg.medium.width / 2, "strong")
    svg.text(0, frame.top(row) - frame.head + small + 2, label, "ink", small, "strong")


def _draw_borders(svg: Svg, frame: _Frame, row: int, lane: RunLane) -> None:
    """Breaks through the lane, and dashed where its mean changes."""
    top, bottom = coord(frame.top(row)), coord(frame.bottom(row))
    if frame.breaks:
        svg.path("".join(f"M{coord(frame.x(b.at))} {top}V{bottom}" for b in frame.breaks), stroke="ink3", width=1.6)
    for jump in lane.jumps:
        svg.path(f"M{coord(frame.x(jump.at))} {top}V{bottom}", stroke=jump.fill, width=1.2, dash="3 2.5")
        if jump.earliest < jump.latest:
            svg.path(f"M{coord(frame.x(jump.earliest))} {top}H{coord(frame.x(jump.latest))}", stroke=jump.fill, width=2.6)


def _draw_dots(svg: Svg, frame: _Frame, lane: RunLane, scale: _Scale) -> None:
    places = [(frame.x(i + 0.5), dot) for i, dot in enumerate(lane.dots) if dot]
    bars = [(x, scale.y(dot.low), scale.y(dot.high)) for x, dot in places if dot.low is not None and dot.high is not None]
    if bars:
        svg.path("".join(f"M{coord(x)} {coord(low)}V{coord(high)}" for x, low, high in bars), stroke="ink3", width=1)
    radius = max(min(DOT * svg.medium.scale, 0.4 * frame.column_width), 0.8)
    svg.discs([(x, scale.to_y(dot.value)) for x, dot in places if scale.low <= dot.value <= scale.high], radius, "bwd")
    for x, dot in places:
        if not scale.low <= dot.value <= scale.high:
            _draw_arrow(svg, x, scale.y(dot.value), radius, up=1 if dot.value > scale.high else -1)


def _draw_arrow(svg: Svg, x: float, y: float, radius: float, up: int) -> None:
    """For a run beyond the scale."""
    svg.path(
        f"M{coord(x)} {coord(y - up * radius)}l{coord(1.4 * radius)} {coord(up * 2.4 * radius)}h{coord(-2.8 * radius)}z", "bad"
    )


def _draw_levels(svg: Svg, frame: _Frame, row: int, lane: RunLane, scale: _Scale) -> None:
    """A line through each stretch, and below the lane what it is at, where that fits."""
    small, base = svg.medium.small_size, frame.bottom(row) + 3 + svg.medium.small_size
    lines = [(frame.x(v.first), frame.x(v.after), v) for v in lane.levels if v.after - v.first > 1]
    path = "".join(f"M{coord(a + 1)} {coord(scale.y(v.begin))}L{coord(b - 1)} {coord(scale.y(v.end))}" for a, b, v in lines)
    if path:
        svg.path(path, stroke="ink", width=1.5)
    for left, right, level in lines:
        text = _said(lane.name, level)
        if text_width(text, small) <= right - left - 4 or len(lines) == 1:
            half = text_width(text, small) / 2
            svg.text(max((left + right) / 2, frame.left + half), base, text, "ink", small, align="centre")


def _said(name: str, level: Level) -> str:
    begin, end = by_suffix(name, level.begin), by_suffix(name, level.end)
    return f"mean {begin}" if level.begin == level.end else f"{begin} → {end}"


def _draw_run_numbers(svg: Svg, frame: _Frame, columns: Sequence[int], top: float) -> None:
    small, y = svg.medium.small_size, top + svg.medium.small_size + 1
    widest = text_width(f"{columns[-1]:,}", small)
    stride = next(s for s in _strides() if s * frame.column_width >= widest + 8 or s >= frame.columns)
    svg.text(frame.left - 6, y, "run", "ink3", small, align="right")
    for i in range(0, frame.columns, stride):
        if frame.x(i + 0.5) + widest / 2 > svg.medium.width:
            break
        svg.text(frame.x(i + 0.5), y, f"{columns[i] + 1:,}", "ink3", small, align="centre")


def _strides() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _hover(svg: Svg, frame: _Frame, row: int, lane: RunLane, columns: Sequence[int]) -> None:
    """What each run is at; of many neighbours together."""
    size = max(1, -(-frame.columns // MOST_TIPS))
    for first in range(0, frame.columns, size) if not svg.medium.pdf else ():
        after = min(first + size, frame.columns)
        if dot := _mean_dot(lane.dots[columns[first] : columns[after]]):
            reach = "" if dot.low is None or dot.high is None else f"\n{_span(lane.name, dot.low, dot.high)}"
            box = (frame.x(first), frame.top(row), (after - first) * frame.column_width, frame.lane_height)
            svg.hover(box, f"{shortened(dot.label, 80)}\n{by_suffix(lane.name, dot.value)}{reach}")


def _span(name: str, low: float, high: float) -> str:
    return f"{by_suffix(name, low)} to {by_suffix(name, high)}"


def _in_words(lanes: Sequence[RunLane], breaks: Sequence[RunBreak]) -> str:
    told = [_lane_in_words(lane) for lane in lanes]
    broken = f"; not comparable from run {', '.join(str(b.at + 1) for b in breaks[:10])} on" if breaks else ""
    return f"One dot a run. {'; '.join(told) or 'No runs'}{broken}"


def _lane_in_words(lane: RunLane) -> str:
    values = [dot.value for dot in lane.dots if dot]
    if not values:
        return f"{shortened(lane.label, 60)}: not recorded"
    jumps = "".join(f", {j.text} from run {j.at + 1} on" for j in lane.jumps[:10])
    return f"{shortened(lane.label, 60)} of {len(values):,} runs: {_span(lane.name, min(values), max(values))}{jumps}"
