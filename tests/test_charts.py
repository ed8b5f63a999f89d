import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from itertools import combinations
from xml.etree import ElementTree

import pytest

from longpole.reports.charts import (
    Change,
    Chart,
    Dots,
    Jump,
    Lane,
    Level,
    OpChange,
    Part,
    Piece,
    RunBreak,
    RunDot,
    RunLane,
    StepColumn,
    StepSpan,
    diverging,
    dots,
    levels,
    over_time,
    step_bar,
    step_bars_pair,
    step_columns,
    waterfall,
)
from longpole.reports.palette import LIGHT
from longpole.reports.svg import HTML, PDF, Face, Medium, clip, nice_ticks, spread, text_width

MS = 1_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\x00\ud800\u202e&\"'" + "void at::native::kernel<4>" * 60
MEDIA = pytest.mark.parametrize("medium", [HTML, PDF], ids=["html", "pdf"])
Box = tuple[float, float, float, float]  # left, top, right, bottom


def phases(*ms: float) -> tuple[Part, ...]:
    fills = ("wait", "fwd", "bwd", "opt", "other")
    return tuple(Part(f"phase {i}", fills[i % 5], value * MS) for i, value in enumerate(ms))


DQN = tuple(
    Part(label, fill, ms * MS)
    for label, fill, ms in [
        ("Act", "act", 0.12), ("Environment", "env", 0.06), ("Sampling", "sample", 1.9), ("Forward", "fwd", 0.15),
        ("Loss", "loss", 0.1), ("Backward", "bwd", 0.3), ("Optimizer", "opt", 0.5), ("Other", "other", 0.07),
    ]
)  # fmt: skip
TWELVE = phases(40, 0.01, 20, 0.02, 0.5, 3, 0.01, 0.3, 9, 0.04, 0.2, 30)


def steps(n: int) -> list[StepColumn]:
    source = random.Random(n)
    return [StepColumn(f"{i:,}", tuple(replace(p, ns=p.ns * source.gauss(1, 0.05)) for p in DQN)) for i in range(n)]


def group(n: int, mean_ms: float) -> Dots:
    source = random.Random(n)
    values = tuple(source.gauss(mean_ms, mean_ms / 50) * MS for _ in range(n))
    return Dots("Before", values, mean_ms * MS, mean_ms * 0.99 * MS, mean_ms * 1.01 * MS)


def changes(n: int, label: str = "phase") -> list[Change]:
    return [Change(f"{label} {i}", -MS / (i + 1), -1.2 * MS / (i + 1), -0.8 * MS / (i + 1)) for i in range(n)]


def op_changes(n: int, label: str = "aten::op") -> list[OpChange]:
    return [OpChange(f"{label}{i}", 9 * MS, (9 - 3 / (i + 1)) * MS, -4 * MS / (i + 1), -2 * MS / (i + 1)) for i in range(n)]


def lane(n: int, label: str = "GPU 0", base: float = 0, spread: float = 0.5) -> Lane:
    source = random.Random(n)
    heights = [base + 2**30 * source.random() for _ in range(n)]
    pieces = tuple(
        Piece(i * MS, (i + 1) * MS, height, height * (1 + spread * source.random())) for i, height in enumerate(heights)
    )
    return Lane(label, pieces, max(pieces, key=lambda piece: piece.high).start_ns)


def spans(n: int, length: float, label: str = "") -> list[StepSpan]:
    return [StepSpan(f"{label}{i + 100}", i * length * MS, ((i + 1) * length - 0.01) * MS) for i in range(n)]


def run_lane(*parts: tuple[int, float], label: str = "Mean step", name: str = "step_ns") -> RunLane:
    """So many runs about each level, a jump between two."""
    source = random.Random(len(parts))
    values = [source.gauss(ms, ms / 100) * MS for count, ms in parts for _ in range(count)]
    dots = tuple(RunDot(f"run {i}", v, 0.99 * v, 1.01 * v) for i, v in enumerate(values, 1))
    edges = [sum(count for count, _ in parts[:i]) for i in range(len(parts) + 1)]
    shown = tuple(Level(a, b, ms * MS, ms * MS) for a, b, (_, ms) in zip(edges, edges[1:], parts, strict=False))
    jumps = tuple(Jump(at, "+8.0 %", "bad", max(at - 2, 1), at + 1) for at in edges[1:-1])
    return RunLane(label, name, dots, shown, jumps)


