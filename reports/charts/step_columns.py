"""How long does each step take, and where? One stacked column per step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..formats import Unit, choose_unit, interval, number, time
from ..svg import Medium, Svg, clip, coord, nice_ticks, shortened, spread, text_width, tick_decimals
from .parts import BASELINE, CUT
from .rows import Chart, Part, StepColumn, largest_parts

LEGEND_ROOM, LEGEND_GAP = 122, 150  # of the names beside the columns: their text, and all
MOST_COLUMNS = 120  # narrower columns than 4 px are no longer seen one by one


def step_columns(
    medium: Medium,
    steps: Sequence[StepColumn],
    median_ns: float,
    notes: Sequence[tuple[int, str]] = (),
    id: str = "step_columns",
) -> Chart:
    """A column per step, or per bin of steps with a whisker from its fastest to its slowest; notes are (index, text)."""
    phases = _phases(steps)
    columns = _columns(steps, phases)
    plot = _plot(medium, columns, phases, median_ns)
    placed = _placed_notes(medium, plot, [*_bin_notes(notes, columns), *_cut_notes(plot, columns)])
    header = (18 + 13 * max((note.row for note in placed), default=0)) * medium.scale
    plot = replace(plot, top=header)
    svg = Svg(medium, plot.bottom + 20 * medium.scale)
    _draw_value_axis(svg, plot)
    mids = _draw_columns(svg, plot, columns, phases)
    _draw_legend(svg, plot, _legend_names(medium, plot, columns, phases), mids)
    if len(steps) > 1:
        _draw_median(svg, plot, median_ns)
    _draw_notes(svg, plot, placed, columns)
    _draw_step_labels(svg, plot, columns)
    _hover_columns(svg, plot, columns, phases)
    alt = _columns_in_words(steps, columns, median_ns, plot.unit)
    return Chart(id, svg.text_of(alt), alt)


@dataclass(frozen=True)
class _Column:
    """One step, or the mean of the steps of one bin."""

    first: str
    last: str
    start: int  # index of its first step
    steps: int
    part_ns: tuple[float, ...]  # in the order of the phases
    total_ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class _Plot:
    left: float
    right: float
    top: float
    height: float
    column_width: float
    top_ns: float  # the value at the top edge; columns above it are cut
    unit: Unit

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, index: float) -> float:
        return self.left + index * self.column_width

    def y(self, ns: float) -> float:
        return self.bottom - self.height * min(ns / self.top_ns, 1)


@dataclass(frozen=True)
class _Note:
    column: int
    text: str
    x: float  # left edge of the text
    width: float
    row: int  # 0 is nearest to the columns


def _phases(steps: Sequence[StepColumn]) -> list[Part]:
    """Every phase of any step with its sum, in order of appearance; of too many, the smallest are merged."""
    fills: dict[str, str] = {}
    sums_ns: dict[str, float] = {}
    for part in (p for step in steps for p in step.parts):
        fills.setdefault(part.label, part.fill)
        sums_ns[part.label] = sums_ns.get(part.label, 0.0) + part.ns
    return list(largest_parts(Part(label, fills[label], ns) for label, ns in sums_ns.items()))


def _columns(steps: Sequence[StepColumn], phases: Sequence[Part]) -> list[_Column]:
    size = _bin_size(len(steps))
    row = {phase.label: i for i, phase in enumerate(phases)}
    return [_column(steps[i : i + size], i, row) for i in range(0, len(steps), size)]


def _bin_size(steps: int) -> int:
    """1, 2, 5, 10 … steps a column, so that the labels of the bins are round."""
    return next(size for size in _strides() if steps <= size * MOST_COLUMNS)


def _column(steps: Sequence[StepColumn], start: int, row: dict[str, int]) -> _Column:
    part_ns = [0.0] * len(row)
    for part in (p for step in steps for p in step.parts if p.ns > 0):
        part_ns[row.get(part.label, len(row) - 1)] += part.ns / len(steps)  # a merged phase stands last
    totals_ns = [sum(p.ns for p in step.parts) for step in steps]
    total_ns = sum(part_ns)
    return _Column(steps[0].label, steps[-1].label, start, len(steps), tuple(part_ns), total_ns, min(totals_ns), max(totals_ns))


def _plot(medium: Medium, columns: Sequence[_Column], phases: Sequence[Part], median_ns: float) -> _Plot:
    highest_ns = max((c.high_ns for c in columns), default=0)
    if highest_ns > CUT * median_ns > 0:
        # One step that compiled or stalled would flatten all others.
        highest_ns = max([median_ns * 1.5, *(c.total_ns for c in columns if c.total_ns <= CUT * median_ns)])
    highest_ns = max(highest_ns, median_ns, 1)
    left, room = 36 * medium.scale, medium.width - (36 + LEGEND_GAP) * medium.scale
    column_width = min(room / max(len(columns), 1), 44 * medium.scale)
    height = max(118 * medium.scale, len(phases) * medium.small_size * 1.3)
    right = left + column_width * max(len(columns), 1)
    return _Plot(left, right, 0, height, column_width, highest_ns * 1.04, choose_unit(highest_ns))


def _draw_value_axis(svg: Svg, plot: _Plot) -> None:
    small, per_unit = svg.medium.small_size, plot.unit.ns_per_unit
    ticks = nice_ticks(0, plot.top_ns / per_unit, 6)
    for tick in ticks:
        y = plot.y(tick * per_unit)
        svg.line(plot.left, y, plot.right, y, "grid" if tick else "rule")
        svg.text(plot.left - 5, y + small * BASELINE, number(tick, tick_decimals(ticks)), "ink3", small, align="right")
    svg.text(plot.left - 5, plot.top - 8 * svg.medium.scale, plot.unit.name, "ink3", small, align="right")


def _draw_columns(svg: Svg, plot: _Plot, columns: Sequence[_Column], phases: Sequence[Part]) -> list[float]:
    """One path per phase; returns the height at which each phase's legend entry would like to stand."""
    bases = [0.0] * len(columns)
    mids: list[float] = []
    margin = plot.column_width * 0.09
    for row, phase in enumerate(phases):
        tops = [base + column.part_ns[row] for base, column in zip(bases, columns, strict=True)]
        spans = [(plot.y(top), plot.y(base)) for base, top in zip(bases, tops, strict=True)]
        width = plot.column_width - 2 * margin
        svg.rects(((plot.x(i) + margin, y, width, low - y) for i, (y, low) in enumerate(spans)), phase.fill)
        mids.append(sum(spans[-1]) / 2)
        bases = tops
    _draw_whiskers(svg, plot, columns)
    _draw_cuts(svg, plot, columns)
    return mids


