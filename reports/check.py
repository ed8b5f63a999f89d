"""Gate -> what `longpole check` prints: a line for each metric, JSON, Markdown for a pull request, JUnit for CI."""

import json
from xml.etree import ElementTree

from ..analyze.gate import (
    CANNOT_TELL,
    FAILED,
    NOT_COMPARABLE,
    NOT_RECORDED,
    PASSED,
    TOO_FEW_STEPS,
    UNSURE,
    Gate,
    Row,
)
from ..analyze.measured import DEVICE_MEMORY, HOST_MEMORY, STEP, UNPROFILED, MeasuredRun
from . import formats as f
from .measures import Json, pct, us
from .render_markdown import escaped
from .svg import clean

SCHEMA = "longpole.check/1"
LABELS = {
    STEP: "step", UNPROFILED: "step without profiler", DEVICE_MEMORY: "peak memory of GPUs",
    HOST_MEMORY: "peak memory of the host", "gpu_busy_us": "GPU busy", "gpu_idle_us": "GPU idle", "compute_us": "GPU computing",
    "comm_exposed_us": "exposed communication", "copy_exposed_us": "exposed copies", "kernel_count": "kernels",
}  # fmt: skip
HEADLINES = {
    PASSED: "Passed: nothing is worse by more than its limit",
    FAILED: "Failed: worse by more than the limit",
    NOT_COMPARABLE: "Not comparable",
    CANNOT_TELL: "Cannot be told",
}
ONE_RUN = "One run a side: how much two runs of the same program differ is not known; name several runs a side to count that in."
PRINTED = {"ns": f.time, "bytes": f.size, "count": f.count}


def check_text(found: Gate) -> str:
    """One line a metric, after the headline and before what one should know of it."""
    rows = [(row.outcome.replace("_", " "), label(row), told_of(row)) for row in found.rows]
    widths = [max((len(cells[column]) for cells in rows), default=0) for column in range(2)]
    lines = [f"{word:<{widths[0]}}  {name:<{widths[1]}}  {text}" for word, name, text in rows]
    return "\n".join(map(clean, [headline(found) + ".", *lines, *notes(found)]))


def headline(found: Gate) -> str:
    """The outcome, and of what failed the names."""
    text = HEADLINES[found.outcome]
    if found.outcome == FAILED:
        return f"{text}: {', '.join(label(row) for row in found.rows if row.outcome == FAILED)}"
    if found.outcome == NOT_COMPARABLE:
        return f"{text}: {'; '.join(found.comparability.reasons)}"
    if found.outcome == CANNOT_TELL:
        return f"{text}: {', '.join(f'{label(row)} ({WHY[row.outcome]})' for row in found.rows if row.open)}"
    return text


WHY = {TOO_FEW_STEPS: "too few steps", NOT_RECORDED: "not recorded on both sides"}


def label(row: Row) -> str:
    return LABELS.get(row.metric, row.metric)


def told_of(row: Row) -> str:
    """Means before and after, the change with its interval, and the limit."""
    if row.before is None or row.after is None or row.change is None:
        return f"{WHY[NOT_RECORDED]}; limit {row.limit.text}"
    show = PRINTED[row.unit]
    share = f" ({f.share(row.change_share, sign=True)})" if row.change_share is not None else ""
    reach = f", 95{f.NARROW}% {_change(row, row.interval.low)} to {_change(row, row.interval.high)}" if row.interval else ""
    few = f", {WHY[TOO_FEW_STEPS]}" if row.outcome == TOO_FEW_STEPS else ""
    return f"{show(row.before)} → {show(row.after)}{share}{reach}{few}; limit {row.limit.text}"


def _change(row: Row, value: float) -> str:
    """An end of the interval, in per cent of the mean before where there is one."""
    return f.share(value / row.before, sign=True) if row.before else PRINTED[row.unit](value, sign=True)