DRAWINGS: dict[str, Callable[[Medium], Chart]] = {
    "dqn bar": lambda m: step_bar(m, DQN, 3.2 * MS),
    "twelve parts": lambda m: step_bar(m, TWELVE, sum(p.ns for p in TWELVE)),
    "one part": lambda m: step_bar(m, phases(98), 98 * MS),
    "no part": lambda m: step_bar(m, (), 0),
    "hundred parts": lambda m: step_bar(m, phases(*range(100)), 4950 * MS),
    "hostile bar": lambda m: step_bar(m, [Part(HOSTILE, "wait", 1.0), *phases(1, 2)], 1),
    "pair": lambda m: step_bars_pair(m, DQN, TWELVE),
    "empty pair": lambda m: step_bars_pair(m, (), ()),
    "no steps": lambda m: step_columns(m, [], 0),
    "one step": lambda m: step_columns(m, steps(1), 3.2 * MS, [(0, "slow")]),
    "few steps": lambda m: step_columns(m, steps(4), 3.2 * MS, [(1, "a long note " * 9), (3, "another")]),
    "steps": lambda m: step_columns(m, steps(48), 3.2 * MS, [(i, f"step {i}: a note") for i in (3, 4, 5, 30, 31, 47)]),
    "hostile steps": lambda m: step_columns(m, [StepColumn(HOSTILE, (Part(HOSTILE, "fwd", 5.0),))] * 3, 5, [(1, HOSTILE)]),
    "many steps": lambda m: step_columns(m, steps(5000), 3.2 * MS, [(2500, "checkpoint")]),
    "waterfall": lambda m: waterfall(m, 10 * MS, 7 * MS, changes(6)),
    "long waterfall": lambda m: waterfall(m, 10 * MS, 7 * MS, changes(50, HOSTILE)),
    "same waterfall": lambda m: waterfall(m, 0, 0, []),
    "dots": lambda m: dots(m, [group(48, 3.2), group(60, 1.1)]),
    "many dots": lambda m: dots(m, [group(5000, 98), replace(group(1000, 91), label=HOSTILE)]),
    "equal dots": lambda m: dots(m, [Dots("Before", (5.0,) * 40, 5, 5, 5), Dots("After", (5.0,), 5, 5, 5)]),
    "diverging": lambda m: diverging(m, [*op_changes(6), OpChange("no interval", MS, 2 * MS)]),
    "long diverging": lambda m: diverging(m, op_changes(900, HOSTILE)),
    "no operators": lambda m: diverging(m, []),
    "over time": lambda m: over_time(m, [lane(400)], spans(6, 60), "held_bytes"),
    "one piece over time": lambda m: over_time(m, [lane(1, spread=0)], spans(1, 1), "held_bytes"),
    "far from zero": lambda m: over_time(m, [lane(50, base=2**36, spread=0)], [], "held_bytes"),
    "always the same": lambda m: over_time(m, [Lane("GPU 0", (Piece(0, MS, 7, 7),), 0)], [], "waiting_count"),
    "nothing waits": lambda m: over_time(m, [Lane("GPU 0", (Piece(0, MS, 0, 0),), 0)], spans(40, 0.02), "waiting_count"),
    "below the start": lambda m: over_time(m, [Lane("host", (Piece(0, 5, -900, -3), Piece(5, 9, -7, 2)), 5)], [], "held_bytes"),
    "twelve lanes": lambda m: over_time(m, [lane(400 + i, f"GPU {i}") for i in range(12)], spans(90, 5), "held_bytes"),
    "hostile lanes": lambda m: over_time(m, [lane(9, HOSTILE), lane(9)], spans(3, 3, HOSTILE), "held_bytes"),
    "levels": lambda m: levels(m, [run_lane((8, 100), (7, 108), (9, 90))], [], ("2026-01-01 08:00", "2026-01-24 08:00")),
    "one run": lambda m: levels(m, [run_lane((1, 100))], [], ("2026-01-01 08:00", "2026-01-01 08:00")),
    "no runs": lambda m: levels(m, [], []),
    "broken levels": lambda m: levels(m, [run_lane((8, 100), (7, 50))], [RunBreak(8, "GPU, CPU"), RunBreak(9, "Mode")]),
    "every run breaks": lambda m: levels(m, [run_lane(*[(1, 100)] * 90)], [RunBreak(i, "GPU") for i in range(1, 90)]),
    "many runs": lambda m: levels(m, [run_lane((2000, 100), (3001, 104)), run_lane((5001, 9000), name="peak_bytes")], []),
    "hostile runs": lambda m: levels(m, [run_lane((4, 100), (4, 120), label=HOSTILE)], [RunBreak(4, HOSTILE)]),
    "equal runs": lambda m: levels(m, [RunLane("Step", "step_ns", (RunDot("run 1", 5.0),) * 3, (Level(0, 3, 5, 5),), ())], []),
    "drifting runs": lambda m: levels(m, [replace(run_lane((20, 100)), levels=(Level(0, 20, 99 * MS, 101 * MS),))], []),
    "a run far off": lambda m: levels(
        m, [replace(run_lane((20, 100)), dots=(RunDot("run 1", 9e9), *run_lane((19, 100)).dots))], []
    ),
    "nothing recorded": lambda m: levels(m, [run_lane((3, 1)), RunLane("Peak", "peak_bytes", (None,) * 3, (), ())], []),
    "no lanes": lambda m: over_time(m, [], [], "held_bytes"),
}
EVERY_DRAWING = pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS.keys())


