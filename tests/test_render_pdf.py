"""The PDF: A4, tagged, fonts inside, numbers attached, nothing fetched; and a machine without Pango."""

import io
import logging
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from make_report import reports, training, write

from longpole.capture.errors import RenderError
from longpole.reports.page import ON_PAGE_ONE, created
from longpole.reports.prose import sentence
from longpole.reports.render_json import render_json
from longpole.reports.render_pdf import _fetcher, import_weasyprint, render_pdf

try:
    import_weasyprint()
except RenderError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from pypdf import PdfReader
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject

# WeasyPrint 70 leaves the colour profile of PDF/A open until it is collected.
pytestmark = pytest.mark.filterwarnings("ignore:.*sRGB2014.icc:pytest.PytestUnraisableExceptionWarning")

A4_POINTS = (595.28, 841.89)
SHOWN = ["bundle", "diff", "hostile gpu", "jax", "snapshot"]
EVERY_PDF = pytest.mark.parametrize("kind", SHOWN)


class Heard(logging.Handler):
    """Keeps the messages of WeasyPrint, which render_pdf silences for users."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@cache
def rendered(kind: str) -> tuple[bytes, list[str]]:
    """A PDF and what WeasyPrint said meanwhile."""
    logger, heard = logging.getLogger("weasyprint"), Heard()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "setLevel", lambda level: None)
        patch.setattr(logger, "level", logging.WARNING)
        patch.setattr(logger, "handlers", [heard])
        logger.warning("this handler hears what WeasyPrint says")
        return render_pdf(reports()[kind]), heard.messages


def pdf(kind: str) -> bytes:
    return rendered(kind)[0]


@cache
def reader(kind: str) -> PdfReader:
    return PdfReader(io.BytesIO(pdf(kind)))


def words(text: str) -> str:
    """Text without its line breaks and hyphens, so that it can be found wherever it was broken."""
    return re.sub(r"[\s\u202f\u00ad]+", "", text)


@EVERY_PDF
def test_pages_are_a4_and_numbered(kind: str):
    pages = reader(kind).pages
    assert 2 <= len(pages) <= 12
    for number, page in enumerate(pages, 1):
        assert (float(page.mediabox.width), float(page.mediabox.height)) == pytest.approx(A4_POINTS, abs=0.1)
        assert words(f"{number} / {len(pages)}") in words(page.extract_text())


@EVERY_PDF
def test_it_is_tagged_with_a_language_and_a_title(kind: str):
    root = reader(kind).root_object
    assert root["/MarkInfo"]["/Marked"]  # type: ignore[index]
    assert "/StructTreeRoot" in root
    assert root["/Lang"] == "en"
    assert sentence(reports()[kind].verdict.sentence)[:60] in str(reader(kind).metadata.title)  # type: ignore[union-attr]


@EVERY_PDF
def test_every_head_of_a_table_says_what_it_heads(kind: str):
    heads = [thing for thing in objects(reader(kind)) if thing.get("/S") == "/TH"]
    assert heads
    assert {scope(thing) for thing in heads} <= {"/Column", "/Row"}


def scope(head: DictionaryObject) -> object:
    attributes = head["/A"]
    parts = attributes if isinstance(attributes, ArrayObject) else [attributes]
    return next((part.get_object()["/Scope"] for part in parts if "/Scope" in part.get_object()), None)


def objects(source: PdfReader) -> list[DictionaryObject]:
    size = int(source.trailer["/Size"])  # type: ignore[arg-type]
    found = (source.get_object(IndirectObject(number, 0, source)) for number in range(1, size))
    return [thing for thing in found if isinstance(thing, DictionaryObject)]


def test_a_usual_diff_has_two_pages():
    assert len(reader("diff").pages) == 2


@EVERY_PDF
def test_bookmarks_are_the_sections(kind: str):
    report = reports()[kind]
    outline = [str(item.title) for item in reader(kind).outline if not isinstance(item, list)]  # type: ignore[union-attr]
    told = ON_PAGE_ONE if report.kind == "diff" else ()
    titles = [section.title for section in report.sections if section.result is not None and section.name not in told]
    changes = ["What to change, in full"] if report.findings else []
    assert outline == ["Summary", *changes, *titles, "Method and coverage"]


@EVERY_PDF
def test_every_font_is_embedded_and_bundled_where_the_text_is_ours(kind: str):
    fonts = [thing for thing in objects(reader(kind)) if thing.get("/Type") == "/FontDescriptor"]
    assert fonts
    assert all({"/FontFile", "/FontFile2", "/FontFile3"} & thing.keys() for thing in fonts)
    if kind != "hostile gpu":
        names = {re.sub(r"^/[A-Z]{6}\+|[^A-Za-z]", "", str(thing["/FontName"])) for thing in fonts}
        assert all(name.startswith(("Inter", "JetBrains")) for name in names), names


@EVERY_PDF
def test_the_numbers_are_attached_as_the_json_of_the_same_report(kind: str):
    (attached,) = reader(kind).attachments.items()
    assert attached == ("summary.json", [render_json(reports()[kind])])


@EVERY_PDF
def test_page_one_says_the_verdict(kind: str):
    verdict = reports()[kind].verdict
    first = words(reader(kind).pages[0].extract_text())
    assert words(verdict.tag) in first
    for part in (verdict.sentence, verdict.lede):
        assert words(sentence(part))[:60] in first


def test_page_one_of_a_run_lists_the_changes_and_where_they_are_explained():
    report = reports()["bundle"]
    first = words(reader("bundle").pages[0].extract_text())
    for finding in report.findings:
        assert words(sentence(finding.title)) in first
    assert first.count(words("details, p. 2")) == len(report.findings)


@EVERY_PDF
def test_it_is_small(kind: str):
    assert len(pdf(kind)) < 300_000


def test_the_same_report_gives_the_same_bytes_and_the_date_of_the_capture():
    assert render_pdf(reports()["bundle"]) == pdf("bundle")
    metadata = reader("bundle").metadata
    assert metadata is not None
    assert metadata.creation_date == metadata.modification_date == created(reports()["bundle"])
    assert str(metadata.creation_date) == "2026-01-15 10:20:30+00:00"


@EVERY_PDF
def test_weasyprint_warned_of_nothing(kind: str):
    assert rendered(kind)[1] == ["this handler hears what WeasyPrint says"]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://example.org/x",
        "https://example.org/x",
        "chart:other",
        "font:Other",
        "font:../../x",
        "data:,x",
    ],
)
def test_the_renderer_reaches_neither_files_nor_network_nor_unknown_names(url: str):
    with pytest.raises(ValueError, match=r"refused"):
        _fetcher({}).fetch(url)


def test_charts_and_bundled_fonts_are_found_by_name():
    assert _fetcher({}).fetch("font:Inter-Regular")


def without_pango(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where importing weasyprint fails as it does without the library, with the banner that it prints."""
    stub = folder / "stub"
    stub.mkdir()
    banner = 'print("-----\\nWeasyPrint could not import some external libraries.\\n-----")\n'
    (stub / "weasyprint.py").write_text(banner + "raise OSError(\"cannot load library 'libpango-1.0-0'\")\n", encoding="utf-8")
    command = [sys.executable, "-m", "longpole.reports.cli", *arguments]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(stub)}, cwd=folder, capture_output=True, text=True, encoding="utf-8"
    )


def test_without_pango_a_report_is_its_html_and_one_sentence(tmp_path: Path):
    write(tmp_path / "train.json", training())
    done = without_pango(tmp_path, "report", "train.json")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("longpole: no PDF written. A PDF needs the Pango library")
    assert "external libraries" not in done.stdout
    assert (tmp_path / "train.report.html").exists()
    assert not (tmp_path / "train.report.pdf").exists()


def test_without_pango_a_pdf_that_was_asked_for_is_refused_and_nothing_is_written(tmp_path: Path):
    write(tmp_path / "train.json", training())
    done = without_pango(tmp_path, "report", "train.json", "-o", "x.html", "-o", "x.pdf")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("longpole: A PDF needs the Pango library, which this machine lacks: install ")
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stub", "train.json"]
