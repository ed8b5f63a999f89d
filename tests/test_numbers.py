"""Every figure on page one is computed: it can be had from the JSON of the same report, so a typed or stale one is found."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from make_report import reports
from read_html import Html

from longpole.reports.render_html import render_html
from longpole.reports.render_json import render_json

FIGURE = re.compile(r"([+\u2212]?)(\d[\d,]*(?:\.\d+)?)(?:[\u202f ]?(µs|ms|s\b|%|×|samples/s))?")
US_PER_UNIT = {"µs": 1.0, "ms": 1e3, "s": 1e6}
INTERVAL_PCT = 95.0


@dataclass
class Known:
    """What a report's JSON says, by kind."""

    times_us: list[float] = field(default_factory=list)
    per_cent: list[float] = field(default_factory=lambda: [INTERVAL_PCT])
    plain: list[float] = field(default_factory=list)  # counts and ratios
    names: list[str] = field(default_factory=list)


def page_one(kind: str) -> list[str]:
    """The visible lines of the first section and what its charts say in words, without provenance and ticks of axes."""
    source = render_html(reports()[kind]).decode("utf-8")
    section = source[source.index('<section id="summary"') : source.index('<div class="foot2">')] + "</section>"
    page = Html(section)
    words = [e.attributes["aria-label"] for e in page.all("svg")]
    ticks = {e.text for e in page.all("text") if "f-ink3" in e.attributes["class"] and FIGURE.fullmatch(e.text)}
    return [line for line in [*page.lines, *words] if line not in {" ".join(tick.split()) for tick in ticks}]


def figures(lines: Iterable[str], names: Iterable[str]) -> Iterator[tuple[str, str, str, str]]:
    """(sign, digits, unit, line) of every figure that is not part of a name."""
    for line in lines:
        text = line
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, "")
        for sign, digits, unit in FIGURE.findall(text):
            yield sign, digits, unit, line


def is_known(sign: str, digits: str, unit: str, known: Known) -> bool:
    decimals = len(digits.partition(".")[2])

    def same(values: Iterable[float]) -> bool:
        fitting = [v for v in values if f"{abs(v):,.{decimals}f}" == digits]
        return any(not sign or v == 0 or (v < 0) == (sign == "\u2212") for v in fitting)

    if unit in US_PER_UNIT:
        return same(v / US_PER_UNIT[unit] for v in known.times_us)
    if unit == "%":
        return same(known.per_cent)
    in_a_column = (v / us for v in known.times_us for us in US_PER_UNIT.values()) if decimals and not unit else ()
    return same([*known.plain, *in_a_column])


def numbers(value: Any) -> list[float]:
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def of_run(summary: dict[str, Any]) -> Known:
    if summary["withheld"].get("step_median_us"):
        return of_totals(summary)
    known, measures = Known(), summary["measures"]
    mean = measures["step_mean_us"]
    for name, value in measures.items():
        (known.times_us if name.endswith("_us") else known.per_cent if name.endswith("_pct") else known.plain).extend(
            numbers(value)
        )
    known.times_us += [s["step_us"] for s in summary["steps"]] + [p["us_per_step"] for p in summary["phases"]]
    known.per_cent += [p["share_pct"] for p in summary["phases"]] + [k["share_pct"] for k in summary["kernels"]]
    known.per_cent += [measures["outside_ops_us"] / mean * 100]
    known.times_us += [k["total_us"] for k in summary["kernels"]] + [sum(k["total_us"] for k in summary["kernels"])]
    busy = [us for device in summary["devices"] for us in device.values() if isinstance(us, float)]
    on_device = [*busy, *(i["us"] for i in summary["idle"])]
    known.times_us += on_device
    known.per_cent += [us / measures["window_us"] * 100 for us in on_device]
    known.plain += [k["count"] for k in summary["kernels"]] + [
        len({k["name"] for k in summary["kernels"]}),
        len(summary["devices"]),
    ]
    known.times_us += [us for t in measures["together"] for name, us in t.items() if name.endswith("_us")]
    known.plain += [len(t["ids"]) for t in measures["together"]]
    in_buckets = measures.get("step_buckets_us", {})
    by_kind = [sum(us for name, us in in_buckets.items() if name.startswith(kind)) for kind in ("compute", "idle")]
    known.times_us += [*in_buckets.values()]
    known.per_cent += [us / mean * 100 for us in (*in_buckets.values(), *by_kind)]
    known.per_cent += [us / measures["step_period_us"] * 100 for us in measures.get("period_buckets_us", {}).values()]
    if "unprofiled_step_median_us" in measures:
        known.plain.append(measures["step_median_us"] / measures["unprofiled_step_median_us"])
    selves = {name: us / measures["step_count"] for name, us in measures["step_self_us"].items()}
    known.times_us += [*selves.values(), *(mean - us for us in selves.values())]
    known.per_cent += [us / mean * 100 for us in selves.values()]
    for number, finding in enumerate(summary["findings"], 1):
        savings = [finding[f"saving_{which}"] for which in ("us_per_step", "low_us", "high_us")]
        known.times_us += [-us for us in savings] + [mean - savings[0]]
        known.per_cent.append(savings[0] / mean * 100)
        times = [e["value"] for e in finding["evidence"] if e["unit"] == "us"]
        counts = [e["value"] for e in finding["evidence"] if e["unit"] == "count"]
        known.times_us += times + [us / count for us in times for count in counts]
        known.plain += [number, *counts]
    known.names = [s["name"].rsplit("#", 1)[-1] + ":" for s in summary["steps"]] + [o["name"] for o in summary["ops"]]
    return known