def elements(chart: Chart, tag: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(chart.svg).iter() if e.tag.rpartition("}")[2] == tag]


def number_of(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, "nan"))


def text_box(element: ElementTree.Element) -> Box:
    style = f"{element.get('class')} {element.get('font-weight')} {element.get('font-family')}"
    face: Face = "strong" if "600" in style else "mono" if "JetBrains" in style or " m " in style else "regular"
    x, y, size = (number_of(element, name) for name in ("x", "y", "font-size"))
    return x, y - size * 0.75, x + text_width(element.text or "", size, face), y + size * 0.1


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] - 0.05 and b[0] < a[2] - 0.05 and a[1] < b[3] and b[1] < a[3]


@MEDIA
@EVERY_DRAWING
def test_labels_neither_overlap_nor_leave_the_canvas(draw: Callable[[Medium], Chart], medium: Medium):
    chart = draw(medium)
    canvas = ElementTree.fromstring(chart.svg)
    texts = elements(chart, "text")
    boxes = [text_box(t) for t in texts]
    for text, (left, top, right, bottom) in zip(texts, boxes, strict=True):
        assert left >= -0.05 and right <= number_of(canvas, "width") + 0.05, text.text
        assert top >= 0 and bottom <= number_of(canvas, "height"), text.text
    clashes = [(a[0].text, b[0].text) for a, b in combinations(list(zip(texts, boxes, strict=True)), 2) if overlap(a[1], b[1])]
    assert clashes == []


@MEDIA
@EVERY_DRAWING
def test_drawings_repeat_to_the_byte_and_stay_small(draw: Callable[[Medium], Chart], medium: Medium):
    chart = draw(medium)
    assert chart == draw(medium)
    assert len(chart.svg) < 90_000
    assert chart.alt


@EVERY_DRAWING
def test_the_pdf_gets_attributes_that_it_can_draw_cheaply(draw: Callable[[Medium], Chart]):
    svg = draw(PDF).svg
    assert "text-anchor" not in svg
    assert not re.search(r'(?<!fill-)opacity="', svg)
    assert "class=" not in svg and "style=" not in svg and "data-t" not in svg
    assert set(re.findall(r"#[0-9A-F]{6}", svg)) <= set(LIGHT.values())


@EVERY_DRAWING
def test_the_html_gets_classes_a_name_and_no_address(draw: Callable[[Medium], Chart]):
    chart = draw(HTML)
    assert "http" not in chart.svg and "#" not in chart.svg.replace("&#", "")
    assert ElementTree.fromstring(chart.svg).get("aria-label") is not None


