"""Data frame -> the cells of a table; a column's suffix decides how it is printed, one unit and number of decimals a column."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .formats import UNKNOWN, Unit, by_suffix, choose_unit, number, size
from .svg import clean

NAME_LENGTH = 300  # of a name in a report; whole names are in the JSON


@dataclass(frozen=True)
class Head:
    """A column's head and how its cells stand."""

    text: str
    numeric: bool


@dataclass(frozen=True)
class TableView:
    """Heads and printed cells; `more`: rows that were left out."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int


def table(frame: pd.DataFrame, heads: Mapping[str, str], limit: int | None = None, unit_of: str | None = None) -> TableView:
    """The named columns, in that order, of the first `limit` rows; a column with `change` in its name carries signs.

    `unit_of`: a column whose unit all columns of time take, where they are to be compared; else each has its own.
    """
    shown = frame if limit is None else frame.head(limit)
    unit = None if unit_of is None else _unit(shown[unit_of].tolist())
    columns = [_column(name, shown[name].tolist(), head, unit) for name, head in heads.items()]
    return TableView(
        heads=tuple(head for head, _ in columns),
        rows=tuple(zip(*(cells for _, cells in columns), strict=True)) if len(shown) else (),
        more=len(frame) - len(shown),
    )


def _column(name: str, values: list[Any], head: str, unit: Unit | None) -> tuple[Head, list[str]]:
    signed = "change" in name
    if name.endswith("_ns"):
        unit = unit or _unit(values)
        return Head(f"{head}, {unit.name}", True), [number(v / unit.ns_per_unit, unit.decimals, signed) for v in values]
    if name.endswith("_share"):
        return Head(f"{head}, %", True), [number(v * 100, 1, signed) for v in values]
    if name == "count" or name.endswith("_count"):
        return Head(head, True), [_mean_count(v, values) for v in values]
    if name.endswith("_bytes"):
        return Head(head, True), [size(v, sign=signed) if math.isfinite(v) else UNKNOWN for v in values]
    if name.endswith("_gbps"):
        return Head(f"{head}, GB/s", True), [number(v, 2) for v in values]
    if name == "status":
        return Head(head, False), [str(value).replace("_", " ") for value in values]
    return Head(head, False), [clipped(by_suffix(name, value)) for value in values]


def _unit(values: list[Any]) -> Unit:
    return choose_unit(max((abs(v) for v in values if math.isfinite(v)), default=0))


def _mean_count(value: float, column: list[Any]) -> str:
    whole = all(float(v).is_integer() for v in column if math.isfinite(v))
    return number(value, 0 if whole else 1)


def clipped(name: str) -> str:
    """A name short enough for a page, without characters that a page cannot show."""
    name = clean(name)
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"