def _draw_whiskers(svg: Svg, plot: _Plot, columns: Sequence[_Column]) -> None:
    spans = [(plot.x(i + 0.5), plot.y(c.low_ns), plot.y(c.high_ns)) for i, c in enumerate(columns) if c.steps > 1]
    if spans:
        svg.path("".join(f"M{coord(x)} {coord(low)}V{coord(high)}" for x, low, high in spans), stroke="ink3", width=0.9)


def _draw_cuts(svg: Svg, plot: _Plot, columns: Sequence[_Column]) -> None:
    y = plot.top + 7 * svg.medium.scale
    cut = [(plot.x(i), plot.x(i + 1)) for i, c in enumerate(columns) if c.total_ns > plot.top_ns]
    if cut:
        svg.path("".join(f"M{coord(a)} {coord(y + 2)}L{coord(b)} {coord(y - 2)}" for a, b in cut), stroke="paper", width=1.8)


def _legend_names(medium: Medium, plot: _Plot, columns: Sequence[_Column], phases: Sequence[Part]) -> list[tuple[str, str]]:
    """Fill and text of each entry; a single step has its times there too."""
    room = max(LEGEND_ROOM * medium.scale, medium.width - plot.right - (LEGEND_GAP - LEGEND_ROOM) * medium.scale)
    names = [(phase.fill, clip(phase.label, medium.small_size, room)) for phase in phases]
    if len(columns) != 1:
        return names
    times = [time(ns, plot.unit) for ns in columns[0].part_ns]
    return [(fill, f"{name}  {ns}") for (fill, name), ns in zip(names, times, strict=True)]


def _draw_legend(svg: Svg, plot: _Plot, names: Sequence[tuple[str, str]], mids: Sequence[float]) -> None:
    medium, small = svg.medium, svg.medium.small_size
    swatch, x = 7 * medium.scale, plot.right + 14
    wanted = [(mid, small * 1.3) for mid in reversed(mids)]
    entries = zip(reversed(names), reversed(mids), spread(wanted, plot.top, plot.bottom, 0), strict=True)
    for (fill, name), mid, y in entries:
        svg.path(f"M{coord(plot.right + 1)} {coord(mid)}L{coord(x - 5)} {coord(y)}H{coord(x - 2)}", stroke="rule", width=0.75)
        svg.rect((x, y - swatch / 2, swatch, swatch), fill)
        svg.text(x + swatch + 4, y + small * BASELINE, name, "ink2", small)


def _draw_median(svg: Svg, plot: _Plot, median_ns: float) -> None:
    """The line, and its name above the legend, where no column can hide it."""
    small, x, y = svg.medium.small_size, plot.right + 14, plot.y(median_ns)
    svg.line(plot.left, y, plot.right, y, "ink", 0.9, "3 2.5")
    key_y = plot.top - 8 * svg.medium.scale
    svg.line(x - 2, key_y - small * BASELINE, x + 10 * svg.medium.scale, key_y - small * BASELINE, "ink", 0.9, "3 2.5")
    svg.text(x + 7 * svg.medium.scale + 7, key_y, f"median {time(median_ns, plot.unit)}", "ink", small, "strong")