def of_totals(summary: dict[str, Any]) -> Known:
    """Of another tool's ranges, or a snapshot."""
    known, measures, ops = Known(), summary["measures"], summary["ops"]
    for name, value in measures.items():
        if isinstance(value, dict):
            add_up(known, value.values())
        (known.times_us if name.endswith("_us") else known.per_cent if name.endswith("_pct") else known.plain).extend(
            numbers(value)
        )
    known.names = [name for value in measures.values() if isinstance(value, dict) for name in value]
    for name in ("total_us", "device_time_us", "async_us"):
        known.plain.append(len(measures.get(name, ())))
    known.plain += [w["count"] for w in summary["warnings"]] + [len(known.names), summary["coverage"]["events_total"], len(ops)]
    kernels = [o for o in ops if o["device_type"] != "CPU"]
    add_up(known, [o["self_cpu_us"] for o in ops])
    add_up(known, [o["self_device_us"] for o in kernels])
    known.plain.append(sum(o["count"] for o in ops if o["device_type"] == "CPU" and o["name"] != "ProfilerStep*"))
    known.names += [o["name"] for o in ops] + [str(summary["source"]["torch"])]
    return known


def add_up(known: Known, times_us: Iterable[float]) -> None:
    """The times, their sum, and what share of it each is."""
    times = list(times_us)
    known.times_us += [*times, sum(times)]
    known.per_cent += [us / sum(times) * 100 for us in times if sum(times)]


def of_diff(diff: dict[str, Any], sides: list[dict[str, Any]]) -> Known:
    known, step = Known(), diff["step"]
    for part in (step, diff["unprofiled"] or {}, *diff["rows"], (diff["now"] or {}).get("figures", {})):
        for name, value in part.items():
            kind = known.times_us if name.endswith("_us") else known.per_cent if name.endswith("_pct") else known.plain
            kind.extend(numbers(value))
    known.times_us.append(step["after_median_us"] - step["before_median_us"])
    known.per_cent.append((step["after_median_us"] / step["before_median_us"] - 1) * 100)
    outcome = diff["outcome"] or {}
    for part in (*diff["findings"], outcome.get("profiled") or {}, outcome.get("unprofiled") or {}):
        known.times_us += [-value for name, value in part.items() if name.endswith("_us") and value is not None]
    known.plain += range(1, len(diff["findings"]) + 1)
    for side in sides:
        known.plain += [e["value"] for finding in side["findings"] for e in finding["evidence"] if e["unit"] == "count"]
        known.times_us += [side["measures"][f"step_mean_{border}_us"] for border in ("low", "high")]
        known.times_us += [s["step_us"] for s in side["steps"]]
        known.plain.append(side["measures"]["step_count"])
    return known


def read(kind: str) -> dict[str, Any]:
    return json.loads(render_json(reports()[kind]))


def known_of(kind: str) -> Known:
    known = of_diff(read(kind), [read(side) for side in SIDES[kind]]) if kind in SIDES else of_run(read(kind))
    known.names += [recording.name for recording in reports()[kind].recordings] + ["2026-01-15", "2023-11-14"]  # dates of capture
    return known


SIDES = {"diff": ("bundle", "after"), "bare diff": ("trace", "after"), "gpu diff": ("gpu", "gpu")}


@pytest.mark.parametrize("kind", ["bundle", "after", "trace", "gpu", "no steps", "jax", "snapshot", "gpu snapshot", *SIDES])
def test_every_figure_on_page_one_is_in_the_json(kind: str):
    known, lines = known_of(kind), page_one(kind)
    found = list(figures(lines, known.names))
    assert len(found) > 10
    unknown = [
        f"{sign}{digits} {unit} in {line!r}" for sign, digits, unit, line in found if not is_known(sign, digits, unit, known)
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize(
    "typed",
    [
        "A step takes 956\u202fµs",
        "a saving of 43\u202f%",
        "\u2212392\u202fµs",
        "+393\u202fµs",
        "profiled 1.88× that",
        "61 tiny",
        "95.1 to 962.7",
    ],
)
def test_a_typed_or_stale_figure_would_be_found(typed: str):
    known = known_of("bundle")
    assert not all(is_known(sign, digits, unit, known) for sign, digits, unit, _ in figures([typed], known.names))
