"""One self-contained file that any browser reads, whatever the names in the trace are."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from make_report import HOSTILE, KINDS, SCRIPT, STEPS, report_on, reports, run_report_of, training, write
from make_trace import Event, kernel, launch, make_trace, memcpy, op, step
from read_html import Html

from longpole.reports.page import file_of
from longpole.reports.render_html import render_html
from longpole.reports.svg import clean

EVERY_REPORT = pytest.mark.parametrize("kind", KINDS)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; font-src data:"
ATTRIBUTES_THAT_FETCH = {"src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href", "ping", "srcdoc"}


@cache
def text(kind: str) -> str:
    return render_html(reports()[kind]).decode("utf-8")


@cache
def page(kind: str) -> Html:
    return Html(text(kind))


@EVERY_REPORT
def test_nothing_is_fetched_from_anywhere(kind: str):
    assert not re.search(r"https?:|//www|@import", text(kind), re.IGNORECASE)
    addresses = re.findall(r"url\((.*?)\)", text(kind))
    assert addresses
    assert all(address.startswith("data:font/woff2;base64,") for address in addresses)
    for element in page(kind).elements:
        assert not ATTRIBUTES_THAT_FETCH & element.attributes.keys(), element
        assert element.attributes.get("href", "#").startswith("#")
        assert element.tag not in ("link", "iframe", "object", "embed", "base", "img", "image", "use", "foreignobject")


@EVERY_REPORT
def test_the_policy_forbids_every_request(kind: str):
    (policy,) = [e for e in page(kind).all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy.attributes["content"] == POLICY
    assert policy.path == ("html", "head")


@EVERY_REPORT
def test_every_wide_table_scrolls_in_a_named_region_of_its_own(kind: str):
    regions = [e for e in page(kind).all("div") if e.attributes.get("class") == "wide"]
    tables = [e for e in page(kind).all("table") if e.attributes.get("class") != "kv"]
    assert len(regions) == len(tables)
    assert all(e.attributes["tabindex"] == "0" and e.attributes["role"] == "region" for e in regions)
    assert all(e.attributes["aria-label"].strip() for e in regions)


@EVERY_REPORT
def test_every_anchor_has_its_target_and_no_id_stands_twice(kind: str):
    ids = [element.attributes["id"] for element in page(kind).elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    targets = {e.attributes["href"][1:] for e in page(kind).elements if "href" in e.attributes}
    assert {"summary", "method"} <= targets
    assert targets <= set(ids)
    assert {e.attributes["data-filter"] for e in page(kind).all("input")} <= set(ids)


@EVERY_REPORT
def test_the_only_script_is_our_own_and_no_element_carries_a_handler(kind: str):
    assert page(kind).script == file_of("report.js").decode("utf-8")
    assert len(page(kind).all("script")) == 1
    assert not [e for e in page(kind).elements for name in e.attributes if name.startswith("on")]


@EVERY_REPORT
def test_the_page_has_one_main_heading_and_a_title_that_says_it(kind: str):
    (heading,), (title,) = page(kind).all("h1"), page(kind).all("title")
    assert heading.text[:100] in title.text or len(title.text) == 300
    assert len(title.text) <= 300
    assert page(kind).all("html", lang="en")


@pytest.mark.parametrize("kind", ["hostile", "hostile gpu", "hostile diff", "hostile ranges", "hostile snapshot"])
def test_hostile_names_are_text_everywhere(kind: str):
    shown = page(kind)
    names = [clean(name) for name in HOSTILE if len(name) < 300]
    body = " ".join(shown.lines)
    for name in names:
        assert " ".join(name.split()) in body, f"{name} is not on the page"
    assert "49" not in " ".join(h.text for h in shown.all("h1") + shown.all("title"))
    assert "{{7*7}}" in body
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text(kind))
    assert SCRIPT not in text(kind)


def test_hostile_names_stand_whole_in_tooltips_and_descriptions_of_charts():
    shown = page("hostile")
    tips = [e.attributes["data-t"] for e in shown.elements if "data-t" in e.attributes]
    assert any(SCRIPT in tip for tip in tips)
    assert any(SCRIPT in e.attributes["aria-label"] for e in shown.all("svg"))
    assert any(SCRIPT in e.text for e in shown.all("title"))
    assert any(SCRIPT in e.attributes["content"] for e in shown.all("meta", name="description"))


def test_a_name_of_ten_thousand_letters_is_cut_on_the_page():
    assert max(len(line) for line in page("hostile").lines) < 3000
    assert max(len(e.text) for e in page("hostile").all("h1")) < 400
    assert any(e.text.endswith("…") and len(e.text) == 300 for e in page("hostile").all("code"))


def test_the_same_input_gives_the_same_bytes_in_another_process_hash_seed_and_time_zone(tmp_path: Path):
    path = write(tmp_path / "train.json", training())
    code = (
        "import sys; from pathlib import Path; from make_report import run_report_of as report; "
        "from longpole.reports.render_html import render_html; sys.stdout.buffer.write(render_html(report(Path(sys.argv[1]))))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "12345", "TZ": "Asia/Kathmandu", "PYTHONPATH": str(Path(__file__).parent)}
    there = subprocess.run([sys.executable, "-c", code, str(path)], env=environment, capture_output=True, check=True).stdout
    assert there == render_html(run_report_of(path)) == render_html(run_report_of(path))


def test_a_trace_of_thousands_of_names_stays_below_a_megabyte(tmp_path: Path):
    names = [f"my::operator_with_a_rather_long_name<float, {i}, std::vector<at::Tensor>>" for i in range(4000)]
    events = [step(i, 50_000 * i, 50_000 * i + 49_000) for i in range(4)]
    events += [op(name, 50_000 * (i % 4) + 10 * (i // 4), 50_000 * (i % 4) + 10 * (i // 4) + 9) for i, name in enumerate(names)]
    made = render_html(run_report_of(write(tmp_path / "many.json", events)))
    assert len(made) < 1_000_000
    shown = Html(made.decode("utf-8"))
    assert any(line.startswith("3,80") and "more rows" in line for line in shown.lines)


def test_a_section_without_data_is_listed_with_its_reason():
    shown = page("bundle").lines
    at = shown.index("Not in this report")
    missing = dict(line.split(" | ", 1) for line in shown[at + 1 :] if " | " in line)
    assert missing["GPU"].startswith("The trace holds no GPU work")
    assert missing["Waiting for data"].startswith("Nothing in the steps marks data loading")
    titles = [e.text for e in page("bundle").all("h2")]
    assert "GPU" not in titles
    assert "Operators" in titles


def test_the_contents_name_the_sections_in_their_order():
    linked = [e.text for e in page("bundle").elements if e.tag == "a" and "nav" in e.path]
    headings = [e.text for e in page("bundle").all("h2") if "id" in e.attributes]
    assert linked == headings
    assert linked[0] == "What to change, in full"
    assert linked[-1] == "Method and coverage"


def test_steps_that_were_cut_off_are_named():
    assert f"{STEPS} of {STEPS + 1} steps are whole and counted; the last one is set aside as cut off" in " ".join(
        page("bundle").lines
    )


def test_long_tables_can_be_filtered_and_sorted_and_short_ones_say_so_not(tmp_path: Path):
    assert page("bundle").all("table", id="t-bottlenecks", class_="num sortable")
    assert {e.attributes["data-filter"] for e in page("bundle").all("input")} == {"t-bottlenecks", "t-ops"}
    assert not page("no steps").all("input")


def test_a_step_withheld_busy_share_is_shown_nowhere(tmp_path: Path):
    from make_report import gpu

    early = [{**e, "ts": e["ts"] - 200} if e["name"] == "void gemm<float, 128>(float*)" else e for e in gpu()]
    shown = Html(render_html(run_report_of(write(tmp_path / "clocks.json", early))).decode("utf-8"))
    assert "what share of the recorded" in shown.all("h1")[0].text
    words = " ".join(shown.lines)
    assert "GPU busy" not in words
    assert "Of the recording" not in words


def section(name: str, *events: list[Event]) -> str:
    """The words of one section of the report on these events."""
    text = render_html(report_on(make_trace(*events))).decode("utf-8")
    return " ".join(Html(re.search(rf'<section><h2 id="{name}">.*?</section>', text, re.DOTALL)[0]).lines)


def test_a_wait_for_a_busy_gpu_is_called_a_wait_for_work():
    work = [launch(1, 0, 5), launch(2, 5, 90, name="cudaDeviceSynchronize")], [kernel("gemm", 5, 90, correlation=1)]
    words = section("synchronisations", [step(1, 0, 100)], *work)
    assert "(100 %) of this time: there the host waits for work, and the GPU loses nothing." in words
    assert "No idle time follows them" in words
    early = [{**work[0][0], "ts": 50}]
    withheld = section("synchronisations", [step(1, 0, 100)], early, work[0][1:], work[1])
    assert "during and after these waits is withheld: the two clocks disagree" in withheld
    assert "GPU idle after" not in withheld


def test_costly_pageable_copies_get_the_loaders_remedy_and_an_upper_bound_with_its_assumption():
    slow = [memcpy("Memcpy HtoD (Pageable -> Device)", 0, 40, bytes=40_000)]
    words = section("copies", [step(1, 0, 100)], slow, [memcpy("Memcpy HtoD (Pinned -> Device)", 50, 60, bytes=40_000)])
    assert "pin_memory=True in the DataLoader and non_blocking=True" in words
    assert "30.0 µs less at most, if every byte moved at that speed" in words
    alone = section("copies", [step(1, 0, 100)], slow)
    assert "holds no pinned copy" in alone
    for text in (words, alone):
        assert "pin_memory()" not in text
    assert "pin_memory" not in section("copies", [step(1, 0, 10_000)], slow)


def test_copies_of_unknown_size_and_memory_are_told():
    words = section("copies", [step(1, 0, 100)], [memcpy("Memcpy HtoD (Host -> Device)", 0, 40)])
    assert "does not say which copies come from pageable memory" in words
    assert "Without a size" in words
