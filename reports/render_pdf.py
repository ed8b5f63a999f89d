"""Report -> tagged A4 PDF, as bytes. WeasyPrint is imported here and only when a PDF is asked for."""

import contextlib
import io
import logging
import platform
from datetime import UTC, datetime
from typing import Any

from ..capture.errors import RenderError
from .charts import Chart
from .model import Report
from .page import FONTS, created, file_of, page, pdf_style
from .render_json import render_json
from .svg import PDF

VARIANT = "pdf/a-3a"  # tagged, fonts embedded, attachments allowed
DIFF_PAGES = 2  # a print that a reviewer reads
DIFF_ROWS = (5, 3, 2)  # of each table of a diff in print; whole tables are in the JSON
INSTALL = {
    "Linux": "`apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0` (or the same of your distribution)",
    "Darwin": "`brew install pango`",
    "Windows": "MSYS2 and its package mingw-w64-ucrt-x86_64-pango",
}


def render_pdf(report: Report) -> bytes:
    """The same page as the HTML, set for paper; the numbers are attached as JSON. RenderError without Pango."""
    return _written(
        _laid_out_short(report) if report.kind == "diff" else _laid_out(*page(report, PDF)), created(report), render_json(report)
    )


def pdf_of(text: str, charts: dict[str, Chart], when: datetime | None, json: bytes) -> bytes:
    """A page, its charts, when what it tells was captured, and the numbers to attach -> the file. RenderError without Pango."""
    return _written(_laid_out(text, charts), when, json)


def _laid_out_short(report: Report) -> Any:
    """With as many rows a table as fit on two pages, and the fewest where none do."""
    for rows in DIFF_ROWS:
        document = _laid_out(*page(report, PDF, rows))
        if len(document.pages) <= DIFF_PAGES or rows == DIFF_ROWS[-1]:
            return document
    raise AssertionError("there is a last number of rows")


def _laid_out(text: str, charts: dict[str, Chart]) -> Any:
    """WeasyPrint's document."""
    weasyprint = import_weasyprint()
    fetcher = _fetcher(charts)
    fonts = weasyprint.text.fonts.FontConfiguration()
    style = weasyprint.CSS(string=pdf_style(), font_config=fonts, url_fetcher=fetcher)
    html = weasyprint.HTML(string=text, url_fetcher=fetcher, base_url="report:/")
    return html.render(stylesheets=[style], font_config=fonts, pdf_variant=VARIANT)


def _written(document: Any, when: datetime | None, json: bytes) -> bytes:
    """The file, with the numbers attached."""
    weasyprint = import_weasyprint()
    when = when or datetime.fromtimestamp(0, UTC)  # the default would be now
    numbers = weasyprint.Attachment(
        string=json, name="summary.json", description="All numbers of this report",
        created=when, modified=when, relationship="Data",
    )  # fmt: skip
    return document.write_pdf(attachments=[numbers], pdf_variant=VARIANT, finisher=_add_scopes)


def import_weasyprint() -> Any:
    """The module; RenderError with what to install where Pango is missing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            import weasyprint
            import weasyprint.text.fonts
    except (ImportError, OSError) as missing:  # OSError: a system library of Pango
        install = INSTALL.get(platform.system(), "Pango")
        raise RenderError(
            f"A PDF needs the Pango library, which this machine lacks: install {install}, or write HTML and print it."
        ) from missing
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    return weasyprint


def _fetcher(charts: dict[str, Chart]) -> Any:
    """Only charts and bundled fonts: the renderer reaches neither network nor files."""
    from weasyprint.urls import URLFetcher, URLFetcherResponse

    class OwnFiles(URLFetcher):
        def fetch(self, url: str, headers: Any = None) -> URLFetcherResponse:
            scheme, _, name = url.partition(":")
            if scheme == "chart" and name in charts:
                return URLFetcherResponse(url, charts[name].svg.encode("utf-8"), {"Content-Type": "image/svg+xml"})
            if scheme == "font" and name in {file for _, _, file in FONTS}:
                return URLFetcherResponse(url, file_of(f"fonts/{name}.subset.woff2"), {"Content-Type": "font/woff2"})
            raise ValueError(f"refused: {url}")

    return OwnFiles()


def _add_scopes(document: Any, pdf: Any) -> None:
    """WeasyPrint 70 links cells to their heads by id but writes no Scope, which screen readers want."""
    for thing in pdf.objects:
        if isinstance(thing, dict) and thing.get("S") == "/TH" and "ID" in thing:
            thing["A"]["Scope"] = "/Column" if thing["ID"].string.split("-")[1] == "0" else "/Row"
