"""Where does host time go, by the innermost range?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from .. import trace as t
from ..grouping import group_sums
from ..host_tree import HostTree, Launches, thread_offsets
from ..intervals import outer_first
from ..step_marks import step_ranges
from ..trace import Ids, Ints, Trace, TraceWarning

CATEGORY_NAMES = {t.OP: "cpu_op", t.ANNOTATION: "user_annotation", t.PYTHON: "python_function", t.RUNTIME: "runtime call"}
TOLD_NAMES = 1000  # in JSON: names of built-in functions hold addresses, and there can be one for every object
# Opens and closes ranges:
PROFILER_FRAME = re.compile(r"torch[/\\](autograd|profiler)[/\\]profiler\.py|_record_function_(enter|exit)")


@dataclass(frozen=True, eq=False)
class CallTree:
    """Of all threads, over the whole file. Steps are no ranges here.

    `rows`: one per (name, category), by self time: name; category; count; self_ns (while it is the innermost range of its
    thread); self_share (of covered_ns); total_ns (with what is inside; a range inside one of its name counts once); device_ns
    (time of the device work that is launched inside).
    """

    rows: pd.DataFrame
    covered_ns: int  # the sum of self_ns: time in which a range is open, of all threads
    threads_count: int
    has_device: bool
    crossing_ranges: int  # that start inside another range or a step and end more than 1 us after it
    crossing_frames: int  # of these such as record_function and step() make: their frames open or close what they cross

    @property
    def measures(self) -> Mapping[str, Any]:
        """By name, of the TOLD_NAMES names with most self time."""
        by_name = self.rows.groupby("name", sort=False)[["self_ns", "total_ns"]].sum().head(TOLD_NAMES)
        times: dict[str, Any] = {column: by_name[column].to_dict() for column in ("self_ns", "total_ns")}
        return {**times, "crossing_ranges": self.crossing_ranges}

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        count = self.crossing_ranges
        if not count:
            return ()
        message = (
            f"{'1 range starts' if count == 1 else f'{count:,} ranges start'} inside another range or a step and "
            f"end{'s' if count == 1 else ''} after it; each counts once, where it starts, and steps keep their borders."
        )
        return (TraceWarning("crossing_range", count, message, harmless=self.crossing_frames == count),)


def call_tree(trace: Trace) -> CallTree:
    """Self and total time by name and category; MissingData where no range was recorded on the host."""
    host, is_step = trace.host, step_ranges(trace)
    tree = HostTree.of(trace, ~is_step)
    if not len(tree):
        raise MissingData("The trace holds no ranges of the host; capture with CPU activity on.")
    self_ns = tree.self_ns()
    crossing, by_frames = _crossing(trace, tree, np.flatnonzero(is_step))
    return CallTree(
        rows=_rows(trace, tree, self_ns),
        covered_ns=int(self_ns.sum()),
        threads_count=len(np.unique(host.thread[tree.row])),
        has_device=bool(len(trace.device)),
        crossing_ranges=crossing,
        crossing_frames=by_frames,
    )


def _rows(trace: Trace, tree: HostTree, self_ns: Ints) -> pd.DataFrame:
    name_of, names = pd.factorize(np.array(trace.names, object))
    name = name_of.astype(np.int32)[trace.host.name[tree.row]]
    group = name * np.int32(len(CATEGORY_NAMES)) + trace.host.category[tree.row]
    count, outer = len(names) * len(CATEGORY_NAMES), np.flatnonzero(tree.outermost(name))
    start, end, of_outer = tree.start[outer], tree.end[outer], group[outer]
    rows = pd.DataFrame({
        "name": np.repeat(names, len(CATEGORY_NAMES)),
        "category": [*CATEGORY_NAMES.values()] * len(names),
        "count": np.bincount(group, minlength=count),
        "self_ns": group_sums(group, self_ns, count),
        "total_ns": group_sums(of_outer, end - start, count),
        "device_ns": group_sums(of_outer, Launches.of(trace).inside(start, end), count),
    })  # fmt: skip
    rows = rows[rows["count"] > 0].assign(self_share=rows["self_ns"] / max(1, int(self_ns.sum())))
    return rows.sort_values(["self_ns", "total_ns", "name"], ascending=[False, False, True], kind="stable", ignore_index=True)


def _crossing(trace: Trace, tree: HostTree, steps: Ids) -> tuple[int, int]:
    """Ranges that end after the range or step in which they start, and which of them the profiler's own frames make."""
    on_line, is_late = _on_line(trace, steps), tree.late()
    late = np.flatnonzero(is_late)
    crossed = tree.around[late]
    beyond = np.flatnonzero(tree.late_after(*on_line)) if len(steps) else late[:0]
    is_late[beyond] = True
    beyond = np.union1d(beyond, tree.late_together(is_late, *on_line))
    is_frame = np.array([PROFILER_FRAME.search(name) is not None for name in trace.names], bool)[trace.host.name[tree.row]]
    by_frames = np.union1d(late[is_frame[late] | is_frame[crossed]], beyond[is_frame[beyond]])
    return len(np.union1d(late, beyond)), len(by_frames)


def _on_line(trace: Trace, rows: Ids) -> tuple[Ints, Ints]:
    host = trace.host
    rows = rows[outer_first(host.start_ns[rows], host.end_ns[rows], host.thread[rows])]
    offset = thread_offsets(host)[host.thread[rows]]
    return host.start_ns[rows] + offset, host.end_ns[rows] + offset
