"""What reports say, word for word. After a wanted change run this file with LONGPOLE_UPDATE_GOLDEN=1 and read the diff."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from make_report import reports
from read_html import Html

from longpole.reports.model import Report
from longpole.reports.render_html import render_html
from longpole.reports.render_json import render_json
from longpole.reports.render_markdown import render_markdown

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("LONGPOLE_UPDATE_GOLDEN") == "1"


def visible(report: Report) -> str:
    """The words of the page, a line a block, cells apart by bars; no styles."""
    return "\n".join(Html(render_html(report).decode("utf-8")).lines) + "\n"


RENDERED: dict[str, Callable[[Report], str]] = {
    "html.txt": visible,
    "md": lambda report: render_markdown(report).decode("utf-8"),
    "json": lambda report: render_json(report).decode("utf-8"),
}


def steady(text: str, report: Report) -> str:
    """Without what another release or another zlib may change: our version and the digests of compressed files."""
    for recording in report.recordings:
        digest = recording.source.files[0].sha256
        text = text.replace(digest, "SHA256").replace(digest[:12], "SHA12")
    return text.replace(f"longpole {report.version}", "longpole VERSION")


@pytest.mark.parametrize("ending", RENDERED)
@pytest.mark.parametrize(("name", "kind"), [("run", "bundle"), ("gpu", "gpu"), ("diff", "diff")])
def test_a_report_reads_as_it_did(name: str, kind: str, ending: str):
    golden, actual = GOLDEN / f"{name}.{ending}", GOLDEN / f"{name}.{ending}.actual"
    text = steady(RENDERED[ending](reports()[kind]), reports()[kind])
    if UPDATE:
        golden.write_text(text, encoding="utf-8", newline="\n")
    expected = golden.read_text(encoding="utf-8") if golden.exists() else ""
    if text == expected:
        actual.unlink(missing_ok=True)
        return
    actual.write_text(text, encoding="utf-8", newline="\n")
    difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), golden.name, actual.name, lineterm="")
    pytest.fail("\n".join(difference), pytrace=False)


def test_the_golden_files_are_those_that_are_compared():
    kept = {path.name for path in GOLDEN.iterdir() if path.suffix != ".actual" and path.name != ".gitignore"}
    assert kept == {f"{name}.{ending}" for name in ("run", "gpu", "diff") for ending in RENDERED}
