"""HistoryReport -> the lines of its table: a run each, and between them, in words, what changes and what breaks the history.

Of many runs those beside changes and breaks are shown, and the last ones; JSON and CSV have all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...analyze.change_points import ChangePoint, Drift
from ...analyze.history import Break, History, HistoryRun
from ...analyze.history_verdict import COMMIT_LENGTH
from ...analyze.measured import DEVICE_MEMORY, STEP
from .. import formats as f
from ..svg import clean, shortened
from ..tables import Head, clipped


@dataclass(frozen=True)
class Line:
    """A run's cells, or words across all columns; `tone`: good, bad or dim."""

    cells: tuple[str, ...] = ()
    words: str = ""
    tone: str = "dim"


@dataclass(frozen=True)
class HistoryTable:
    """`heads` of the cells; columns that no run tells are left out."""

    heads: tuple[Head, ...]
    lines: tuple[Line, ...]


NAME_LENGTH = 60  # in a table; JSON and CSV have the whole name
ONE_UNIT = 100  # times the shortest step: in the unit of a longer one it would lose its digits
NUMBER, RUN, CAPTURED, COMMIT, STEPS, REACH = "#", "Run", "Captured, UTC", "Commit", "Steps", "95\u202f% interval"


def history_table(found: History, most: int) -> HistoryTable:
    """At most so many runs."""
    columns = {Head(NUMBER, True): [str(row + 1) for row in range(len(found.runs))]} | {
        head: cells for head, cells in _columns(found).items() if any(cell != f.UNKNOWN for cell in cells)
    }
    rows = list(zip(*columns.values(), strict=True))
    return HistoryTable(tuple(columns), tuple(_lines(found, rows, shown_rows(found, most))))


def _unit(found: History) -> f.Unit | None:
    """With a digit more than a single number has, for runs differ by few per cent; None where each needs its own."""
    steps = [run.step_ns for run in found.runs]
    if max(steps) > ONE_UNIT * min(steps):
        return None
    unit = f.choose_unit(max(steps))
    return replace(unit, decimals=unit.decimals + 1)


def _columns(found: History) -> Mapping[Head, list[str]]:
    runs, unit = found.runs, _unit(found)
    whose, of_unit = "GPUs" if found.memory == DEVICE_MEMORY else "host", f", {unit.name}" if unit else ""
    return {
        Head(RUN, False): [shortened(clean(run.name), NAME_LENGTH) for run in runs],
        Head(CAPTURED, False): [captured(run) for run in runs],
        Head(COMMIT, False): [clipped(run.commit)[:COMMIT_LENGTH] if run.commit else f.UNKNOWN for run in runs],
        Head(STEPS, True): [f.count(run.steps_count) for run in runs],
        Head(f"Step{of_unit}", True): [_time(run.step_ns, unit) for run in runs],
        Head(REACH, True): [_reach(run, unit) for run in runs],
        Head(f"Unprofiled{of_unit}", True): [_time(run.unprofiled_ns, unit) for run in runs],
        Head(f"Peak of {whose}", True): [f.UNKNOWN if run.peak_bytes is None else f.size(run.peak_bytes) for run in runs],
    }


def _time(ns: float | None, unit: f.Unit | None) -> str:
    if ns is None:
        return f.UNKNOWN
    return f.number(ns / unit.ns_per_unit, unit.decimals) if unit else f.time(ns)


def _reach(run: HistoryRun, unit: f.Unit | None) -> str:
    return f"{_time(run.interval.low, unit)} to {_time(run.interval.high, unit)}" if run.interval else f.UNKNOWN


def captured(run: HistoryRun) -> str:
    """To the minute, UTC; as it stands where it is no time."""
    if run.captured_at is None:
        return f.UNKNOWN
    try:
        moment = datetime.fromisoformat(run.captured_at)
    except ValueError:
        return clipped(run.captured_at)
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M")


def shown_rows(found: History, most: int) -> list[int]:
    """Of many runs those beside changes, then those beside breaks, then the last ones and the first."""
    count = len(found.runs)
    if count <= most:
        return list(range(count))
    borders = [*(point.at for point in reversed(found.changes.points)), *(broken.at for broken in reversed(found.breaks))]
    wanted = [count - 1, 0, *(row for at in borders for row in (at - 1, at)), *range(count - 2, 0, -1)]
    return sorted(list(dict.fromkeys(wanted))[:most])


def _lines(found: History, rows: Sequence[tuple[str, ...]], shown: Sequence[int]) -> Iterator[Line]:
    last = -1
    for row in shown:
        if row > last + 1:
            hidden = row - last - 1
            yield Line(words=f"… {f.count(hidden)} more {'run' if hidden == 1 else 'runs'}; JSON and CSV have all")
        else:
            yield from _between(found, row)
        yield Line(cells=rows[row], tone="")
        last = row


def _between(found: History, row: int) -> Iterator[Line]:
    yield from (break_line(broken) for broken in found.breaks if broken.at == row)
    yield from (point_line(found, point) for point in found.changes.points if point.at == row)
    yield from (drift_line(drift) for drift in found.drifts if drift.first == row)


def point_line(found: History, point: ChangePoint) -> Line:
    what = "Step" if point.metric == STEP else "Peak memory"
    reach = [f.share(end, sign=True) for end in (point.interval.low, point.interval.high)] if point.interval else []
    shown = f" ({reach[0]} to {reach[1]})" if len(set(reach)) > 1 else ""
    words = f"{what} {f.share(point.change_share, sign=True)}{shown}, p = {f.chance(point.chance)}"
    return Line(words=words, tone="bad" if point.change_share > 0 else "good")


def break_line(broken: Break) -> Line:
    return Line(words=f"Not comparable: {clipped('; '.join(broken.reasons))}")


def drift_line(drift: Drift) -> Line:
    words = f"Step drifts by {f.share(drift.change_share, sign=True)} in the runs that follow, p = {f.chance(drift.chance)}"
    return Line(words=words, tone="bad" if drift.change_share > 0 else "good")
