"""Where does a step go? One stacked bar, or two on one scale, labelled directly."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ..formats import Unit, choose_unit, number, share, time
from ..svg import Face, Medium, Svg, clip, coord, shortened, spread, text_width
from .parts import BASELINE
from .rows import Chart, Part, largest_parts, smaller

GAP = 0.8  # between segments: keeps neighbours apart where their greys are alike
LEAST_LABELLED_SHARE = 0.005  # of the step; thinner parts are 4 px wide, their labels would only crowd the others


def step_bar(medium: Medium, parts: Sequence[Part], total_ns: float, id: str = "step_bar", whole: str = "the step") -> Chart:
    """One bar as wide as the chart; what the parts leave of the total stays empty. `whole`: what the parts are of."""
    total_ns = max(total_ns, sum(part.ns for part in parts), 1)
    unit, height = choose_unit(total_ns), 30 * medium.scale
    bar = replace(_bar(largest_parts(parts), total_ns, 0, medium.width, 2, height, unit), total_ns=total_ns, whole=whole)
    labels = _bar_labels(medium, bar, 0)
    drop = _leader_drop(medium, labels)
    svg = Svg(medium, bar.top + height + drop + _label_height(medium))
    _draw_bar(svg, bar)
    _draw_labels_below(svg, bar, labels, drop)
    alt = f"Stacked bar of {whole}, {time(total_ns, unit)}: {_in_words(bar)}"
    return Chart(id, svg.text_of(alt), alt)


def step_bars_pair(
    medium: Medium,
    before: Sequence[Part],
    after: Sequence[Part],
    labels: tuple[str, str] = ("Before", "After"),
    id: str = "step_bars_pair",
) -> Chart:
    """Two bars on one scale; phases of the same name are joined."""
    parts = largest_parts(before), largest_parts(after)
    totals_ns = [sum(p.ns for p in side) for side in parts]
    unit, left, height = choose_unit(max(totals_ns)), 62 * medium.scale, 30 * medium.scale
    shape = (max(*totals_ns, 1), left, medium.width - left)
    upper, lower = (_bar(side, *shape, 0, height, unit) for side in parts)
    names = _bar_labels(medium, upper, left), _bar_labels(medium, lower, left)
    drops = [_leader_drop(medium, n) for n in names]
    upper = replace(upper, top=_label_height(medium) + drops[0])
    lower = replace(lower, top=upper.top + height * 2)
    svg = Svg(medium, lower.top + height + drops[1] + _label_height(medium))
    _draw_bands(svg, upper, lower)
    for bar, label, total_ns in zip((upper, lower), labels, totals_ns, strict=True):
        _draw_bar_title(svg, bar, label, time(total_ns, unit))
        _draw_bar(svg, bar)
    _draw_labels_above(svg, upper, names[0], drops[0])
    _draw_labels_below(svg, lower, names[1], drops[1])
    sides = zip(labels, totals_ns, (upper, lower), strict=True)
    alt = ". ".join(f"{shortened(label)}, {time(ns, unit)}: {_in_words(bar)}" for label, ns, bar in sides)
    return Chart(id, svg.text_of(alt), alt)


@dataclass(frozen=True)
class _Bar:
    parts: tuple[Part, ...]
    edges: tuple[float, ...]  # one more than parts
    total_ns: float  # what shares are of
    top: float
    height: float
    unit: Unit
    whole: str = "the step"

    def centre(self, index: int) -> float:
        return (self.edges[index] + self.edges[index + 1]) / 2

    def amount(self, ns: float) -> str:
        return f"{time(ns, self.unit)} · {share(ns / self.total_ns)}"


@dataclass(frozen=True)
class _Label:
    x: float  # its centre
    anchor: float | None  # where its leader starts; None for the merged small phases
    width: float
    name: str
    amount: str
    strong: bool = False


def _bar(parts: tuple[Part, ...], scale_ns: float, left: float, width: float, top: float, height: float, unit: Unit) -> _Bar:
    total_ns = sum(p.ns for p in parts)
    px_per_ns = width / max(scale_ns, total_ns)  # parts that exceed the total still end at the border
    edges = tuple(left + ns * px_per_ns for ns in accumulate((p.ns for p in parts), initial=0.0))
    return _Bar(parts, edges, total_ns or 1, top, height, unit)


def _draw_bar(svg: Svg, bar: _Bar) -> None:
    size, last = svg.medium.label_size, len(bar.parts) - 1
    for i, part in enumerate(bar.parts):
        x, right = bar.edges[i], bar.edges[i + 1]
        width = right - x if i == last else max(right - x - GAP, min(0.5, right - x))
        svg.rect((x, bar.top, width, bar.height), part.fill, f"{shortened(part.label)}\n{bar.amount(part.ns)} of {bar.whole}")
        value = number(part.ns / bar.unit.ns_per_unit, bar.unit.decimals)
        if text_width(value, size, "strong") + 8 < width:
            y = bar.top + bar.height / 2 + size * BASELINE
            svg.text(x + width / 2, y, value, f"on-{part.fill}", face="strong", align="centre")


def _draw_bar_title(svg: Svg, bar: _Bar, label: str, amount: str) -> None:
    medium, middle = svg.medium, bar.top + bar.height / 2
    svg.text(0, middle - 1, clip(label, medium.label_size, 58 * medium.scale, "strong"), "ink", face="strong")
    svg.text(0, middle + medium.small_size * 1.2, amount, "ink2", medium.small_size)


def _draw_bands(svg: Svg, upper: _Bar, lower: _Bar) -> None:
    """Faint bands join what a phase takes before with what it takes after."""
    place = {part.label: i for i, part in enumerate(lower.parts)}
    y1, y2 = coord(upper.top + upper.height + 1), coord(lower.top - 1)
    for i, part in enumerate(upper.parts):
        if (j := place.get(part.label)) is None:
            continue
        a, b, c, d = (coord(x) for x in (upper.edges[i], lower.edges[j], lower.edges[j + 1], upper.edges[i + 1]))
        svg.path(f"M{a} {y1}L{b} {y2}H{c}L{d} {y1}z", part.fill, strength=0.28)


def _bar_labels(medium: Medium, bar: _Bar, left: float) -> list[_Label]:
    """Labels for the largest parts, as many as fit side by side; what is left is counted in one label."""
    gap, room = 12 * medium.scale, medium.width - left
    ranked = sorted(range(len(bar.parts)), key=lambda i: (-bar.parts[i].ns, i))
    worth = sum(part.ns >= LEAST_LABELLED_SHARE * bar.total_ns for part in bar.parts)
    labels: list[_Label] = []
    for kept in range(worth if worth < len(ranked) - 1 else len(ranked), -1, -1):
        labels = [_part_label(medium, bar, i, i == ranked[0]) for i in ranked[:kept]]
        if rest := sorted(ranked[kept:]):
            labels.append(_rest_label(medium, bar, rest))
        if sum(label.width + gap for label in labels) - gap <= room:
            break
    labels.sort(key=lambda label: label.x)
    centres = spread([(label.x, label.width) for label in labels], left, medium.width, gap)
    return [replace(label, x=x) for x, label in zip(centres, labels, strict=True)]


def _part_label(medium: Medium, bar: _Bar, index: int, strong: bool) -> _Label:
    part, face = bar.parts[index], "strong" if strong else "regular"
    name = clip(part.label, medium.label_size, 130 * medium.scale, face)
    amount, centre = bar.amount(part.ns), bar.centre(index)
    return _Label(centre, centre, _label_width(medium, name, amount, face), name, amount, strong)


def _rest_label(medium: Medium, bar: _Bar, rest: Sequence[int]) -> _Label:
    """Under its parts where they are neighbours, else at the end of the row without a leader."""
    name, amount = smaller(len(rest)), bar.amount(sum(bar.parts[i].ns for i in rest))
    neighbours = rest[-1] - rest[0] == len(rest) - 1
    anchor = (bar.edges[rest[0]] + bar.edges[rest[-1] + 1]) / 2 if neighbours else None
    return _Label(anchor or medium.width, anchor, _label_width(medium, name, amount, "regular"), name, amount)


def _label_width(medium: Medium, name: str, amount: str, face: Face) -> float:
    return max(text_width(name, medium.label_size, face), text_width(amount, medium.small_size))


def _label_height(medium: Medium) -> float:
    return medium.label_size + medium.small_size * 1.75 + 5 * medium.scale


def _leader_drop(medium: Medium, labels: Sequence[_Label]) -> float:
    """The further labels move from their parts, the more height the leaders get, so that they stay apart."""
    furthest = max((abs(n.x - n.anchor) for n in labels if n.anchor is not None), default=0)
    return min(8 * medium.scale + furthest * 0.08, 30 * medium.scale)


def _draw_labels_below(svg: Svg, bar: _Bar, labels: Sequence[_Label], drop: float) -> None:
    bottom = bar.top + bar.height
    y = bottom + drop + 4 * svg.medium.scale + svg.medium.label_size
    for label in labels:
        _draw_leader(svg, label, bottom + 1, bottom + drop + 2 * svg.medium.scale)
        _draw_label(svg, label, y)


def _draw_labels_above(svg: Svg, bar: _Bar, labels: Sequence[_Label], drop: float) -> None:
    for label in labels:
        _draw_leader(svg, label, bar.top - 1, bar.top - drop)
        _draw_label(svg, label, bar.top - drop - 4 * svg.medium.scale - svg.medium.small_size * 1.4)


def _draw_leader(svg: Svg, label: _Label, start: float, end: float) -> None:
    if label.anchor is None:
        return
    stub = math.copysign(3 * svg.medium.scale, end - start)
    a, x = coord(label.anchor), coord(label.x)
    svg.path(f"M{a} {coord(start)}V{coord(start + stub)}L{x} {coord(end - stub / 2)}V{coord(end)}", stroke="rule", width=0.75)


def _draw_label(svg: Svg, label: _Label, y: float) -> None:
    small = svg.medium.small_size
    svg.text(
        label.x, y, label.name, "ink" if label.strong else "ink2", face="strong" if label.strong else "regular", align="centre"
    )
    svg.text(label.x, y + small * 1.4, label.amount, "ink" if label.strong else "ink3", small, align="centre")


def _in_words(bar: _Bar) -> str:
    return "; ".join(f"{shortened(p.label, 60)} {time(p.ns, bar.unit)}" for p in bar.parts) or "no phases"
