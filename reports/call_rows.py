"""The calls that explain a change -> their table: names as people say them, what is around each, what changed inside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ..analyze.analyses.modules import MODULE_FRAME
from ..analyze.step_time import PHASE_PREFIX
from . import formats as f
from .change_tables import BEFORE_AFTER, VERDICT, ChangeView, heads_of
from .tables import TableView, table

MOST_AROUND = 3  # of the calls around one, the nearest
NAME_LENGTH = 80
FRAME = re.compile(r"(?:.*[/\\])?([^/\\]*\(\d+\): .*)", re.DOTALL)
BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+).*>")
SAYS_NOTHING = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): _(?:wrapped_)?call_impl$")


def call_view(rows: pd.DataFrame) -> ChangeView:
    """The rows of CallChanges as a table; under each name what is around it, what was, and what changed inside."""
    heads, own = heads_of(rows), {"self_change_ns": "Own time", **VERDICT}
    view = table(
        rows.assign(call=rows["name"].map(brief)),
        {"call": "Call", **{name: head for name, head in heads.items() if name != "status"}, **own},
        unit_of="before_ns",
    )
    return ChangeView(view, tuple(tuple(_notes(row)) for row in rows.to_dict("records")))


def call_table(rows: pd.DataFrame) -> TableView:
    """The same where a row is one line: each call behind those around it."""
    named = [" › ".join(filter(None, (_around(row["path"][:-1]), brief(row["name"])))) for row in rows.to_dict("records")]
    return table(rows.assign(call=named), {"call": "Call", **BEFORE_AFTER, **VERDICT}, unit_of="before_ns")


def brief(name: str) -> str:
    """A module without the word for it, a frame without its folders, a built-in function by its name alone."""
    if frame := FRAME.fullmatch(name):
        name = frame[1]
    elif built_in := BUILT_IN.fullmatch(name):
        name = f"{built_in[1]} (built in)"
    name = name.removeprefix(PHASE_PREFIX).removeprefix(MODULE_FRAME).strip("# ")
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"


def _notes(row: Mapping[Any, Any]) -> Iterator[str]:
    if row["was"]:
        yield f"before: {brief(row['was'])}"
    if around := _around(row["path"][:-1]):
        yield f"in {around}"
    if row["inside"]:
        yield "inside: " + ", ".join(f"{brief(name)} {f.time(ns, sign=True)}" for name, ns in row["inside"])


def _around(path: Sequence[str]) -> str:
    names = [brief(name) for name in path if not SAYS_NOTHING.search(name)]
    shown = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
    return " › ".join((["…"] if len(shown) > MOST_AROUND else []) + shown[-MOST_AROUND:])
