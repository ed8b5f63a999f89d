"""Two (steps × names) tables -> their changes, with names that stand for the same in one row."""

from collections.abc import Sequence

import pandas as pd

from .changes import changes
from .matching import Match, matches

Tables = Sequence[pd.DataFrame]  # (steps × names), one a run
MOST_ROWS = 1000  # built-in functions and ranges can have a name for every call; the smallest share a row then
SMALLER = "({} smaller)"


def matched_changes(before: Tables, after: Tables, most: int = MOST_ROWS) -> pd.DataFrame:
    """Rows as in `changes`, and names_before, names_after: tuples of the names that a row stands for, the largest first.

    `name` is what the second side calls it; `was` what the first one does, where that is something else, and else empty. Of
    more than `most` rows the smallest share one, whose names are not told.
    """
    means = [_mean(tables) for tables in (before, after)]
    found = matches(*map(_largest_first, means))
    kept, rest = _parted(found, means[0], means[1], most)
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


def _mean(tables: Tables) -> "pd.Series[float]":
    """Of each name per step, the mean of the runs."""
    return pd.concat([table.mean() for table in tables], axis=1).fillna(0.0).mean(axis=1)


def _largest_first(mean: "pd.Series[float]") -> list[str]:
    order = (-mean.to_numpy()).argsort(kind="stable")
    return [str(mean.index[place]) for place in order]


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


def _renamed(tables: Tables, names: dict[str, str]) -> list[pd.DataFrame]:
    """Columns by their new names; those that share one are added up."""
    renamed = [table.rename(columns=names) for table in tables]
    return [table if table.columns.is_unique else table.T.groupby(level=0, sort=False).sum().T for table in renamed]
