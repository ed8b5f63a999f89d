"""One long file, decoded by two processes that take turns chunk by chunk -> what was collected, in the order of the file.

Both cut the text at the same places, for cuts depend on nothing but the text; each decodes every second piece. A piece that does
not decode proves the cut before it wrong, or needs repair: then this way is given up, and the file read by one process.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import msgspec
import numpy as np

from ...capture.errors import BundleError
from ..trace import Ints
from .columns import Collected
from .events import Chunk, Header
from .growing import Columns, Rows
from .reading import Findings, NoEvents, RawBackslashes, Reader, _last_commas
from .streams import File, Progress, Reading, blocks, collector_paused

TABLES = (
    "host", "device", "marks", "memory", "host_arguments", "device_arguments", "mark_arguments", "other", "borders",
    "asynchronous",
)  # fmt: skip
ARGUMENTS_OF = {"host_arguments": "host", "device_arguments": "device", "mark_arguments": "marks"}
INTERNED = ("names", "threads", "processes", "shapes", "values", "categories", "async_keys")
REFERENCES = {  # columns that hold row numbers -> of what
    "name": "names", "thread": "threads", "process": "processes", "shapes": "shapes", "value": "values", "key": "async_keys",
}  # fmt: skip


class _GivenUp(Exception):  # noqa: N818 - a decision
    """A piece does not decode, or has ids that are numbered by their first use: one process must read the file."""


class _Half(Reader):
    """Decodes the pieces whose number has its parity; the others are empty chunks."""

    def __init__(self, name: str, parity: int) -> None:
        super().__init__(name)
        self.parity, self.number = parity, 0

    def _is_mine(self) -> bool:
        self.number += 1
        return self.number % 2 == self.parity

    def _chunk(self, text: bytearray) -> tuple[Chunk | None, bytes]:
        commas = _last_commas(text)
        if not commas:
            raise _GivenUp
        rest = bytes(text[commas[0] + 1 :])
        if not self._is_mine():
            return _NOTHING, rest
        text[commas[0]] = ord("]")
        return self._decoded(memoryview(text)[: commas[0] + 1]), rest

    def _last(self, text: bytearray) -> Iterator[Chunk]:
        whole = self._whole(text)  # small: both read it, for the metadata after it
        if whole is None:
            raise _GivenUp
        yield whole if self._is_mine() else _NOTHING


_NOTHING = Chunk([], np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class Part:
    """What one of the two collected. `sizes`: after each piece, how many rows each table and how many values each list had."""

    header: Header
    collected: Collected
    reading: Reading
    sizes: Ints  # pieces x (TABLES + INTERNED)


def processes_of(count: int) -> ProcessPoolExecutor:
    """Spawned ones on every system: a fork would copy locks and threads in whatever state they are."""
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def read_by_two(file: File, largest_bytes: int, progress: Progress | None) -> Part | None:
    """None where the file must be read by one process: it is damaged, or its writer does not escape."""
    with processes_of(1) as pool:
        other = pool.submit(half, file, largest_bytes, 1)
        mine = half(file, largest_bytes, 0, progress)
        if mine is None:
            other.cancel()
            return None
        theirs = other.result()
    return None if theirs is None else joined(mine, theirs)


def half(file: File, largest_bytes: int, parity: int, progress: Progress | None = None) -> Part | None:
    """Every second piece of the file; None where one does not decode."""
    reading, reader, collected, sizes = Reading(), _Half(file.name, parity), Collected(), list[list[int]]()
    try:
        text = blocks(file, reading, largest_bytes)
        with collector_paused():
            for chunk in reader.chunks(text):
                collected.keep_others = reader.header.schema is None
                reader.judge(collected.add(chunk))
                if collected.large_ids:
                    raise _GivenUp
                sizes.append([len(getattr(collected, name)) for name in (*TABLES, *INTERNED)])
                if progress:
                    progress(reading.read_bytes, file.size_bytes, 2 * collected.total)
            for _ in text:
                pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RawBackslashes, NoEvents, BundleError, _GivenUp):
        return None
    if reader.found != Findings() or reading.damage:
        return None
    return Part(reader.header, collected, reading, np.array(sizes, np.int64))


def joined(first: Part, second: Part) -> Part:
    """The two halves, piece by piece in the order of the file: exactly what one process would have collected."""
    parts, whole = (first, second), Collected()
    sizes = [np.diff(part.sizes, axis=0, prepend=0) for part in parts]
    maps = {name: _interned(whole, [p.collected for p in parts], sizes, name) for name in INTERNED}
    places = {name: _places([size[:, i] for size in sizes]) for i, name in enumerate(TABLES)}
    for name in TABLES:
        tables: list[Columns] = [getattr(part.collected, name) for part in parts]
        for key, column in getattr(whole, name).columns.items():
            values = [table.columns[key].taken() for table in tables]
            if key == "row":
                rows = places[ARGUMENTS_OF[name]]
                values = [row[value] for row, value in zip(rows, values, strict=True)]
            reference = "categories" if key == "category" and name in ("other", "borders") else REFERENCES.get(key)
            if reference and not (key == "key" and name != "asynchronous"):
                values = [_mapped(maps[reference][i], value) for i, value in enumerate(values)]
            column.extend(_placed(values, places[name]), sum(map(len, values)))
    _add_up(whole, [part.collected for part in parts], maps["categories"])
    return Part(first.header, whole, first.reading, first.sizes)


def _interned(whole: Collected, parts: Sequence[Collected], sizes: Sequence[Ints], name: str) -> list[Ints]:
    """Values by their first use in the file; for each part the new number of each old one."""
    column = (*TABLES, *INTERNED).index(name)
    rows: Rows[Any] = getattr(whole, name)
    values = [list(getattr(part, name)) for part in parts]
    taken = [0, 0]
    for piece in range(len(sizes[0])):
        for i, size in enumerate(sizes):
            for value in values[i][taken[i] : taken[i] + size[piece, column]]:
                rows.setdefault(value, len(rows))
            taken[i] += int(size[piece, column])
    return [np.array([rows[value] for value in own], np.int64) for own in values]


def _mapped(new: Ints, old: Any) -> Any:
    """Row numbers, of which -1 is none."""
    return np.where(old < 0, old, new[np.maximum(old, 0)]).astype(old.dtype) if len(new) else old


def _places(counts: Sequence[Ints]) -> list[Ints]:
    """For each part the rows of the whole table that its rows become."""
    starts = np.cumsum(counts[0] + counts[1]) - (counts[0] + counts[1])
    found = []
    for before, count in ((np.zeros_like(starts), counts[0]), (counts[0], counts[1])):
        own = np.cumsum(count) - count
        found.append(np.arange(int(count.sum())) + np.repeat(starts + before - own, count))
    return found


def _placed(values: Sequence[Any], places: Sequence[Ints]) -> Any:
    dtype = max((value.dtype for value in values), key=lambda kind: kind.itemsize)
    column = np.empty(sum(map(len, values)), dtype)
    for value, place in zip(values, places, strict=True):
        column[place] = value
    return column


def _add_up(whole: Collected, parts: Sequence[Collected], categories: Sequence[Ints]) -> None:
    whole.learn_kinds()
    for part, new in zip(parts, categories, strict=True):
        np.add.at(whole.events_of, new, part.events_of)
        whole.without_category += part.without_category
        whole.trouble += part.trouble
        whole.total += part.total
        whole.repaired += part.repaired
        whole.process_names |= part.process_names
        if part.profiler_start_ns is not None:
            whole.profiler_start_ns = part.profiler_start_ns
