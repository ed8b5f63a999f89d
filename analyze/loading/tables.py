"""What was collected from one file -> the Trace: times from the first start on, trouble named."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ...capture.errors import BundleError
from .. import trace as t
from ..durations import possible_end
from ..trace import Ids, Mask
from .arguments import KEYS
from .columns import Collected, texts_of
from .events import LATEST_US, Header
from .growing import Columns
from .kinds import HOST
from .merged import Tables, kept, numbers, prefix_of, tables_by_rank
from .producers import Paired, Producer, paired, unknown_categories
from .reading import NO_END_OF_OBJECT, Findings, two_writers
from .streams import Reading

LONGEST_RECORDING_NS = 86_400 * 10**9  # a day: what starts at 0 when all else starts later than that has no time of its own
ZERO_TIME_MARGIN_NS = 10**9  # device work at time 0 in a recording that starts a second later has no time of its own
MOST_NAMED = 5  # of unknown categories named in a sentence
_Ranges = TypeVar("_Ranges", t.HostRanges, t.DeviceRanges, t.Slices)


@dataclass(frozen=True, eq=False)
class Read:
    """One file, read: its name as given, what stood in it and how."""

    name: str
    header: Header
    collected: Collected
    found: Findings
    reading: Reading
    producer: Producer


@dataclass(frozen=True, eq=False)
class _Rank:
    """What the file holds of one rank, whose name is empty where it holds one only."""

    name: str
    tables: Tables
    window: tuple[int, int]  # first start and last end
    untimed: t.DeviceRanges  # device work whose times cannot be used


def traces_of(read: Read, source: t.Source) -> tuple[t.Trace, ...]:
    """One for each rank in the file, without manifest and warnings; what became of events is told of the whole file.

    BundleError where it holds no timed events. Empties what was collected.
    """
    _refuse_two_writers(read)
    collected = read.collected
    ranks, used = _ranks(read)
    source = replace(source, producer=read.producer.name)
    sources = [source]
    if len(ranks) > 1:
        names = [rank.name for rank in ranks]
        sources = [replace(source, rank=n, rank_name=name) for n, name in zip(numbers(names), names, strict=True)]
    common: dict[str, Any] = {
        "names": tuple(collected.names), "threads": _threads(collected)[0], "shapes": _shapes(collected, ranks),
        "coverage": _coverage(read, used), "argument_keys": KEYS, "argument_values": texts_of(collected.values),
    }  # fmt: skip
    return tuple(_trace(read, rank, source=own, **common) for rank, own in zip(ranks, sources, strict=True))


def _trace(read: Read, rank: _Rank, **common: Any) -> t.Trace:
    own, (first, last), started_ns = rank.tables, rank.window, read.collected.profiler_start_ns
    return t.Trace(
        manifest=None,
        origin_ns=_base_ns(read.header) + first,
        window_ns=last - first,
        profiler_start_ns=None if started_ns is None else started_ns - first,
        host=_shifted(own.host, first),
        device=_shifted(own.device, first),
        device_marks=_shifted(own.marks, first),
        allocations=replace(own.allocations, time_ns=own.allocations.time_ns - first),
        untimed=rank.untimed,
        host_arguments=own.host_arguments,
        device_arguments=own.device_arguments,
        mark_arguments=own.mark_arguments,
        slices=_shifted(own.slices, first),
        **common,
    )


def _ranks(read: Read) -> tuple[list[_Rank], int]:
    """Those of which something takes time, and how many events of the file are in their tables."""
    collected, ranks = read.collected, list[_Rank]()
    by_rank, more = _tables(collected, read.producer)
    for name, tables in by_rank.items():
        timed, untimed = _timed(collected, tables)
        if window := _window(read, timed):
            ranks.append(_Rank(name, timed, window, untimed))
    if not ranks:
        raise BundleError(
            f"{read.name} holds no timed events of torch.profiler (of {collected.total} events); were the active steps reached?"
        )
    if len(ranks) > 1 and not ranks[-1].name:
        collected.trouble["events_without_rank"] = ranks[-1].tables.rows_count
    return ranks, more + sum(rank.tables.rows_count for rank in ranks)


def _tables(collected: Collected, producer: Producer) -> tuple[dict[str, Tables], int]:
    """By rank: host ranges and device work of torch.profiler, or the slices of another tool; threads told apart.

    And how many events they hold beside one for each row: a pair is two.
    """
    threads, row_of = _threads(collected)
    pairs, asynchronous = _pairs(collected, "borders", "thread"), _pairs(collected, "asynchronous", "key")
    columns, memory = collected.host.taken(), collected.memory.taken()
    for table in (columns, memory):
        table["thread"] = row_of[table["thread"]]
    host = t.HostRanges(**columns)
    (device, of_device), (marks, of_marks) = _device_rows(collected.device), _device_rows(collected.marks)
    tables = Tables(
        host, device, marks, t.Allocations(**memory), t.Arguments(**collected.host_arguments.taken()),
        t.Arguments(**collected.device_arguments.taken()), t.Arguments(**collected.mark_arguments.taken()), t.no_rows(t.Slices),
    )  # fmt: skip
    if not producer.is_torch:
        timed = device[device.end_ns >= device.start_ns]
        slices = _slices(collected, producer, host, timed, pairs, asynchronous, row_of)
        none, arguments = t.no_rows(t.DeviceRanges), t.no_rows(t.Arguments)
        only = Tables(t.no_rows(t.HostRanges), none, none, tables.allocations, arguments, arguments, arguments, slices)
        return {"": only}, len(pairs.row) + len(asynchronous.row)
    paired_host = _host_pairs(collected, pairs, row_of)
    if len(paired_host):
        tables = replace(tables, host=_joined(host, paired_host))
    return tables_by_rank(tables, threads, tuple(collected.processes), of_device, of_marks), len(paired_host)


def _timed(collected: Collected, tables: Tables) -> tuple[Tables, t.DeviceRanges]:
    """Without the rows that carry no time, which are counted; those of device work apart."""
    no_duration = tables.device.end_ns < tables.device.start_ns
    no_host, no_device, no_marks = _zero_times(tables, ~no_duration)
    collected.trouble["zero_timestamp_events"] += int(no_host.sum() + no_device.sum() + no_marks.sum())
    no_device |= no_duration
    host, host_arguments = kept(tables.host, tables.host_arguments, ~no_host)
    device, device_arguments = kept(tables.device, tables.device_arguments, ~no_device)
    marks, mark_arguments = kept(tables.marks, tables.mark_arguments, ~no_marks)
    return replace(
        tables,
        host=host,
        device=device,
        marks=marks,
        host_arguments=host_arguments,
        device_arguments=device_arguments,
        mark_arguments=mark_arguments,
    ), tables.device[no_device]


def _device_rows(columns: Columns) -> tuple[t.DeviceRanges, Ids]:
    """The table, and for each of its rows the process on which it is drawn."""
    taken = columns.taken()
    process = taken.pop("process")
    return t.DeviceRanges(**taken), process


def _threads(collected: Collected) -> tuple[tuple[tuple[str, str], ...], Ids]:
    """Processes and threads as text, each once, and the row of each pair as it stood in the file."""
    rows: dict[tuple[str, str], int] = {}
    row_of = [rows.setdefault((str(pid), str(tid)), len(rows)) for pid, tid in collected.threads]
    return tuple(rows), np.array(row_of, np.int32)


def _pairs(collected: Collected, name: str, lane: str) -> Paired:
    columns = {key: column.data[: column.count] for key, column in getattr(collected, name).columns.items()}
    found = paired(columns["time_ns"], columns["begins"], columns[lane])
    collected.trouble["unmatched_begin"] += found.unmatched_begin
    collected.trouble["unmatched_end"] += found.unmatched_end
    return found


def _host_pairs(collected: Collected, pairs: Paired, row_of: Ids) -> t.HostRanges:
    """Begin and end events of torch.profiler's own categories, as host ranges."""
    begun = {key: column.data[pairs.row] for key, column in collected.borders.columns.items()}
    kind, category = collected.kinds[begun["category"], 0], collected.kinds[begun["category"], 1]
    unknown = dict.fromkeys(("external_id", "correlation", "sequence", "forward_thread", "shapes"), np.full(len(pairs.row), -1))
    ranges = t.HostRanges(
        pairs.start_ns, pairs.end_ns, begun["name"], category, row_of[begun["thread"]], **unknown,
        finished=np.ones(len(pairs.row), np.bool_),
    )  # fmt: skip
    return ranges[kind == HOST]