def _bin_notes(notes: Sequence[tuple[int, str]], columns: Sequence[_Column]) -> list[tuple[int, str]]:
    size = columns[0].steps if columns else 1
    return [(index // size, text) for index, text in notes if 0 <= index < size * len(columns) and index // size < len(columns)]


def _cut_notes(plot: _Plot, columns: Sequence[_Column]) -> list[tuple[int, str]]:
    """The true height of the columns that are cut; placed after the caller's notes, so only where there is room."""
    cut = [i for i, c in enumerate(columns) if c.total_ns > plot.top_ns]
    return [(i, time(columns[i].total_ns, plot.unit)) for i in sorted(cut, key=lambda i: -columns[i].total_ns)[:3]]


def _placed_notes(medium: Medium, plot: _Plot, notes: Sequence[tuple[int, str]]) -> list[_Note]:
    """Notes in at most three rows above the columns, none across another or its leader; what finds no place is left out."""
    placed: list[_Note] = []
    for column, text in notes:
        text = clip(text, medium.small_size, (medium.width - plot.left) / 2)
        if not text or any(other.column == column for other in placed):
            continue
        note = _note(medium, plot, column, text)
        # Beside the columns, the lowest row belongs to the name of the median line.
        lowest = 0 if note.x + note.width <= plot.right + 8 else 1
        rows = (replace(note, row=row) for row in range(lowest, lowest + 3))
        free = next((n for n in rows if not any(_clash(plot, n, other) for other in placed)), None)
        placed += [free] if free else []
    return placed


def _note(medium: Medium, plot: _Plot, column: int, text: str) -> _Note:
    """Beside its leader, on the side where there is more room."""
    x, width = plot.x(column + 0.5), text_width(text, medium.small_size)
    left = x - 5 if x < (plot.left + plot.right) / 2 else x + 5 - width
    return _Note(column, text, min(max(left, plot.left), medium.width - width), width, 0)


def _clash(plot: _Plot, note: _Note, other: _Note) -> bool:
    upper, lower = (note, other) if note.row > other.row else (other, note)
    over_text = note.row == other.row and note.x < other.x + other.width + 8 and other.x < note.x + note.width + 8
    leader = plot.x(upper.column + 0.5)
    return over_text or (upper.row > lower.row and lower.x - 3 < leader < lower.x + lower.width + 3)


def _draw_notes(svg: Svg, plot: _Plot, notes: Sequence[_Note], columns: Sequence[_Column]) -> None:
    for note in notes:
        x = plot.x(note.column + 0.5)
        y = plot.top - (8 + 13 * note.row) * svg.medium.scale
        svg.line(x, plot.y(columns[note.column].high_ns) - 2, x, y + 3, "ink3")
        svg.text(note.x, y, note.text, "ink", svg.medium.small_size)


def _draw_step_labels(svg: Svg, plot: _Plot, columns: Sequence[_Column]) -> None:
    small, y = svg.medium.small_size, plot.bottom + 4 + svg.medium.small_size
    texts = [clip(c.first, small, 60 * svg.medium.scale) for c in columns]
    widest = max((text_width(t, small) for t in texts), default=0)
    stride = next(s for s in _strides() if s * plot.column_width >= widest + 10 or s >= len(columns))
    for i in range(0, len(columns), stride):
        centre = max(plot.x(i + 0.5), text_width(texts[i], small) / 2)
        if centre + text_width(texts[i], small) / 2 < plot.right + 10 or i == 0:
            svg.text(centre, y, texts[i], "ink3", small, align="centre")
    svg.text(plot.right + 14, y, "step", "ink3", small)


def _strides() -> Iterable[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _hover_columns(svg: Svg, plot: _Plot, columns: Sequence[_Column], phases: Sequence[Part]) -> None:
    if svg.medium.pdf:
        return
    for i, column in enumerate(columns):
        svg.hover((plot.x(i), plot.top, plot.column_width, plot.height), _column_tip(column, phases, plot.unit))


def _column_tip(column: _Column, phases: Sequence[Part], unit: Unit) -> str:
    head = f"step {shortened(column.first, 40)}: {time(column.total_ns, unit)}"
    if column.steps > 1:
        span = interval(time(column.low_ns, unit), time(column.high_ns, unit))
        head = f"steps {shortened(column.first, 40)} to {shortened(column.last, 40)}: mean {time(column.total_ns, unit)}\n{span}"
    largest = sorted(zip(column.part_ns, phases, strict=True), key=lambda pair: -pair[0])[:6]
    return "\n".join([head, *(f"{shortened(phase.label, 40)} {time(ns, unit)}" for ns, phase in largest if ns > 0)])


def _columns_in_words(steps: Sequence[StepColumn], columns: Sequence[_Column], median_ns: float, unit: Unit) -> str:
    if not columns:
        return "No steps"
    low_ns, high_ns = min(c.low_ns for c in columns), max(c.high_ns for c in columns)
    many = f"{len(steps):,} steps" if len(steps) > 1 else "one step"
    span = f"; {interval(time(low_ns, unit), time(high_ns, unit))}" if len(steps) > 1 else ""
    return f"Stacked columns of {many}; median {time(median_ns, unit)}{span}"
