"""Collectives of several ranks -> which of them are one call, and how much of each rank's time in it is waiting.

A call ends on all its ranks at about the same time, and takes at least its transfer: the shortest time that any of its ranks
spends in it. Whatever another rank spends beyond that, it has waited for the last to arrive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .communication import Collectives, argument, collectives_of
from .trace import Ints, Trace

CLOCK_TOLERANCE_NS = 10_000  # the times of each GPU are converted to those of its host by itself: good to some microseconds
SHARE_TOGETHER = 0.9  # of the calls: the root of a small broadcast may leave before another rank arrives
LEAST_TO_ALIGN = 3  # calls, before their ends can tell how far two clocks are apart and prove it
ENDS_TOGETHER_NS = 100_000  # apart, at most, once clocks agree; the next call of the same kind ends much later


@dataclass(frozen=True, eq=False)
class Calls:
    """Collectives of all ranks, matched.

    `rows`: one for each rank of each call: rank (place among the traces); call; name (full); row (of the device work, or the host
    ranges of a CPU run); start_ns, end_ns (since `origin_ns`); took_ns; transfer_ns; wait_ns (the rest).
    `outside_count`: collectives left out because not all ranks were recording. `clocks_apart_ns`: by how much the clocks of ranks
    had to be moved to agree, 0 where they did; `ahead_ns`: for each rank how far its clock is ahead then.
    `unmatched`: why nothing could be matched.
    """

    rows: pd.DataFrame
    outside_count: int = 0
    clocks_apart_ns: int = 0
    ahead_ns: tuple[int, ...] = ()
    unmatched: str = ""


def calls_of(traces: Sequence[Trace]) -> Calls | None:
    """None where no rank has a collective."""
    rows = pd.concat([_rows(place, trace) for place, trace in enumerate(traces)], ignore_index=True)
    if not len(rows):
        return None
    reasons: list[str] = []
    for kept, keys in _ways(rows, _common_window(traces)):
        called = kept.assign(number=kept.groupby(["rank", *keys]).cumcount())
        called["call"] = called.groupby([*keys, "number"], sort=False).ngroup()
        if reason := _incomplete(called, len(traces)):
            reasons.append(reason)
            continue
        moved_ns = _clocks(called)
        if _is_together(called, moved_ns):
            ahead_ns = tuple(moved_ns.groupby(called["rank"]).first().reindex(range(len(traces)), fill_value=0).tolist())
            return Calls(_split(called), len(rows) - len(kept), int(moved_ns.max() - moved_ns.min()), ahead_ns)
        reasons.append("collectives, matched by their order, do not run at the same time on all ranks")
    return Calls(rows[:0], unmatched=reasons[0])


def _rows(place: int, trace: Trace) -> pd.DataFrame:
    calls = collectives_of(trace)
    names = np.array([*trace.names, ""], object)[calls.name]
    return pd.DataFrame({
        "rank": place, "name": names, "group": _groups(trace, calls), "lane": _lanes(calls), "row": calls.row,
        "start_ns": calls.start_ns + trace.origin_ns, "end_ns": calls.end_ns + trace.origin_ns,
        "took_ns": calls.end_ns - calls.start_ns,
    })  # fmt: skip


def _groups(trace: Trace, calls: Collectives) -> list[str]:
    """The process group that a kernel's arguments name, else empty: only within one are calls in the same order on all ranks."""
    keys = ("Process Group Name", "Process Group Ranks", "Collective name")
    told = [argument(trace, calls, key) for key in keys]
    return ["/".join(str(text) for text in texts) if any(texts) else "" for texts in zip(*told, strict=True)]


def _lanes(calls: Collectives) -> Ints:
    """The place of each one's stream among the rank's own: a process group has one on every rank, whatever its number."""
    return np.unique(np.stack((calls.device, calls.stream)), axis=1, return_inverse=True)[1].ravel()


def _ways(rows: pd.DataFrame, common: tuple[int, int]) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """Which rows to match and what calls are counted by, the likeliest first: without those that other ranks could not record."""
    inside = rows[(rows["end_ns"] > common[0]) & (rows["start_ns"] < common[1])]
    for kept in (inside, rows) if 0 < len(inside) < len(rows) else (rows,):
        for keys in (["name", "group"], ["name", "group", "lane"]):
            yield kept, keys


def _common_window(traces: Sequence[Trace]) -> tuple[int, int]:
    return max(trace.origin_ns for trace in traces), min(trace.origin_ns + trace.window_ns for trace in traces)


def _incomplete(called: pd.DataFrame, ranks: int) -> str:
    """Whether a rank lacks a call that others have; of a named process group only those count that take part in it."""
    members = called.groupby(["name", "group"])["rank"].transform("nunique")
    expected = np.where(called["group"] == "", ranks, members)
    found = called.groupby("call")["rank"].transform("size")
    lost = called.loc[(found != expected) | (expected < 2), "call"].nunique()
    return f"collectives that not every rank's file holds: {lost} of {called['call'].nunique()}" if lost else ""


def _clocks(called: pd.DataFrame) -> pd.Series:
    """For each row how far its rank's clock is ahead: 0 where clocks agree, else how much later its calls end than elsewhere."""
    none = pd.Series(0, called.index)
    if _is_together(called, none) or called["call"].nunique() < LEAST_TO_ALIGN:
        return none
    late = called["end_ns"] - called.groupby("call")["end_ns"].transform("min")
    ahead = late.groupby(called["rank"]).transform("median").astype(np.int64)
    ends = (called["end_ns"] - ahead).groupby(called["call"])
    return ahead if ((ends.max() - ends.min()) <= ENDS_TOGETHER_NS).mean() >= SHARE_TOGETHER else none


def _is_together(called: pd.DataFrame, ahead_ns: pd.Series) -> bool:
    """Whether in nearly every call there is a moment with all of its ranks inside."""
    last_in = (called["start_ns"] - ahead_ns).groupby(called["call"]).max()
    first_out = (called["end_ns"] - ahead_ns).groupby(called["call"]).min()
    return float((last_in <= first_out + CLOCK_TOLERANCE_NS).mean()) >= SHARE_TOGETHER


def _split(called: pd.DataFrame) -> pd.DataFrame:
    transfer = called.groupby("call")["took_ns"].transform("min")
    split = called.assign(transfer_ns=transfer, wait_ns=called["took_ns"] - transfer)
    return split.drop(columns=["group", "lane", "number"])
