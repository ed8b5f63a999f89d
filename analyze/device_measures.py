"""Figures of devices -> measures: a number where there is one device, else an object by device."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def of_devices(values: Mapping[Any, Any]) -> Any:
    """Values by device; that of the only device as it is."""
    return dict(values) if len(values) > 1 else next(iter(values.values()))


def by_device(rows: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    """`rows`: one a device. `columns`: name of the measure -> column. NaN is left out: there is no such figure of that device."""
    measures: dict[str, Any] = {}
    for name, column in columns.items():
        known = rows[["device", column]].dropna()
        values = dict(zip(known["device"].tolist(), known[column].tolist(), strict=True))
        if values:
            measures[name] = values if len(rows) > 1 else known[column].tolist()[0]
    return measures