@MEDIA
def test_hostile_names_are_text_and_are_cut(medium: Medium):
    chart = step_bar(medium, [Part(HOSTILE, "wait", 5.0)], 5)
    assert "<img" not in chart.svg and "</script" not in chart.svg
    assert not re.search("[\x00\ud800\u202e]", chart.svg)
    chart.svg.encode()
    assert max(len(t.text or "") for t in elements(chart, "text")) < 60
    assert len(chart.svg) < 3000


@MEDIA
def test_parts_of_a_bar_add_up_to_its_width(medium: Medium):
    bars = elements(step_bar(medium, phases(60, 30, 10), 100 * MS), "rect")
    lefts = [number_of(b, "x") for b in bars]
    assert lefts == pytest.approx([0, medium.width * 0.6, medium.width * 0.9], abs=0.01)
    assert lefts[-1] + number_of(bars[-1], "width") == pytest.approx(medium.width, abs=0.01)


def test_what_the_parts_leave_of_the_total_stays_empty():
    chart = step_bar(PDF, phases(50), 100 * MS)
    (bar,) = elements(chart, "rect")
    assert "50.0\u202fms · 50\u202f%" in chart.svg
    assert number_of(bar, "width") == pytest.approx(PDF.width / 2, abs=0.01)


def test_phases_too_small_for_a_label_are_counted():
    texts = [t.text for t in elements(step_bar(PDF, phases(97, 0.2, 0.3, 0.1), 97.6 * MS), "text")]
    assert texts == ["97.0", "phase 0", "97.0\u202fms · 99\u202f%", "3 smaller parts", "0.6\u202fms · 0.6\u202f%"]


def test_a_pair_is_drawn_on_one_scale():
    bars = elements(step_bars_pair(PDF, phases(100), phases(25)), "rect")
    before, after = (number_of(b, "width") for b in bars)
    assert after == pytest.approx(before / 4, abs=0.01)


def test_five_thousand_steps_become_bins_of_fifty_with_whiskers():
    chart = step_columns(HTML, steps(5000), 3.2 * MS)
    areas = [e for e in elements(chart, "rect") if e.get("class") == "hit"]
    assert len(areas) == 100
    assert (areas[1].get("data-t") or "").startswith("steps 50 to 99: mean 3.")
    whiskers = [p for p in elements(chart, "path") if (p.get("d") or "").count("M") == 100 and "s-ink3" in p.get("class", "")]
    assert len(whiskers) == 1
    assert [t.text for t in elements(chart, "text") if t.text in ("500", "550", "1,000")] == ["500", "1,000"]


def test_columns_end_at_the_height_of_their_sum():
    chart = step_columns(PDF, [StepColumn("1", phases(10, 10)), StepColumn("2", phases(5, 5))], 15 * MS)
    lower, upper = [p.get("d") or "" for p in elements(chart, "path") if p.get("fill") in (LIGHT["wait"], LIGHT["fwd"])]
    heights = [[float(h) for h in re.findall(r"v([\d.]+)", d)] for d in (lower, upper)]
    assert heights[0] == pytest.approx(heights[1], abs=0.02)
    assert heights[0][0] == pytest.approx(2 * heights[0][1], abs=0.02)


def test_a_column_far_above_the_median_is_cut_and_says_its_height():
    slow = StepColumn("0", phases(1000))
    chart = step_columns(PDF, [slow, *(StepColumn(str(i), phases(10)) for i in range(1, 20))], 10 * MS)
    texts = [t.text for t in elements(chart, "text")]
    assert "1,000.0\u202fms" in texts
    assert "10" in texts and "1,000" not in texts


def test_a_waterfall_explains_all_of_the_difference():
    chart = waterfall(PDF, 10 * MS, 6 * MS, [Change("forward", -3 * MS, -3.1 * MS, -2.9 * MS)])
    texts = [t.text for t in elements(chart, "text")]
    assert "Not in a phase" in texts and "−1.00\u202fms" in texts


