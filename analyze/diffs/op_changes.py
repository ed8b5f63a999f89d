"""Which operators and kernels changed?"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..short_names import short_names
from ..step_time import OUTSIDE, OUTSIDE_LABEL, step_time
from ..trace import Trace
from .launched_work import NO_OP, LaunchedWork, launched_work
from .matched_changes import listed, matched_changes
from .sides import Side, compared

MOST_KERNELS = 1  # of those that came or went, named in a table
KERNEL_LENGTH = 48


@dataclass(frozen=True, eq=False)
class OpChanges:
    """Rows of all three as in `matched_changes`, per step.

    `ops`: self time by operator; the changes add up to that of the step.
    `kernels`: device work by name, of the steps that launched it, and before_count, after_count (how often), short_name (no two
    alike). No rows without a GPU.
    `device`: the same work by the innermost operator around its launch that both recordings have, and kernels_removed,
    kernels_added (tuples of full names, the most time first), replaced (these in short, or empty).
    `before_outside_ns`, `after_outside_ns`: device work of which the file tells no counted step that launched it.
    """

    ops: pd.DataFrame
    kernels: pd.DataFrame
    device: pd.DataFrame
    before_outside_ns: int
    after_outside_ns: int

    @property
    def owned(self) -> bool:
        """Whether any device work is known to be for an operator."""
        return bool((self.device["name"] != NO_OP).any())


def op_changes(before: Side, after: Side) -> OpChanges:
    """Compare self time of operators, and time of device work by name and by operator."""
    before, after = compared(before), compared(after)
    old, new = ([launched_work(trace) for trace in side] for side in (before, after))
    return OpChanges(
        ops=matched_changes([op_times(trace) for trace in before], [op_times(trace) for trace in after]),
        kernels=_kernels(old, new),
        device=_device(old, new),
        before_outside_ns=sum(work.outside_ns for work in old),
        after_outside_ns=sum(work.outside_ns for work in new),
    )


def op_times(trace: Trace) -> pd.DataFrame:
    """A row for each counted step, a column for each operator or runtime call: self time on the step's thread."""
    return step_time(trace).per_step("name").rename(columns={OUTSIDE: OUTSIDE_LABEL})


def _kernels(old: Sequence[LaunchedWork], new: Sequence[LaunchedWork]) -> pd.DataFrame:
    rows = matched_changes([work.times for work in old], [work.times for work in new])
    short = short_names([*rows["name"]])
    named = (rows["names_before"].map(len) > 0) | (rows["names_after"].map(len) > 0)  # what is smaller than all rows is not
    return rows.assign(
        before_count=pd.Series(_counts(old, rows["names_before"]), dtype=float).where(named),
        after_count=pd.Series(_counts(new, rows["names_after"]), dtype=float).where(named),
        short_name=rows["name"].map(short),
    )


def _counts(runs: Sequence[LaunchedWork], names: Iterable[Sequence[str]]) -> list[float]:
    """Of the names of each row, how often a step runs them, the mean of all runs."""
    means = [work.counts.mean().to_dict() for work in runs]
    return [sum(mean.get(name, 0.0) for mean in means for name in own) / len(runs) for own in names]


def _device(old: Sequence[LaunchedWork], new: Sequence[LaunchedWork]) -> pd.DataFrame:
    known_before, known_after = (set().union(*(work.op_names for work in side)) for side in (old, new))
    ops = [work.ops(known_after) for work in old], [work.ops(known_before) for work in new]
    sides = [list(zip(side, names, strict=True)) for side, names in zip((old, new), ops, strict=True)]
    times = [[work.op_times(names) for work, names in side] for side in sides]
    rows = matched_changes(times[0], times[1])
    befores, afters = ([work.kernels_of(names) for work, names in side] for side in sides)
    pairs = [
        (_merged(befores, names_before), _merged(afters, names_after))
        for names_before, names_after in zip(rows["names_before"], rows["names_after"], strict=True)
    ]
    removed = [tuple(name for name in a if name not in b) for a, b in pairs]
    added = [tuple(name for name in b if name not in a) for a, b in pairs]
    short = short_names([name for names in (*removed, *added) for name in names])
    return rows.assign(
        kernels_removed=pd.Series(removed, dtype=object),
        kernels_added=pd.Series(added, dtype=object),
        replaced=[_replaced([short[n] for n in a], [short[n] for n in b]) for a, b in zip(removed, added, strict=True)],
    )


def _merged(kernels: Sequence[Mapping[str, Mapping[str, int]]], ops: Sequence[str]) -> list[str]:
    """Kernels of all these operators in all runs, the most time first."""
    total = Counter[str]()
    for of_run in kernels:
        for op in ops:
            total.update(of_run.get(op, {}))
    return [name for name, _ in total.most_common()]


def _replaced(removed: Sequence[str], added: Sequence[str]) -> str:
    gone, new = (listed([_cut(name) for name in names], MOST_KERNELS) for names in (removed, added))
    return f"{gone} → {new}" if gone and new else f"gone: {gone}" if gone else f"new: {new}" if new else ""


def _cut(name: str) -> str:
    return name if len(name) <= KERNEL_LENGTH else f"{name[: KERNEL_LENGTH - 1]}…"
