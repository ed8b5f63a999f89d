"""How are the step times of each run distributed? One dot per step."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from ..formats import Unit, choose_unit, interval, number, time
from ..svg import Medium, Svg, clip, coord, shortened
from .parts import draw_time_axis, linear
from .rows import Chart, Dots

MOST_DOTS = 400  # a side, drawn; beyond that one dot stands for several steps


def dots(medium: Medium, sets: Sequence[Dots], id: str = "dots") -> Chart:
    """Every step a dot on one axis; the thick line is the interval of the mean."""
    low_ns, high_ns = _dot_range(sets)
    unit = choose_unit(high_ns)
    left, row_height = 96 * medium.scale, 62 * medium.scale
    to_x = linear(low_ns, high_ns, left + 6, medium.width - 8)
    grid = _dot_grid(medium, sets, to_x, row_height - 14 * medium.scale)
    bottom = len(sets) * row_height
    svg = Svg(medium, bottom + 20 * medium.scale)
    draw_time_axis(svg, (low_ns, high_ns), unit, to_x, 0, bottom)
    for i, group in enumerate(sets):
        _draw_dots(svg, group, (i + 1) * row_height - 10 * medium.scale, grid, unit, to_x, high_ns)
    if grid.steps_per_dot > 1:
        note = f"one dot: up to {grid.steps_per_dot} steps"
        svg.text(0, medium.small_size, note, "ink3", medium.small_size)
    alt = "; ".join(
        f"{shortened(s.label, 60)}: {len(s.values_ns):,} steps, mean {time(s.mean_ns, unit)}, "
        f"95\u202f% interval {interval(time(s.low_ns, unit), time(s.high_ns, unit))}"
        for s in sets
    )
    return Chart(id, svg.text_of(f"One dot per step. {alt}"), f"One dot per step. {alt}")


@dataclass(frozen=True)
class _DotGrid:
    radius: float
    pitch: float  # between columns of dots
    steps_per_dot: int


def _dot_range(sets: Sequence[Dots]) -> tuple[float, float]:
    """The range of the axis; far outliers of a set are left to a remark, or they would press all others together."""
    lows = [min((*s.values_ns, s.low_ns)) for s in sets]
    highs = [max(_outlier_limit(s, low), s.high_ns) for s, low in zip(sets, lows, strict=True)]
    low, high = min(lows, default=0), max(highs, default=1)
    margin = max((high - low) * 0.02, abs(high) * 0.01, 1)
    return max(low - margin, 0), high + margin


def _outlier_limit(group: Dots, low_ns: float) -> float:
    if len(group.values_ns) < 2:
        return max(group.values_ns, default=group.mean_ns)
    ninth_decile_ns = quantiles(group.values_ns, n=10, method="inclusive")[-1]
    limit_ns = ninth_decile_ns + 4 * max(ninth_decile_ns - low_ns, 0.1 * ninth_decile_ns)
    return max(v for v in group.values_ns if v <= limit_ns)


def _dot_grid(medium: Medium, sets: Sequence[Dots], to_x: Callable[[float], float], room: float) -> _DotGrid:
    """The largest dots whose highest pile fits; if the smallest do not, each stands for several steps."""
    grid = _DotGrid(1, 2.3, 1)
    for radius in (2.2, 1.8, 1.5, 1.2, 1.0):
        r = radius * medium.scale
        pitch = 2 * r + 0.3
        highest = max((max(_piles(s, to_x, pitch).values(), default=0) for s in sets), default=0)
        fewest = max((math.ceil(len(s.values_ns) / MOST_DOTS) for s in sets), default=1)
        grid = _DotGrid(r, pitch, max(fewest, math.ceil(highest / max(int(room / (2 * r + 0.1)), 1)), 1))
        if grid.steps_per_dot <= fewest:
            break
    return grid


def _piles(group: Dots, to_x: Callable[[float], float], pitch: float, limit_ns: float = math.inf) -> Counter[int]:
    return Counter(round(to_x(v) / pitch) for v in group.values_ns if v <= limit_ns)


def _draw_dots(
    svg: Svg, group: Dots, base: float, grid: _DotGrid, unit: Unit, to_x: Callable[[float], float], high_ns: float
) -> None:
    medium, floor = svg.medium, base + grid.radius + 1
    _draw_dots_title(svg, group, floor, unit)
    svg.line(max(96 * medium.scale, to_x(0)), floor, medium.width, floor, "rule")
    piles = sorted(_piles(group, to_x, grid.pitch, high_ns).items())
    rise = 2 * grid.radius + 0.1
    counts = [(pile * grid.pitch, math.ceil(n / grid.steps_per_dot)) for pile, n in piles]
    svg.discs(((x, base - level * rise) for x, n in counts for level in range(n)), grid.radius, group.fill)
    for (x, dots_high), (_, steps) in zip(counts, piles, strict=True):
        box = (x - grid.pitch / 2, floor - dots_high * rise - 1, grid.pitch, dots_high * rise + 1)
        svg.hover(box, f"{steps:,} step{'s' if steps > 1 else ''} near {_near(x, to_x, unit, high_ns)}")
    x1, x2 = (min(to_x(v), medium.width) for v in (group.low_ns, group.high_ns))
    svg.path(f"M{coord(x1)} {coord(floor)}H{coord(max(x2, x1 + 1))}", stroke="ink", width=3.2)
    beyond = [v for v in group.values_ns if v > high_ns]
    if beyond:
        remark = f"{len(beyond):,} slower, up to {time(max(beyond), choose_unit(max(beyond)))} →"
        svg.text(medium.width, base - 44 * medium.scale, remark, "ink2", medium.small_size, align="right")


def _near(x: float, to_x: Callable[[float], float], unit: Unit, high_ns: float) -> str:
    slope = (to_x(high_ns) - to_x(0)) / high_ns
    return time((x - to_x(0)) / slope, unit)


def _draw_dots_title(svg: Svg, group: Dots, floor: float, unit: Unit) -> None:
    medium, small = svg.medium, svg.medium.small_size
    svg.text(0, floor - small * 2.8, clip(group.label, medium.label_size, 90 * medium.scale, "strong"), "ink", face="strong")
    svg.text(0, floor - small * 1.4, f"mean {time(group.mean_ns, unit)}", "ink2", small)
    low, high = (number(ns / unit.ns_per_unit, unit.decimals) for ns in (group.low_ns, group.high_ns))
    svg.text(0, floor, interval(low, high), "ink3", small)