def notes(found: Gate) -> list[str]:
    """What a reader should know of the figures."""
    lines = []
    if found.comparability.reasons and found.anyway:
        lines.append(f"Compared although these differ: {'; '.join(found.comparability.reasons)}.")
    if found.rows and any(row.outcome == UNSURE for row in found.rows):
        lines.append("Unsure: not shown to be worse than the limit, yet it may be; more steps or runs would tell.")
    if found.rows and not found.by_runs:
        lines.append(ONE_RUN)
    return lines


def check_json(found: Gate) -> str:
    """One object; times are microseconds per step."""
    whole: Json = {
        "schema": SCHEMA,
        "outcome": found.outcome,
        "comparable": {"comparable": found.comparability.comparable, "reasons": found.comparability.reasons},
        "compared_anyway": found.anyway,
        "unit": "runs" if found.by_runs else "steps",
        "before": [_run(run) for run in found.before],
        "after": [_run(run) for run in found.after],
        "metrics": [_row_json(row) for row in found.rows],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def _run(run: MeasuredRun) -> Json:
    steps = run.metrics.get(STEP)
    return {
        "name": run.name, "captured_at": run.captured_at, "commit": run.commit,
        "steps": 0 if steps is None else len(steps.values), "sha256": list(run.sha256),
    }  # fmt: skip


def _row_json(row: Row) -> Json:
    def value(amount: float | None) -> float | int | None:
        if amount is None:
            return None
        return us(amount) if row.unit == "ns" else round(amount, 3)

    return {
        "name": row.metric, "unit": "us" if row.unit == "ns" else row.unit, "outcome": row.outcome,
        "before": value(row.before), "after": value(row.after), "change": value(row.change),
        "change_pct": None if row.change_share is None else pct(row.change_share),
        "ci_low": value(row.interval and row.interval.low), "ci_high": value(row.interval and row.interval.high),
        "limit": row.limit.text,
    }  # fmt: skip


def check_markdown(found: Gate) -> str:
    """For a comment on a pull request."""
    head = f"### longpole: {escaped(headline(found))}"
    rows = [[label(row), *_cells(row), row.limit.text, row.outcome.replace("_", " ")] for row in found.rows]
    table = [["Per step", "Before", "After", "Change", "95\u202f% interval", "Limit", ""], ["---"] * 7, *rows]
    lines = ["| " + " | ".join(escaped(cell) if number > 1 else cell for cell in row) + " |" for number, row in enumerate(table)]
    return (
        "\n\n".join([head, *(["\n".join(lines)] if rows else []), *(f"<sub>{escaped(note)}</sub>" for note in notes(found))])
        + "\n"
    )


def _cells(row: Row) -> list[str]:
    if row.before is None or row.after is None:
        return [f.UNKNOWN] * 4
    show = PRINTED[row.unit]
    reach = f"{_change(row, row.interval.low)} to {_change(row, row.interval.high)}" if row.interval else f.UNKNOWN
    return [show(row.before), show(row.after), _change(row, row.after - row.before), reach]


def check_junit(found: Gate) -> str:
    """A test case for each metric: failures fail, what cannot be told is an error."""
    failed, open_ = sum(row.outcome == FAILED for row in found.rows), sum(row.open for row in found.rows)
    errors = open_ + (found.outcome == NOT_COMPARABLE)
    suite = ElementTree.Element(
        "testsuite", name="longpole check", tests=str(len(found.rows) or 1), failures=str(failed), errors=str(errors)
    )  # fmt: skip
    for row in found.rows:
        case = ElementTree.SubElement(suite, "testcase", classname="longpole.check", name=clean(label(row)))
        kind = "failure" if row.outcome == FAILED else "error" if row.open else "skipped" if row.outcome == NOT_RECORDED else None
        if kind:
            ElementTree.SubElement(case, kind, message=clean(told_of(row)))
    if not found.rows:
        case = ElementTree.SubElement(suite, "testcase", classname="longpole.check", name="comparable")
        ElementTree.SubElement(case, "error", message=clean(headline(found)))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


FORMS = {"text": check_text, "json": check_json, "markdown": check_markdown, "junit": check_junit}
STATUS = {PASSED: 0, FAILED: 1, NOT_COMPARABLE: 3, CANNOT_TELL: 3}  # of the process; 2 is a usage error, 4 an unreadable input
