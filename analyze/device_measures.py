"""A table with a row for each device -> measures: a number where there is one device, else an object by device."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def by_device(rows: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    """`columns`: name of the measure -> column. NaN is left out: there is no such figure of that device."""
    measures: dict[str, Any] = {}
    for name, column in columns.items():
        known = rows[["device", column]].dropna()
        values = dict(zip(known["device"].astype(str), known[column].tolist(), strict=True))
        if values:
            measures[name] = values if len(rows) > 1 else known[column].tolist()[0]
    return measures