def _joined(first: t.HostRanges, second: t.HostRanges) -> t.HostRanges:
    return t.HostRanges(**{f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)]) for f in fields(first)})


def _slices(
    collected: Collected, producer: Producer, host: t.HostRanges, device: t.DeviceRanges, pairs: Paired, asynchronous: Paired,
    row_of: Ids,
) -> t.Slices:  # fmt: skip
    """All ranges of another tool: complete events, pairs, asynchronous ranges; those of a device by its process or category."""
    other = collected.other.taken()
    begun = {key: column.data[pairs.row] for key, column in collected.borders.columns.items()}
    started = {key: column.data[asynchronous.row] for key, column in collected.asynchronous.columns.items()}
    categories = np.array([name in producer.device_categories for name in collected.categories], np.bool_)
    processes = np.array([str(pid) in producer.device_processes for pid, _ in collected.threads], np.bool_)
    on_device = categories[other["category"]] | processes[other["thread"]]
    return t.Slices(
        start_ns=np.concatenate([other["start_ns"], host.start_ns, device.start_ns, pairs.start_ns, asynchronous.start_ns]),
        end_ns=np.concatenate([other["end_ns"], host.end_ns, device.end_ns, pairs.end_ns, asynchronous.end_ns]),
        name=np.concatenate([other["name"], host.name, device.name, begun["name"], started["name"]]),
        kind=np.concatenate([
            np.where(on_device, t.DEVICE_SLICE, t.HOST_SLICE),
            np.full(len(host), t.HOST_SLICE),
            np.full(len(device), t.DEVICE_SLICE),
            np.where(processes[begun["thread"]], t.DEVICE_SLICE, t.HOST_SLICE),
            np.full(len(asynchronous.row), t.ASYNC_SLICE),
        ]),
        thread=np.concatenate([
            row_of[other["thread"]], host.thread, np.zeros(len(device), np.int32), row_of[begun["thread"]],
            row_of[started["thread"]],
        ]),
    )  # fmt: skip


