"""Report -> the JSON that tools read."""

import json

from .diff_json import difference
from .model import Report
from .run_json import summary


def render_json(report: Report) -> bytes:
    """Indented UTF-8 JSON; never NaN or infinity."""
    content = summary(report) if report.kind == "run" else difference(report)
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
