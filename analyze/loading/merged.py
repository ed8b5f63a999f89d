"""A file into which several ranks were merged -> the tables of each.

Whoever merges puts the rank before the process, `[TP01] 83` or `rank1 83`, and leaves correlations, External ids and devices
as they were: they say what belongs together only within one rank.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from .. import trace as t
from ..trace import Ids, Ints, Mask

PREFIX = re.compile(r"\s*(?:\[([^\[\]]+)\]|(rank[\s_-]*\d+)\b)", re.IGNORECASE)
DIGITS = re.compile(r"(\d+)")
_Ranges = TypeVar("_Ranges", t.HostRanges, t.DeviceRanges)


@dataclass(frozen=True, eq=False)
class Tables:
    """What a file holds, or one rank of it."""

    host: t.HostRanges
    device: t.DeviceRanges
    marks: t.DeviceRanges
    allocations: t.Allocations
    host_arguments: t.Arguments
    device_arguments: t.Arguments
    mark_arguments: t.Arguments
    slices: t.Slices

    @property
    def rows_count(self) -> int:
        return len(self.host) + len(self.device) + len(self.marks) + len(self.allocations) + len(self.slices)


def tables_by_rank(
    tables: Tables, threads: Sequence[tuple[str, str]], processes: Sequence[Any], of_device: Ids, of_marks: Ids
) -> dict[str, Tables]:
    """By the name of the rank, TP2 before TP10, then what names none; a file of one rank is all under an empty name.

    `processes`: those of device rows; `of_device`, `of_marks`: for each row which of them, or -1.
    """
    ranks = sorted({prefix for name in (*(pid for pid, _ in threads), *processes) if (prefix := prefix_of(name))}, key=_natural)
    if len(ranks) < 2:
        return {"": tables}
    place = {rank: number for number, rank in enumerate([*ranks, ""])}
    of_threads = np.array([place[prefix_of(pid)] for pid, _ in threads], np.int16)
    of_processes = np.array([place[prefix_of(name)] for name in processes] + [place[""]], np.int16)  # the last is that of -1
    owners = (
        of_threads[tables.host.thread], of_processes[of_device], of_processes[of_marks], of_threads[tables.allocations.thread],
    )  # fmt: skip
    return {rank: _of_rank(tables, *(owner == number for owner in owners)) for rank, number in place.items()}


def numbers(ranks: Sequence[str]) -> list[int | None]:
    """`TP00`, `rank3` -> 0, 3; None for all unless each holds one number, and no two the same: TP00-DP01 says no rank."""
    digits = [DIGITS.findall(rank) for rank in ranks]
    found = [int(of[0]) if len(of) == 1 else None for of in digits]
    return [None] * len(ranks) if None in found or len(set(found)) < len(found) else found


def kept(table: _Ranges, arguments: t.Arguments, mask: Mask) -> tuple[_Ranges, t.Arguments]:
    """The rows to keep and the arguments of those, by their new numbers."""
    if mask.all():
        return table, arguments
    arguments = arguments[mask[arguments.row]]
    return table[_rows(mask)], replace(arguments, row=(np.cumsum(mask) - 1)[arguments.row])


def _of_rank(tables: Tables, host: Mask, device: Mask, marks: Mask, allocations: Mask) -> Tables:
    own_host, host_arguments = kept(tables.host, tables.host_arguments, host)
    own_device, device_arguments = kept(tables.device, tables.device_arguments, device)
    own_marks, mark_arguments = kept(tables.marks, tables.mark_arguments, marks)
    return replace(
        tables,
        host=own_host,
        device=own_device,
        marks=own_marks,
        allocations=tables.allocations[_rows(allocations)],
        host_arguments=host_arguments,
        device_arguments=device_arguments,
        mark_arguments=mark_arguments,
    )


def _rows(mask: Mask) -> Ints | slice:
    """Where it is true; as a slice, which copies nothing, where a rank's events stand together."""
    rows = np.flatnonzero(mask)
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def prefix_of(process: Any) -> str:
    """`[TP01] 83` -> `TP01`; empty where a process is of no rank."""
    found = PREFIX.match(process) if isinstance(process, str) else None
    return (found[1] or found[2]).strip() if found else ""


def _natural(rank: str) -> list[tuple[int, str]]:
    """TP2 before TP10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in DIGITS.split(rank)]
