"""Findings of two runs -> what became of each: gone, smaller, still there, or new."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..findings import Finding

GONE, SMALLER, STILL_THERE, NEW = "gone", "smaller", "still_there", "new"
SMALLER_SHARE = 0.5  # of the saving before, at most: on busy machines two captures of one program differ by a third
SEVERAL_KINDS = ("host_syncs",)  # such an id alone is about several kinds at once, with a suffix about that kind


@dataclass(frozen=True)
class Fate:
    """A finding in the first run, in the second, or in both. `place`: its number in the report on the first run."""

    status: str
    place: int | None
    before: Finding | None
    after: Finding | None

    @property
    def finding(self) -> Finding:
        """As the first run has it; a new one as the second."""
        found = self.before or self.after
        assert found is not None
        return found


def fates(before: Sequence[Finding], after: Sequence[Finding]) -> tuple[Fate, ...]:
    """Those of the first run in their order, then the new ones."""
    old = [_fate(place, finding, _match(finding, after)) for place, finding in enumerate(before, 1)]
    new = [Fate(NEW, None, None, finding) for finding in after if _match(finding, before) is None]
    return (*old, *new)


def _fate(place: int, before: Finding, after: Finding | None) -> Fate:
    if after is None:
        return Fate(GONE, place, before, None)
    less = after.saving_ns <= SMALLER_SHARE * before.saving_ns and before.saves
    return Fate(SMALLER if less else STILL_THERE, place, before, after)


def _match(finding: Finding, others: Sequence[Finding]) -> Finding | None:
    """The one of that id, else one that is about the same kinds and others."""
    same = (other for other in others if other.id == finding.id)
    return next(same, None) or next((other for other in others if _includes(finding.id, other.id)), None)


def _includes(one: str, other: str) -> bool:
    return any(base in (one, other) and one.split(":")[0] == other.split(":")[0] for base in SEVERAL_KINDS)
