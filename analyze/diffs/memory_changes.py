"""Does a step hold or ask for more memory?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...capture.errors import MissingData
from ..allocations import levels, place_name, places
from ..step_time import step_time
from ..timeline import extremes
from ..trace import Ints, Trace
from .changes import changes
from .sides import Side, compared

PEAK, ALLOCATED = "peak", "allocated"


@dataclass(frozen=True, eq=False)
class MemoryChanges:
    """`rows`: name (`GPU 0: peak`, `host: allocated`); before_bytes, after_bytes, change_bytes (means per step);
    low_change_bytes, high_change_bytes; status: as in `changes`. Peak: the most that is held at once within a step; allocated:
    all that a step asks for, releases not taken off.

    `untold`: names that only one recording tells of a place that both have, which are in no row.
    """

    rows: pd.DataFrame
    untold: tuple[str, ...]


def memory_changes(before: Side, after: Side) -> MemoryChanges:
    """Compare memory per step; MissingData where a recording has none."""
    old, new = ([memory_per_step(trace) for trace in compared(side)] for side in (before, after))
    untold = _untold([*old, *new])
    rows = changes(*([table.drop(columns=untold, errors="ignore") for table in side] for side in (old, new)))
    return MemoryChanges(rows.rename(columns=lambda name: name.replace("_ns", "_bytes")), tuple(untold))


def memory_per_step(trace: Trace) -> pd.DataFrame:
    """A row for each counted step, a column for each place and what is told of it: bytes."""
    if not len(trace.allocations):
        raise MissingData("The trace holds no memory events; capture with profile_memory=True.")
    return pd.DataFrame(dict(_columns(trace)))


def _columns(trace: Trace) -> Iterator[tuple[str, Ints]]:
    steps = step_time(trace).steps
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    events = trace.allocations[np.argsort(trace.allocations.time_ns, kind="stable")]
    place = places(events)
    for device in np.unique(place).tolist():
        own = events[place == device]
        held_before, level = levels(own)
        if held_before is not None:
            yield f"{place_name(device)}: {PEAK}", extremes(own.time_ns, level, held_before, start, end)[1]
        asked = np.concatenate(([0], np.cumsum(np.maximum(own.size_bytes, 0))))
        first, last = np.searchsorted(own.time_ns, start), np.searchsorted(own.time_ns, end)
        yield f"{place_name(device)}: {ALLOCATED}", asked[last] - asked[first]


def _untold(tables: Sequence[pd.DataFrame]) -> list[str]:
    """Peaks that one recording does not tell of a place that it has."""
    told = {name for table in tables for name in table.columns if name.endswith(PEAK)}
    return sorted(
        name for name in told if any(name not in table and name.replace(PEAK, ALLOCATED) in table for table in tables)
    )  # fmt: skip
