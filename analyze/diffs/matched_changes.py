"""Two (steps × names) tables -> their changes, with names that stand for the same in one row."""

from collections.abc import Sequence

import pandas as pd

from .changes import changes
from .matching import Match, matches

MOST_ROWS = 1000  # built-in functions and ranges can have a name for every call; the smallest share a row then
SMALLER = "({} smaller)"


def matched_changes(before: pd.DataFrame, after: pd.DataFrame, most: int = MOST_ROWS) -> pd.DataFrame:
    """Rows as in `changes`, and names_before, names_after: tuples of the names that a row stands for, the largest first.

    `name` is what the second table calls it; `was` what the first one does, where that is something else, and else empty. Of
    more than `most` rows the smallest share one, whose names are not told.
    """
    found = matches(_largest_first(before), _largest_first(after))
    kept, rest = _parted(found, before.mean(), after.mean(), most)
    shared = SMALLER.format(f"{len(rest):,}")
    names = {match.name: match.name for match in kept} | {match.name: shared for match in rest}
    rows = changes(
        _renamed(before, {name: names[match.name] for match in found for name in match.before}),
        _renamed(after, {name: names[match.name] for match in found for name in match.after}),
    )
    by_name = {match.name: match for match in kept} | {shared: Match((), ())}
    own = [by_name[name] for name in rows["name"]]
    return rows.assign(
        names_before=pd.Series([match.before for match in own], dtype=object),
        names_after=pd.Series([match.after for match in own], dtype=object),
        was=[was(match) for match in own],
    )


def was(match: Match) -> str:
    """What the first recording calls it, where that is not what the second one does."""
    return listed(match.before) if match.before and match.after and match.before != match.after else ""


def listed(names: Sequence[str], most: int = 1) -> str:
    """The first of the names, and how many there are beside them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _largest_first(table: pd.DataFrame) -> list[str]:
    order = (-table.mean().to_numpy()).argsort(kind="stable")
    return [table.columns[place] for place in order]


def _parted(
    found: Sequence[Match], before: "pd.Series[float]", after: "pd.Series[float]", most: int
) -> tuple[Sequence[Match], Sequence[Match]]:
    """The matches that have rows of their own, and the smallest ones, where there are more than that."""
    if len(found) <= most:
        return found, ()
    old, new = before.to_dict(), after.to_dict()

    def size(match: Match) -> float:
        return max(sum(old[name] for name in match.before), sum(new[name] for name in match.after))

    ranked = sorted(found, key=size, reverse=True)
    return ranked[: most - 1], ranked[most - 1 :]


def _renamed(table: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """Columns by their new names; those that share one are added up."""
    renamed = table.rename(columns=names)
    return renamed if renamed.columns.is_unique else renamed.T.groupby(level=0, sort=False).sum().T
