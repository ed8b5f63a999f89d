"""The HTML report in a real browser: nothing is wider than the window but what scrolls in a box of its own."""

from pathlib import Path

import pytest
from browser import CHROMIUM, NO_CHROMIUM, found_in
from make_report import KINDS, reports

from longpole.reports.render_html import render_html

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

WIDTHS = [1280, 768, 390]
WIDER = f"""function (w) {{
  return {WIDTHS}.map(function (width) {{
    w.frameElement.style.width = width + "px";
    return Math.max(w.document.documentElement.scrollWidth, w.innerWidth);
  }});
}}"""
BOXES = """function (w) {
  w.frameElement.style.width = "390px";
  w.dispatchEvent(new Event("resize"));
  return Array.prototype.map.call(w.document.querySelectorAll(".wide"), function (box) {
    return [box.scrollWidth > box.clientWidth, box.tabIndex, box.classList.contains("more")];
  });
}"""


def shown(kind: str) -> str:
    return render_html(reports()[kind]).decode("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_is_wider_than_its_window(kind: str, tmp_path: Path):
    assert found_in(shown(kind), WIDER, tmp_path) == WIDTHS


def test_what_scrolls_in_its_box_is_reached_by_keyboard_and_shows_that_there_is_more(tmp_path: Path):
    boxes = found_in(shown("gpu"), BOXES, tmp_path)
    assert {scrolls for scrolls, _, _ in boxes} == {True, False}
    assert {(scrolls, index, more) for scrolls, index, more in boxes} == {(True, 0, True), (False, -1, False)}