def _zero_times(tables: Tables, lasts: Mask) -> tuple[Mask, Mask, Mask]:
    """Which rows of host, device and marks carry no time: they start at 0, and all else long after; `lasts`: of device rows."""
    host, device, marks = (table.start_ns for table in (tables.host, tables.device, tables.marks))
    others = [start[start != 0] for start in (host, device[lasts], marks)]
    if min((int(start.min()) for start in others if len(start)), default=0) >= LONGEST_RECORDING_NS:
        return host == 0, (device == 0) & lasts, marks == 0
    is_later = len(host) > 0 and host.min() >= ZERO_TIME_MARGIN_NS
    return np.zeros_like(host, bool), (device == 0) & lasts & is_later, np.zeros_like(marks, bool)


def _window(read: Read, tables: Tables) -> tuple[int, int] | None:
    """First start and last end; None where nothing takes time."""
    timed = tables.host[tables.host.category != t.OVERHEAD] if (tables.host.category == t.OVERHEAD).any() else tables.host
    filled = [table for table in (timed, tables.device, tables.slices) if len(table)]
    if not any((table.end_ns > table.start_ns).any() for table in filled):
        return None
    first, last = min(int(table.start_ns.min()) for table in filled), _last_end(filled)
    if last - first > np.iinfo(np.int64).max:
        raise BundleError(f"{read.name} holds events that are more than 292 years apart; its times are damaged, capture again.")
    return first, last


def _last_end(tables: Sequence[t.HostRanges | t.DeviceRanges | t.Slices]) -> int:
    """The latest; of device work that lasts longer than all else only what is possible, which takes time to find out."""
    ends = [int(table.end_ns.max()) for table in tables if not isinstance(table, t.DeviceRanges)]
    for table in tables:
        if isinstance(table, t.DeviceRanges) and (not ends or table.end_ns.max() > max(ends)):
            ends.append(int(possible_end(table).max()))
    return max(ends)


