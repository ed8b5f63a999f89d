"""What an analysis concludes: sentences with numbers, evidence, savings; and the verdict over all of them.

Sentences keep their numbers apart: a Text is a template and its values, and a value's name ends in its unit
(`_ns`, `_share`, `_count`, `_bytes`, `_ratio`), which decides how every report prints it. So no figure is typed into prose.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Confidence = Literal["high", "medium", "low"]
NOTABLE_SHARE = 0.01  # of the step: a saving below this is not worth a reviewer's attention


@dataclass(frozen=True)
class Text:
    """A sentence with slots: `Text.of("{loop_share} of the step", loop_share=0.6)`."""

    template: str
    values: Mapping[str, int | float | str] = field(default_factory=dict)

    @classmethod
    def of(cls, template: str, **values: int | float | str) -> "Text":
        return cls(template, values)


@dataclass(frozen=True)
class Evidence:
    """One number that supports a finding; the label's unit is that of `name`, as in Text. Positions are ns in the window.

    `rank`: of a finding across ranks, whose it is.
    """

    label: str
    name: str
    value: int | float
    start_ns: int | None = None
    end_ns: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Finding:
    """Something to change, and what that would save in each step, in the time base of the trace (profiled).

    `saving_ns` is the expected saving and the ranking key; `low_ns` and `high_ns` the least and the most a fix can save; of what
    is only worth knowing all three are 0. `saving_unprofiled_ns`: the expected saving without the profiler, where that is known.
    `changes`: what was replayed, in the words of `longpole whatif`; `assumes`: half sentences on what the saving rests.
    Savings of several findings are never added up.
    """

    id: str
    title: Text  # the change, as an imperative
    problem: Text
    advice: Text
    saving_ns: float
    low_ns: float
    high_ns: float
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    bound: str  # what it says limits the step, should it be the first finding
    phase: str  # where the time is
    saving_unprofiled_ns: float | None = None
    changes: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()

    @property
    def saves(self) -> bool:
        """Whether it is about time, and not only worth knowing."""
        return self.high_ns > 0

    def __post_init__(self) -> None:
        if not 0 <= self.low_ns <= self.saving_ns <= self.high_ns:
            raise ValueError(f"savings out of order in {self.id}: {self.low_ns}, {self.saving_ns}, {self.high_ns}")


@dataclass(frozen=True)
class Caution:
    """What makes some numbers of a recording worth less: a code for tools, how often, a sentence for people."""

    code: str
    count: int
    message: Text


@dataclass(frozen=True)
class Verdict:
    """The one sentence of page one. `tag`: one or two words; `bound` as in the summary; `top`: the first finding's id."""

    tag: str
    sentence: Text
    lede: Text
    bound: str
    confidence: Confidence
    top: str | None = None


def notable(findings: Iterable[Finding], step_ns: float, unprofiled_share: float | None = None) -> tuple[Finding, ...]:
    """The findings worth a change: those expected to save at least NOTABLE_SHARE of the step.

    `unprofiled_share`: unprofiled ÷ profiled step, by which host time shrinks without the profiler.
    """
    worth = (finding for finding in findings if finding.saving_ns >= NOTABLE_SHARE * step_ns)
    if unprofiled_share is None:
        return tuple(worth)
    return tuple(replace(finding, saving_unprofiled_ns=finding.saving_ns * unprofiled_share) for finding in worth)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Largest expected saving first, what is only worth knowing last; ties by id."""
    return tuple(sorted(findings, key=lambda finding: (-finding.saving_ns, not finding.saves, finding.id)))
