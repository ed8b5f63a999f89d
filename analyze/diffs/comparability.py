"""Are two sides comparable: what is the same, what differs, what cannot be known?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..facts import Facts, Value, facts, is_decisive
from .sides import Side

NOT_TOLD = "–"
SAME, DIFFERENT, UNKNOWN = "same", "different", "unknown"


@dataclass(frozen=True, eq=False)
class Comparability:
    """`rows`: fact; before; after; status (same, different, unknown); decisive (a difference makes times incomparable)."""

    rows: pd.DataFrame

    @property
    def reasons(self) -> list[str]:
        """Why the runs cannot be compared; empty when they can."""
        bad = self.rows[self.rows["decisive"] & (self.rows["status"] == DIFFERENT)]
        return [f"{row['fact']}: {row['before']} before, {row['after']} after" for row in bad.to_dict("records")]

    @property
    def comparable(self) -> bool:
        return not self.reasons

    @property
    def known(self) -> pd.DataFrame:
        """The rows of which at least one side tells."""
        return self.rows[(self.rows["before"] != NOT_TOLD) | (self.rows["after"] != NOT_TOLD)]

    @property
    def untold(self) -> list[str]:
        """Facts that neither side tells."""
        return self.rows.loc[~self.rows.index.isin(self.known.index), "fact"].tolist()

    @property
    def differences(self) -> pd.DataFrame:
        """The rows that differ and leave times comparable: they may be what is being tried."""
        return self.rows[~self.rows["decisive"] & (self.rows["status"] == DIFFERENT)]


def comparability(before: Side, after: Side) -> Comparability:
    """Compare the facts of the recordings of two sides."""
    return comparability_of(*([facts(trace) for trace in side] for side in (before, after)))


def comparability_of(before: Sequence[Facts], after: Sequence[Facts]) -> Comparability:
    """Compare facts, one mapping a run; those that both sides have apply."""
    names = [name for name in before[0] if all(name in known for known in (*before, *after))]
    return Comparability(
        pd.DataFrame([_row(name, *([known[name] for known in side] for side in (before, after))) for name in names])
    )


def _row(name: str, before: list[Value], after: list[Value]) -> dict[str, Any]:
    if None in (*before, *after):
        status = UNKNOWN
    else:
        status = SAME if len(set(map(_shown, (*before, *after)))) == 1 else DIFFERENT
    return {"fact": name, "before": _of_side(before), "after": _of_side(after), "status": status, "decisive": is_decisive(name)}


def _of_side(values: list[Value]) -> str:
    """What the runs of one side have, each thing once."""
    return " / ".join(dict.fromkeys(map(_shown, values)))


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOT_TOLD if value is None else str(value)