def _coverage(read: Read, used: int) -> t.Coverage:
    collected, repairs = read.collected, read.found.repairs
    trouble = troubles(read)
    total = collected.total + repairs.dropped + read.found.counts["cut_events"]
    dropped = sum(trouble[code] for code in DROPPED) + read.found.counts["cut_events"]
    return t.Coverage(
        total=total,
        used=used - collected.repaired,
        ignored=total - used - dropped,
        dropped=dropped,
        by_category=collected.by_category,
        repaired=collected.repaired,
        health={code: trouble[code] for code in HEALTH if trouble[code]},
    )


DROPPED = (
    "malformed_events", "missing_dur", "negative_dur", "missing_ts", "zero_timestamp_events", "unmatched_begin", "unmatched_end",
)  # fmt: skip
HEALTH = ("missing_dur", "negative_dur", "unmatched_begin", "unmatched_end", "zero_timestamp_events", "events_out_of_order")


def troubles(read: Read) -> Counter[str]:
    """Trouble by code, with its count."""
    found, collected = read.found, read.collected
    trouble = collected.trouble + found.repairs.kinds + found.counts
    trouble["malformed_events"] += found.repairs.dropped
    if read.producer.is_torch:
        trouble["unknown_categories"] = sum(unknown_categories(collected).values())
    if is_cut_off(read):
        trouble["truncated_file"] = collected.total
    return trouble


def details(read: Read) -> dict[str, str]:
    """What else is known of some trouble, by code."""
    named = list(unknown_categories(read.collected))
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return {
        "unknown_categories": ", ".join(name[:60] for name in named[:MOST_NAMED]) + more,
        "truncated_file": read.reading.damage or read.found.cut_off,
    }


def _refuse_two_writers(read: Read) -> None:
    """Pieces of events in the middle, and ops of two processes: two programs wrote their traces into one file."""
    ops = np.flatnonzero(read.collected.host.columns["category"].data[: len(read.collected.host)] == t.OP)
    if read.found.repairs.dropped > 1 and len(ops):  # one piece alone is more likely a damaged event of a merged file
        threads = list(read.collected.threads)
        used = np.unique(read.collected.host.columns["thread"].data[ops]).tolist()
        processes = {str(threads[row][0]) for row in used}
        if len(processes) > len(set(map(prefix_of, processes))):  # who merged the files of ranks wrote them one after the other
            raise two_writers(read.name)


def host_whole_until(read: Read, trace: t.Trace) -> int:
    """When host ops end because the file does, ns; the window's end where it was cut after the ops, which stand first."""
    ops = np.flatnonzero((trace.host.category == t.OP) | (trace.host.category == t.ANNOTATION))
    cut_in_ops = len(ops) and ops[-1] == len(trace.host) - 1 and not read.collected.after_ops
    return int(trace.host.start_ns[ops[-1]]) if cut_in_ops else trace.window_ns


def is_cut_off(read: Read) -> bool:
    """Whether the file ends before its end."""
    return bool(read.found.cut_off or read.reading.damage)


def lacks_events(read: Read) -> bool:
    """Whether it ends before its list of events does: of a file that only lacks what stands after them nothing is lost."""
    return is_cut_off(read) and read.found.cut_off != NO_END_OF_OBJECT


def _base_ns(header: Header) -> int:
    base_ns = header.base_ns
    return base_ns if isinstance(base_ns, int) and 0 <= base_ns < LATEST_US * 1000 else 0


def _shifted(table: _Ranges, first: int) -> _Ranges:
    """In place: nobody else holds these columns."""
    for times in (table.start_ns, table.end_ns):
        times -= first
    return table


def _shapes(collected: Collected, ranks: Sequence[_Rank]) -> tuple[str, ...]:
    """As they are printed; what cannot be read is [], and counted."""
    printed = [printed_shapes(raw) for raw in collected.shapes]
    if unreadable := [row for row, text in enumerate(printed) if text is None]:
        collected.trouble["lost_arguments"] += sum(int(np.isin(rank.tables.host.shapes, unreadable).sum()) for rank in ranks)
    return tuple(text or "[]" for text in printed)


def printed_shapes(raw: bytes) -> str | None:
    """`Input Dims` of the file -> input_shapes of key_averages(), which prints a list of tensors as []; None: not readable."""
    try:
        dims = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return str([dim if _is_flat(dim) else [] for dim in dims]) if isinstance(dims, list) else "[]"


def _is_flat(dim: Any) -> bool:
    return isinstance(dim, list) and not any(isinstance(size, list) for size in dim)
