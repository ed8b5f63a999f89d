"""The first findings, all fixed at once -> the predicted step: never a sum of savings that are not independent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .analyses.data_wait import DataWait
from .findings import NOTABLE_SHARE, Finding, ranked
from .gpu_gaps import LOADING
from .run import Section

MOST_TOGETHER = 3  # changes made at once: a reader acts on the first few
BY_SAMPLE = "tiny_ops"  # its saving is that of a larger batch, by sample: the step itself grows


@dataclass(frozen=True)
class Together:
    """The first findings (ids, in their order) made at once: the predicted step, and between which borders."""

    ids: tuple[str, ...]
    step_ns: float
    after_ns: float
    least_ns: float  # where everything goes that can
    most_ns: float
    alone_ns: float  # the predicted step with the first of them alone

    @property
    def adds(self) -> bool:
        """Whether the others save notably more beside the first; they may take out the same time."""
        return self.alone_ns - self.after_ns >= NOTABLE_SHARE * self.step_ns


def of_these(told: Sequence[Together], findings: Sequence[Finding], before: Sequence[Finding]) -> tuple[Together, ...]:
    """What still holds of predictions made of the findings `before`: where all are there as they were."""
    same = {finding.id for finding in findings if finding in before}
    return tuple(t for t in told if same.issuperset(t.ids))


def together(sections: Sequence[Section]) -> tuple[Together, ...]:
    """By a replay of a run with a GPU, else by the phases of the thread."""
    result = {section.name: section.result for section in sections if section.result is not None}
    if "savings" in result:
        return result["savings"].together
    findings = ranked(finding for section in sections for finding in section.findings)
    return together_on_host(findings, result["steps"].mean_ns, result.get("data_wait")) if "steps" in result else ()


def together_on_host(ranked: Sequence[Finding], step_ns: float, wait: DataWait | None) -> tuple[Together, ...]:
    """The first two, and the first three, of a run without a GPU, each of another phase.

    One thread is in one phase at a time, so that what goes from different phases is disjoint; two changes to one phase are
    alternatives, of which the first counts. Batches that come from workers are made beside the rest, and the rest is shorter by
    then.
    """
    firsts: dict[str, Finding] = {}
    for finding in ranked:
        if finding.saves and finding.id != BY_SAMPLE:
            firsts.setdefault(finding.phase, finding)
    some = list(firsts.values())[:MOST_TOGETHER]
    return tuple(_together(some[:count], step_ns, wait) for count in range(2, len(some) + 1))


def _together(some: Sequence[Finding], step_ns: float, wait: DataWait | None) -> Together:
    others = [finding for finding in some if finding.phase != LOADING]
    after = step_ns - sum(finding.saving_ns for finding in others)
    least = step_ns - sum(finding.high_ns for finding in some)
    for loading in (finding for finding in some if finding.phase == LOADING):
        after -= loading.saving_ns
        if wait and wait.loader and not wait.loader.taken:  # the shorter rest no longer hides all of the loading
            shorter = replace(wait.loader, rest_ns=max(0.0, wait.rest_ns - sum(finding.saving_ns for finding in others)))
            after = max(after, shorter.advised_ns)
    most = step_ns - max(finding.low_ns for finding in some)
    after = min(max(0.0, after), most)
    alone = step_ns - some[0].saving_ns
    return Together(tuple(finding.id for finding in some), step_ns, after, min(after, max(0.0, least)), most, alone)
