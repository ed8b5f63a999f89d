"""A value that changes from moment to moment -> a table of few pieces of time that loses none of its highs and lows."""

import numpy as np
import pandas as pd

from .intervals import borders
from .trace import Ints

MOST_PIECES = 400  # about two pixels of a page each: more would not be seen


def timeline(time_ns: Ints, value: Ints, before: int, window_ns: int, most: int = MOST_PIECES) -> pd.DataFrame:
    """`value`: what it is from each of the sorted moments `time_ns` on; `before`: what it is ahead of the first.

    Columns: start_ns, end_ns; low, high (the least and the most that it is within [start_ns, end_ns), if only for an instant);
    last (what it is at the end). A row from each change to the next; where these are more than `most`, so many of equal length.
    The rows cover the window, and what lies outside it.
    """
    ends = np.array([time_ns.min(initial=0), (time_ns + 1).max(initial=window_ns)])
    moment = borders(ends, time_ns)
    if len(moment) - 1 > most:
        moment = ends[0] + (ends[1] - ends[0]) * np.arange(most + 1) // most
    start, end = moment[:-1], moment[1:]
    low, high, last = extremes(time_ns, value, before, start, end)
    return pd.DataFrame({"start_ns": start, "end_ns": end, "low": low, "high": high, "last": last})


def extremes(time_ns: Ints, value: Ints, before: int, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """For each window [start, end), which is not empty: the least and the most that the value is, and what it is at the end."""
    first, stop = np.searchsorted(time_ns, start), np.searchsorted(time_ns, end)
    held = np.concatenate(([before], value, [before]))  # one more, for a window that ends with the last change
    changes_at_once = np.append(time_ns, -1)[first] == np.where(first < len(time_ns), start, 0)
    rows = np.stack((first + changes_at_once, stop + 1), axis=1).ravel()
    return np.minimum.reduceat(held, rows)[::2], np.maximum.reduceat(held, rows)[::2], held[stop]
