"""Several ranks merged into one file -> ids that no two of them share, so that nothing is linked across ranks.

Whoever merges puts the rank before the process, `[TP01] 83` or `rank1 83`, and leaves correlations, External ids and devices
as they were.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .. import trace as t
from ..trace import Ids

PREFIX = re.compile(r"\s*(?:\[([^\[\]]+)\]|(rank[\s_-]*\d+)\b)", re.IGNORECASE)
DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, eq=False)
class Parts:
    """The tables of a file with what tells its ranks apart."""

    host: t.HostRanges
    device: t.DeviceRanges
    marks: t.DeviceRanges
    ranks: tuple[str, ...] = ()  # empty where the file holds one
    device_names: Mapping[int, str] = field(default_factory=dict)

    def told_apart(self, threads: Sequence[tuple[str, str]], processes: Sequence[Any], device: Ids, marks: Ids) -> Self:
        """`processes`: those of device rows; `device`, `marks`: for each row which of them, or -1. Unchanged for one rank."""
        prefixes = {prefix for name in (*(pid for pid, _ in threads), *processes) if (prefix := _prefix(name))}
        if len(prefixes) < 2:
            return self
        ranks = tuple(sorted(prefixes, key=_natural))
        place = {rank: number for number, rank in enumerate(("", *ranks))}
        of_threads = np.array([place[_prefix(pid)] for pid, _ in threads], np.int64)
        of_processes = np.array([place[_prefix(name)] for name in processes] + [0], np.int64)  # the last is that of -1
        owners = [of_threads[self.host.thread], of_processes[device], of_processes[marks]]
        return replace(self._renumbered(owners), ranks=ranks)._with_devices(("", *ranks), owners[1:])

    def _renumbered(self, owners: list[Ids]) -> Self:
        host, device, marks = self.host, self.device, self.marks
        external = _unique([part.external_id for part in (host, device, marks)], owners, lowest=1)
        correlation = _unique([part.correlation for part in (host, device, marks)], owners, lowest=1)
        (sequence,) = _unique([host.sequence], owners[:1], lowest=0)
        return replace(
            self,
            host=replace(host, external_id=external[0], correlation=correlation[0], sequence=sequence),
            device=replace(device, external_id=external[1], correlation=correlation[1]),
            marks=replace(marks, external_id=external[2], correlation=correlation[2]),
        )

    def _with_devices(self, ranks: Sequence[str], owners: list[Ids]) -> Self:
        """Devices numbered from 0 in the order of (rank, device)."""
        tables = (self.device, self.marks)
        span = max((int(table.device.max(initial=0)) for table in tables), default=0) + 1
        keys = [owner * span + np.maximum(table.device, 0) for owner, table in zip(owners, tables, strict=True)]
        known = np.unique(np.concatenate(keys))
        device, marks = (
            replace(table, device=np.where(table.device < 0, -1, np.searchsorted(known, key)))
            for table, key in zip(tables, keys, strict=True)
        )
        names = {row: f"{ranks[key // span]} GPU {key % span}".strip() for row, key in enumerate(known.tolist())}
        return replace(self, device=device, marks=marks, device_names=names)


def _prefix(process: Any) -> str:
    """`[TP01] 83` -> `TP01`; empty where a process is of no rank."""
    found = PREFIX.match(process) if isinstance(process, str) else None
    return (found[1] or found[2]).strip() if found else ""


def _natural(rank: str) -> list[tuple[int, str]]:
    """TP2 before TP10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in DIGITS.split(rank)]


def _unique(ids: list[Ids], owners: list[Ids], lowest: int) -> list[Any]:
    """Other ids, told apart by their owners; what is below `lowest` is none and stays."""
    known = np.unique(np.concatenate(ids))
    return [
        np.where(own < lowest, own, np.searchsorted(known, own) + owner * len(known) + 1)
        for own, owner in zip(ids, owners, strict=True)
    ]