def test_changes_whose_interval_holds_zero_are_grey():
    rows = [Change("sure", -2 * MS, -3 * MS, -1 * MS), Change("worse", MS, 0.5 * MS, 2 * MS), Change("noise", MS / 2, -MS, MS)]
    bars = elements(waterfall(PDF, 10 * MS, 9.5 * MS, rows), "rect")
    assert [b.get("fill") for b in bars] == [LIGHT[f] for f in ("ink2", "good", "bad", "ink3", "ink2")]


def test_every_step_is_one_dot():
    chart = dots(PDF, [group(48, 3.2)])
    (marks,) = [p.get("d") or "" for p in elements(chart, "path") if p.get("fill") == LIGHT["ink3"]]
    assert marks.count("M") == 48


def test_thousands_of_steps_share_dots_and_the_chart_says_so():
    chart = dots(PDF, [group(5000, 98)])
    assert any((t.text or "").startswith("one dot: up to") for t in elements(chart, "text"))


def test_a_far_outlier_is_named_instead_of_drawn():
    ordinary = group(48, 3.2)
    chart = dots(PDF, [replace(ordinary, values_ns=(*ordinary.values_ns, 900.0 * MS))])
    assert "1 slower, up to 900.0\u202fms →" in [t.text for t in elements(chart, "text")]


def test_one_bar_far_longer_than_the_next_is_cut_with_a_mark():
    rows = [OpChange("a", 124 * MS, 4 * MS, -130 * MS, -110 * MS), OpChange("b", 0, 4 * MS, 3 * MS, 5 * MS)]
    cut, other = (number_of(b, "width") for b in elements(diverging(PDF, rows), "rect"))
    assert cut < 3 * other
    assert any(p.get("stroke") == LIGHT["paper"] for p in elements(diverging(PDF, rows), "path"))
    uncut = [replace(rows[0], after_ns=110 * MS, low_ns=-15 * MS, high_ns=-13 * MS), rows[1]]
    assert not any(p.get("stroke") == LIGHT["paper"] for p in elements(diverging(PDF, uncut), "path"))


def test_an_area_goes_through_every_step_of_its_lane():
    pieces = (Piece(0, 10 * MS, 0, 0), Piece(10 * MS, 20 * MS, 4, 4), Piece(20 * MS, 40 * MS, 2, 2))
    chart = over_time(PDF, [Lane("GPU 0", pieces, 10 * MS)], [], "waiting_count")
    (area,) = [p.get("d") or "" for p in elements(chart, "path") if p.get("fill") == LIGHT["fwd"]]
    start, *corners = [float(n) for n in re.findall(r"[\d.]+", area)]
    foot, first, zero, rise, top, fall, half, end, back = corners
    assert (start, zero, back) == (first, foot, foot)
    assert [(x - start) / (end - start) for x in (rise, fall)] == pytest.approx([0.25, 0.5], abs=1e-4)
    assert foot - top == pytest.approx(2 * (foot - half), abs=0.05)
    assert "peak 4 at 10.0\u202fms" in [t.text for t in elements(chart, "text")]


def test_where_a_piece_of_time_has_two_values_the_least_is_drawn_over_the_most():
    chart = over_time(HTML, [Lane("GPU 0", (Piece(0, MS, 1, 3), Piece(MS, 2 * MS, 2, 2)), 0)], [], "waiting_count")
    areas = [p for p in elements(chart, "path") if "f-fwd" in p.get("class", "") and "H" in p.get("d", "")]
    assert [a.get("fill-opacity") for a in areas] == ["0.45", None]
    assert [t.text for t in elements(chart, "text")][-2:] == ["throughout", "at times"]
    assert [r.get("data-t") for r in elements(chart, "rect")] == [
        "GPU 0, 0.00\u202fms to 1.00\u202fms\n1 to 3",
        "GPU 0, 1.00\u202fms to 2.00\u202fms\n2",
    ]


@MEDIA
def test_of_many_lanes_the_highest_are_drawn_and_however_many_they_are_the_chart_is_small(medium: Medium):
    lanes = [lane(400, f"GPU {i}", base=2**30 * (100 + i)) for i in range(64)]
    chart = over_time(medium, lanes, spans(40, 10), "held_bytes")
    names = [t.text for t in elements(chart, "text") if (t.text or "").startswith("GPU ")]
    assert names == [f"GPU {i}" for i in range(56, 64)]
    assert "56 more, none of them higher" in [t.text for t in elements(chart, "text")]
    assert len(chart.svg) < 30_500


