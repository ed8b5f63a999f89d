"""Report -> one self-contained HTML file, as bytes."""

from .model import Report
from .page import page
from .svg import HTML


def render_html(report: Report) -> bytes:
    """Light and dark, phone and desk; nothing is fetched, and no script is needed to read it."""
    text, _ = page(report, HTML)
    return text.encode("utf-8")
