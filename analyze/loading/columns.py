"""Chunks of events -> columns of host ranges, device work, allocations and what else they tell, in the order of the file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import astuple

from .. import trace as t
from ..trace import Ids, Ints, Mask
from .arguments import (
    DEVICE_TEXTS,
    KEY_ROWS,
    LINKS,
    MARK_TEXTS,
    OP_TEXTS,
    CallArgs,
    DeviceArgs,
    LabelArgs,
    MemoryArgs,
    OpArgs,
    number,
    typed,
)
from .events import MISSING, Chunk, Event
from .growing import Columns, Rows
from .kinds import DEVICE, HOST, INSTANT, MARKS, NO_KIND, OLD_CATEGORIES, SPAN, kind_of
from .known import CATEGORIES, FIRST_FLOW

BEGINS, ENDS, ASYNC_BEGINS, ASYNC_ENDS = "B", "E", "bS", "eF"
MEMORY = "[memory]"
LARGE_ID = 2**62  # half of what fits int64: the other half stands for ids beyond it
X = ord("X")
OP_LIKE = np.isin(np.arange(5), (t.OP, t.ANNOTATION))  # by category: whose arguments are OpArgs
CALL_LIKE = np.isin(np.arange(5), (t.RUNTIME, t.OVERHEAD))
_RANGE = {"start_ns": np.int64, "end_ns": np.int64, "name": np.int32, "category": np.int8}
_Args = TypeVar("_Args", OpArgs, CallArgs, DeviceArgs, MemoryArgs, LabelArgs)
_IDS = ("external_id", "correlation", "sequence", "forward_thread", "shapes")
_ARGUMENTS = {"row": np.int32, "key": np.int8, "value": np.int32}


class Collected:
    """Everything that the events of one file hold, column by column."""

    def __init__(self) -> None:
        self.names: Rows[str] = Rows()
        self.threads: Rows[tuple[Any, Any]] = Rows()  # (process, thread) as in the file; the same one may be text and number
        self.processes: Rows[Any] = Rows()  # of device rows, where processes are texts
        self.shapes: Rows[bytes] = Rows()
        self.values: Rows[bytes] = Rows()
        self.categories: Rows[str | None] = Rows()
        # By row of categories: its table, its category there, whether its ids are spelled the old way.
        self.kinds = np.empty((0, 3), np.int8)
        ids = {"external_id": np.int32, "correlation": np.int32}
        self.host = Columns(
            **_RANGE, thread=np.int32, **ids, sequence=np.int32, forward_thread=np.int16, shapes=np.int32, finished=np.bool_
        )
        device = {**_RANGE, "device": np.int16, "stream": np.int32, **ids, "size_bytes": np.int64, "process": np.int16}
        self.device, self.marks = Columns(**device), Columns(**device)
        self.memory = Columns(
            time_ns=np.int64, size_bytes=np.int64, device_type=np.int8, device=np.int8, thread=np.int32, address=np.int64,
            total_bytes=np.int64,
        )  # fmt: skip
        self.host_arguments, self.device_arguments, self.mark_arguments = (Columns(**_ARGUMENTS) for _ in range(3))
        self.other = Columns(start_ns=np.int64, end_ns=np.int64, name=np.int32, thread=np.int32, category=np.int16)
        self.borders = Columns(time_ns=np.int64, begins=np.bool_, name=np.int32, thread=np.int32, category=np.int16)
        self.asynchronous = Columns(time_ns=np.int64, begins=np.bool_, name=np.int32, thread=np.int32, key=np.int32)
        self.async_keys: Rows[tuple[Any, ...]] = Rows()
        self.large_ids: Rows[int] = Rows()
        self.process_names: dict[str, str] = {}
        self.events_of = np.zeros(0, np.int64)  # by row of categories
        self.without_category: Counter[str] = Counter()  # by phase
        self.trouble: Counter[str] = Counter()
        self.total = 0
        self.profiler_start_ns: int | None = None
        self.repaired = 0  # events in the tables that did not stand so in the file
        self.after_ops = False  # something that torch writes after the ops was the last event
        self.keep_others = True  # complete events of categories that torch.profiler does not know

    def add(self, chunk: Chunk) -> list[str]:
        """Take a chunk in; returns the names that were not seen before."""
        known = len(self.names)
        if chunk.frames:
            self._frames(chunk.events, chunk.start_ns, chunk.duration_ns)
        elif chunk.known is not None:
            self._known(chunk, chunk.known)
        else:
            self._any(chunk)
        return list(islice(reversed(self.names), len(self.names) - known))

    def _any(self, chunk: Chunk) -> None:
        events = chunk.events
        self.total += len(events) + chunk.malformed
        self.trouble["malformed_events"] += chunk.malformed
        self.trouble["text_timestamps"] += chunk.text_times
        categories = _rows([e.cat for e in events], self.categories, np.int32)
        self.learn_kinds()
        phases = _rows([e.ph for e in events], PHASES, np.uint8)
        self._count(categories, phases)
        kind = np.where(phases == X, self.kinds[categories, 0], NO_KIND)
        self.after_ops = bool(len(kind)) and kind[-1] != HOST
        self._tables(chunk, categories, kind)
        if len(kind) and (kind.min() == NO_KIND or kind.max() > MARKS):
            self._rest(events, chunk, categories, phases, kind)

    def _known(self, chunk: Chunk, known: Ids) -> None:
        """As `_any`, for events whose categories are all known, and whose arguments are typed."""
        counts = np.bincount(known, minlength=len(CATEGORIES))
        present = np.flatnonzero(counts)
        row_of = np.zeros(len(CATEGORIES), np.int64)
        row_of[present] = [self.categories[CATEGORIES[row]] for row in present.tolist()]
        self.learn_kinds()
        self.total += len(known)
        self.events_of[row_of[present]] += counts[present]
        categories = row_of[known]
        kind = self.kinds[categories, 0]
        self.after_ops = bool(len(kind)) and kind[-1] != HOST
        if present.max(initial=0) >= FIRST_FLOW:
            categories, kind = categories[known < FIRST_FLOW], kind[known < FIRST_FLOW]
        self._tables(chunk, categories, kind)
        if len(instants := np.flatnonzero(kind == INSTANT)):
            self._allocations(chunk.events, chunk, instants)

    def _tables(self, chunk: Chunk, categories: Ints, kind: Ints) -> None:
        """Ranges, device work and marks, each to its table."""
        for table, take in ((HOST, self._host), (DEVICE, self._work), (MARKS, self._marks)):
            if len(rows := np.flatnonzero(kind == table)):
                timed = self._timed(rows, chunk)
                self.repaired += 0 if chunk.mended is None else int(chunk.mended[timed].sum())
                rows = rows if table == DEVICE else timed
                own = categories[rows]
                take(_at(chunk.events, rows), chunk.start_ns[rows], chunk.duration_ns[rows], self.kinds[own, 1], own)

    def learn_kinds(self) -> None:
        """Look up categories that were not seen before."""
        if new := len(self.categories) - len(self.kinds):
            self.kinds = np.array([(*kind_of(name), name in OLD_CATEGORIES) for name in self.categories], np.int8)
            self.events_of = np.append(self.events_of, np.zeros(new, np.int64))

    def _count(self, categories: Ints, phases: Ints) -> None:
        self.events_of += np.bincount(categories, minlength=len(self.events_of))
        none = self.categories.get(None)
        if none is not None:
            letters = phases[categories == none].tolist()
            self.without_category.update(f"(phase {chr(letter) if letter else ''})" for letter in letters)

    @property
    def by_category(self) -> Counter[str]:
        """Events by category; those without one by their phase."""
        named = {name: count for name, count in zip(self.categories, self.events_of.tolist(), strict=True) if name}
        return +(Counter(named) + self.without_category)

    def _timed(self, rows: Ints, chunk: Chunk) -> Ints:
        """The rows whose times can be used; the others are counted."""
        start, duration = chunk.start_ns[rows], chunk.duration_ns[rows]
        if start.min() > MISSING and duration.min() >= 0:
            return rows
        no_start = start == MISSING
        no_duration = (duration == MISSING) & ~no_start
        negative = (duration < 0) & ~no_start & ~no_duration
        for code, mask in (("missing_ts", no_start), ("missing_dur", no_duration), ("negative_dur", negative)):
            self.trouble[code] += int(mask.sum())
        return rows[~(no_start | no_duration | negative)]

    # Ranges

    def _frames(self, events: Sequence[Any], start: Ints, duration: Ints) -> None:
        """As `_host`, for events of which all that matters is known beforehand."""
        self.total += len(events)
        row = self.categories["python_function"]
        self.learn_kinds()
        self.events_of[row] += len(events)
        self.after_ops = False
        threads = self._threads(events)
        self._count_disorder(start, threads[1:] == threads[:-1])
        self.host.extend(
            start_ns=start, end_ns=start + duration, name=self._names(events), category=t.PYTHON, thread=threads, finished=True,
            **dict.fromkeys(_IDS, -1),
        )  # fmt: skip

    def _count_disorder(self, start: Ints, same_kind: Mask) -> None:
        """Of ranges of one thread and category that follow each other, those that begin before the one before."""
        self.trouble["events_out_of_order"] += int(np.count_nonzero(same_kind & (start[1:] < start[:-1])))

    def _host(self, events: Sequence[Event], start: Ints, duration: Ints, category: Ints, file_category: Ints) -> None:
        linked: dict[str, Any] = dict.fromkeys(_IDS, -1) | {"finished": True}
        for categories, take in ((OP_LIKE, self._of_ops), (CALL_LIKE, self._of_calls)):
            rows = np.flatnonzero(categories[category])
            if len(rows):
                for name, values in take(_at(events, rows), file_category[rows], len(self.host) + rows).items():
                    linked[name] = _spread(values, rows, linked[name], len(events))
        threads = self._threads(events)
        self._count_disorder(start, (threads[1:] == threads[:-1]) & (category[1:] == category[:-1]))
        self.host.extend(
            start_ns=start, end_ns=start + duration, name=self._names(events), category=category, thread=threads, **linked
        )  # fmt: skip

    def _of_ops(self, events: Sequence[Event], file_category: Ints, rows: Ints) -> dict[str, Any]:
        """The columns that only operators and annotations have."""
        args = self._typed(events, OpArgs)
        columns: dict[str, Any] = {
            "external_id": self._external(args, file_category),
            "sequence": self._ids(args.sequence),
            "forward_thread": self._ids(args.forward_thread),
        }
        if not all(args.finished):
            columns["finished"] = np.fromiter(args.finished, np.bool_, len(events))
        if any(args.shapes):
            columns["shapes"] = _int_array([self.shapes[bytes(text)] if text else -1 for text in args.shapes])
        self._keep_texts(self.host_arguments, args, OP_TEXTS, rows)
        return columns

    def _of_calls(self, events: Sequence[Event], file_category: Ints, _rows: Ints) -> dict[str, Any]:
        """The columns that only runtime and driver calls have."""
        args = self._typed(events, CallArgs)
        return {"external_id": self._external(args, file_category), "correlation": self._links(args.correlation)}

    def _work(self, events: Sequence[Event], start: Ints, duration: Ints, category: Ints, file_category: Ints) -> None:
        """A record without usable times still tells that there was work: its end is before its start."""
        rows = len(self.device) + np.arange(len(events))
        if start.min(initial=0) == MISSING or duration.min(initial=0) < 0:
            duration = np.where(start == MISSING, -1, np.maximum(duration, -1))
            start = np.where(start == MISSING, 0, start)
        args = self._device(self.device, events, start, duration, category, file_category)
        self._keep_texts(self.device_arguments, args, DEVICE_TEXTS, rows)

    def _marks(self, events: Sequence[Event], start: Ints, duration: Ints, category: Ints, file_category: Ints) -> None:
        rows = len(self.marks) + np.arange(len(events))
        args = self._device(self.marks, events, start, duration, category, file_category)
        self._keep_texts(self.mark_arguments, args, MARK_TEXTS, rows)

    def _device(
        self, table: Columns, events: Sequence[Any], start: Ints, duration: Ints, category: Ints, file_category: Ints
    ) -> Any:
        args = self._typed(events, DeviceArgs)
        table.extend(
            start_ns=start,
            end_ns=start + duration,
            name=self._names(events),
            category=category,
            device=self._given(args.device, events, "pid"),
            stream=self._given(args.stream, events, "tid"),
            external_id=self._external(args, file_category),
            correlation=self._links(args.correlation),
            size_bytes=self._ids(args.size_bytes),
            process=self._processes(events),
        )
        return args

    def _processes(self, events: Sequence[Any]) -> Any:
        """On whose rows device work is drawn; -1 for numbers: only where several ranks were merged are they texts."""
        if not events or not (isinstance(events[0].pid, str) or isinstance(events[-1].pid, str)):
            return -1
        return _int_array([self.processes[e.pid] for e in events])

    def _typed(self, events: Sequence[Any], kind: type) -> Any:
        """The arguments of all, one tuple for each field of their kind."""
        args, lost = typed([e.args for e in events], kind)
        self.trouble["lost_arguments"] += lost
        return kind(*zip(*map(astuple, args), strict=True)) if args else kind(*((),) * len(kind.__struct_fields__))

    def _given(self, ids: Sequence[int], events: Sequence[Any], row: str) -> Ints:
        """Where an argument is missing, the row on which the event is drawn."""
        if ids and min(ids) < 0:
            ids = [number(getattr(e, row)) if value < 0 else value for value, e in zip(ids, events, strict=True)]
        return self._ids(ids)

    def _external(self, args: Any, file_category: Ints) -> Ints:
        ids = self._links(args.external_id)
        if not OLD_CATEGORIES.isdisjoint(self.categories) and (self.kinds[file_category, 2]).any():
            return np.where(ids == -1, self._links(args.old_external_id), ids)
        return ids

    def _ids(self, values: Sequence[int]) -> Ints:
        """int64; what does not fit is -1, as if it were absent, and counted."""
        try:
            return _int_array(values)
        except OverflowError:
            fits = [-(2**63) <= value < 2**63 for value in values]
            self.trouble["numbers_beyond_int64"] += len(fits) - sum(fits)
            return _int_array([value if good else -1 for value, good in zip(values, fits, strict=True)])

    def _links(self, values: Sequence[int | None]) -> Ints:
        """Ids that are only compared. Those beyond LARGE_ID, and negative ones, get other numbers from there on, one for each."""
        try:
            ids = _int_array(values)  # type: ignore[arg-type]
            if ids.min(initial=-1) == -1 and ids.max(initial=-1) < LARGE_ID:
                return ids
        except (OverflowError, TypeError):
            pass
        self.trouble["inexact_ids"] += sum(value is None for value in values)
        told = [-1 if value is None else value for value in values]
        return _int_array([value if -1 <= value < LARGE_ID else LARGE_ID + self.large_ids[value] for value in told])

    def _names(self, events: Sequence[Any]) -> Ids:
        names: list[Any] = [e.name for e in events]
        if None in names or "" in names:
            names = [name or "(no name)" for name in names]
        return np.fromiter(map(self.names.__getitem__, names), np.int32, len(names))

    def _threads(self, events: Sequence[Any]) -> Ids:
        pids, tids = [e.pid for e in events], [e.tid for e in events]
        if not pids or pids.count(pids[0]) < len(pids):
            return _rows(list(zip(pids, tids, strict=True)), self.threads, np.int32)
        if tids.count(tids[0]) == len(tids):
            return np.full(len(tids), self.threads[pids[0], tids[0]], np.int32)
        row_of = {tid: self.threads[pids[0], tid] for tid in dict.fromkeys(tids)}  # of one process, as nearly always
        return np.fromiter(map(row_of.__getitem__, tids), np.int32, len(tids))

    def _keep_texts(self, table: Columns, args: Any, keys: tuple[str, ...], rows: Ints) -> None:
        """What few events carry: (row, key, JSON of the value), key by key."""
        for key in keys:
            texts = getattr(args, key)
            if any(texts):
                given = np.fromiter(map(bool, texts), np.bool_, len(texts))
                codes = list(map(self.values.__getitem__, map(bytes, filter(None, texts))))
                table.extend(row=rows[given], key=KEY_ROWS[key], value=_int_array(codes, np.int32))

    # Everything that is no range of torch.profiler

    def _rest(self, events: Sequence[Event], chunk: Chunk, categories: Ints, phases: Ints, kind: Ints) -> None:
        present = {chr(letter) for letter in np.flatnonzero(np.bincount(phases)).tolist()}
        instants = (kind == INSTANT) | _of(phases, "iI") if present & set("iI") else kind == INSTANT
        if instants.any():
            self._allocations(events, chunk, np.flatnonzero(instants))
        for row in np.flatnonzero(kind == SPAN).tolist():
            if (events[row].name or "").startswith("PyTorch Profiler") and chunk.start_ns[row] > MISSING:
                self.profiler_start_ns = int(chunk.start_ns[row])
        if "M" in present:
            self._label(_at(events, np.flatnonzero(phases == ord("M"))))
        if self.keep_others and len(others := np.flatnonzero((kind == NO_KIND) & (phases == X))):
            self._others(events, chunk, categories, self._timed(others, chunk))
        if present & set(BEGINS + ENDS):
            self._pairs(self.borders, events, chunk, _of(phases, BEGINS), _of(phases, ENDS), category=categories)
        if present & set(ASYNC_BEGINS + ASYNC_ENDS):
            keys = _int_array([self.async_keys[(e.cat, e.id) if e.id is not None else (e.cat, e.name, None)] for e in events])
            self._pairs(self.asynchronous, events, chunk, _of(phases, ASYNC_BEGINS), _of(phases, ASYNC_ENDS), key=keys)
        if "\0" in present:
            self._without_empty(sum(map(_is_empty, _at(events, np.flatnonzero(phases == 0)))))

    def _label(self, events: Sequence[Event]) -> None:
        named = [event for event in events if event.name == "process_name"]
        for event, label in zip(named, self._typed(named, LabelArgs).label, strict=True):
            if label is not None:
                self.process_names[str(event.pid)] = label

    def _without_empty(self, count: int) -> None:
        """`{}` is no event: some writers end the list with it, to have no comma after the last one."""
        if count:
            self.trouble["empty_events"] += count
            self.total -= count
            self.without_category["(phase )"] -= count

    def _allocations(self, events: Sequence[Event], chunk: Chunk, rows: Ints) -> None:
        rows = np.array([row for row in rows.tolist() if events[row].name == MEMORY], np.int64)
        timed = rows[chunk.start_ns[rows] > MISSING]
        self.trouble["missing_ts"] += len(rows) - len(timed)
        kept = _at(events, timed)
        args = self._typed(kept, MemoryArgs)
        self.memory.extend(
            time_ns=chunk.start_ns[timed],
            thread=self._threads(kept),
            **{name: (self._links if name in LINKS else self._ids)(getattr(args, name)) for name in MemoryArgs.__struct_fields__},
        )

    def _others(self, events: Sequence[Event], chunk: Chunk, categories: Ints, rows: Ints) -> None:
        kept, start = _at(events, rows), chunk.start_ns[rows]
        self.other.extend(
            start_ns=start, end_ns=start + chunk.duration_ns[rows], name=self._names(kept), thread=self._threads(kept),
            category=categories[rows],
        )  # fmt: skip

    def _pairs(self, table: Columns, events: Sequence[Event], chunk: Chunk, begins: Mask, ends: Mask, **column: Ints) -> None:
        rows = np.flatnonzero((begins | ends) & (chunk.start_ns > MISSING))
        self.trouble["missing_ts"] += int((begins | ends).sum()) - len(rows)
        if len(rows):
            kept = _at(events, rows)
            own = {name: values[rows] for name, values in column.items()}
            table.extend(
                time_ns=chunk.start_ns[rows], begins=begins[rows], name=self._names(kept), thread=self._threads(kept), **own
            )


def _is_empty(event: Event) -> bool:
    return not event.ph and event.cat is event.name is event.pid is event.tid is None


def _at(events: Sequence[Event], rows: Ints) -> Sequence[Event]:
    return events if len(rows) == len(events) else [events[row] for row in rows.tolist()]


def _int_array(values: Sequence[int], dtype: type[np.signedinteger[Any]] = np.int64) -> Any:
    return np.fromiter(values, dtype, len(values))


def _rows(values: Sequence[Any], row_of: Mapping[Any, int], dtype: Any) -> Any:
    """Row numbers; one value often fills a whole chunk."""
    count = len(values)
    if count and values.count(values[0]) == count:
        return np.full(count, row_of[values[0]], dtype)
    return np.fromiter(map(row_of.__getitem__, values), dtype, count)


def _spread(values: Any, rows: Ints, default: Any, count: int) -> Any:
    """Values of some rows among all; the default elsewhere."""
    if len(rows) == count:
        return values
    whole = np.full(count, default, values.dtype) if np.isscalar(default) else default
    whole[rows] = values
    return whole


class _Phases(dict[str, int]):
    """A phase's letter -> its number; 0 for what is no letter."""

    def __missing__(self, letter: str) -> int:
        self[letter] = ord(letter) if len(letter) == 1 and letter.isascii() else 0
        return self[letter]


PHASES = _Phases()


def _of(phases: Ints, letters: str) -> Mask:
    return np.isin(phases, [ord(letter) for letter in letters])


def texts_of(rows: Iterable[bytes]) -> tuple[str, ...]:
    """Interned JSON as text."""
    return tuple(text.decode("utf-8", "replace") for text in rows)