def test_steps_too_narrow_for_their_number_have_a_border_only_and_too_many_have_none():
    texts = [
        t.text
        for t in elements(over_time(PDF, [lane(400)], [*spans(2, 150), StepSpan("7777", 300e6, 304e6)], "held_bytes"), "text")
    ]
    assert "100" in texts and "101" in texts and not any((t or "").startswith("77") for t in texts)
    assert "step" not in [t.text for t in elements(over_time(PDF, [lane(400)], spans(41, 9), "held_bytes"), "text")]


def test_an_axis_that_does_not_begin_at_zero_is_broken():
    def breaks(chart: Chart) -> int:
        return sum((p.get("d") or "").count("l9 -4") for p in elements(chart, "path") if p.get("stroke") == LIGHT["ink2"])

    assert breaks(DRAWINGS["far from zero"](PDF)) == 2
    assert breaks(DRAWINGS["over time"](PDF)) == 0


def test_labels_keep_their_order_and_stay_inside():
    assert spread([(5, 10), (5, 10), (98, 10)], 0, 100, 2) == [5, 17, 95]


def test_ticks_are_round():
    assert nice_ticks(0, 3.3, 6) == [0, 1, 2, 3]
    assert nice_ticks(0, 470, 6) == [0, 100, 200, 300, 400]
    assert nice_ticks(7, 7, 6) == [7]


def test_clipped_text_fits_and_ends_in_an_ellipsis():
    assert clip("short", 10, 100) == "short"
    clipped = clip("a name far too long for its place", 10, 60)
    assert clipped.endswith("…") and text_width(clipped, 10) <= 60
    assert clip("wide", 10, 3) == ""


def test_charts_are_fast():
    start = time.perf_counter()
    for medium in (HTML, PDF):
        step_columns(medium, steps(5000), 3.2 * MS)
    assert time.perf_counter() - start < 10  # about 0.5 s; a square law would take minutes


@pytest.mark.parametrize("name", ["report.css", "screen.css", "print.css", "report.js"])
def test_style_sheets_and_script_name_no_address(name: str):
    text = resources.files("longpole.templates").joinpath(name).read_text(encoding="utf-8")
    assert "http" not in text
    assert text.count("{") == text.count("}")


def test_levels_stand_at_their_values_over_their_runs():
    """Four runs at 100 and four at 200: a dot each, two lines, and the border between the fourth and the fifth."""
    runs = tuple(RunDot(f"run {i + 1}", (100 if i < 4 else 200) * MS) for i in range(8))
    lane = RunLane(
        "Step",
        "step_ns",
        runs,
        (Level(0, 4, 100 * MS, 100 * MS), Level(4, 8, 200 * MS, 200 * MS)),
        (Jump(4, "+100 %", "bad", 4, 4),),
    )
    chart = levels(PDF, [lane], [])
    paths = [path.get("d", "") for path in elements(chart, "path")]
    (lines,) = [d for d in paths if d.count("L") == 2 and d.count("M") == 2]
    (left, top), (right, bottom) = re.findall(r"M([\d.]+) ([\d.]+)", lines)
    (border,) = [
        re.match(r"M([\d.]+) ", path.get("d", ""))[1] for path in elements(chart, "path") if path.get("stroke-dasharray")
    ]
    assert float(left) < float(border) < float(right) and float(top) > float(bottom)
    assert float(right) - float(border) == pytest.approx(1)
    assert chart.alt == "One dot a run. Step of 8 runs: 100 ms to 200 ms, +100 % from run 5 on".replace(" ms", "\u202fms")


def test_of_thousands_of_runs_neighbours_are_drawn_as_one_but_not_across_a_change():
    chart = levels(HTML, [run_lane((1001, 100), (1001, 110))], [])
    tips = [e.get("data-t", "") for e in elements(chart, "rect")]
    assert len(tips) <= 101
    assert tips[0].startswith("run 1 to run 21\n")
    (discs,) = [path.get("d", "") for path in elements(chart, "path") if path.get("d", "").count("a") > 100]
    assert 286 <= discs.count("M") <= 302
