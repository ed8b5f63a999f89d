"""What would each change save, and the first few of them at once?"""

from dataclasses import dataclass

import pandas as pd

from ...capture.errors import MissingData
from ..advice import ADVICE
from ..findings import Finding, notable, ranked
from ..joint import Together
from ..replay.excerpt import refusal
from ..replay.quality import Quality, quality
from ..replay.ranks import ranks_of
from ..replayed import Replayed, finding, replayed, together
from ..trace import Trace
from .steps import steps


@dataclass(frozen=True, eq=False)
class Savings:
    """`rows`: one a proposal that was replayed, the largest saving first: change (in the words of whatif); saving_ns, low_ns,
    high_ns (of the whole change, per step); saving_share (of the mean step). `quality` of the replay; `step_ns`: the mean step
    that it explains; `steps_count`: of how many steps. `together`: the first findings made at once. `refusal`: why nothing was
    replayed, half a sentence; then there is no quality.
    """

    rows: pd.DataFrame
    quality: Quality | None
    step_ns: float
    steps_count: int
    findings: tuple[Finding, ...]
    together: tuple[Together, ...]
    refusal: str | None = None

    @property
    def reason(self) -> str | None:
        """Why no saving is told as a point."""
        return self.quality.reason if self.quality else self.refusal


def savings(trace: Trace) -> Savings:
    """Ask every advice, replay what they propose, then the first few of it together."""
    if not len(trace.device):
        raise MissingData("The trace holds no GPU work to replay; what a change on the host saves stands with each finding.")
    proposals = [proposal for advice in ADVICE for proposal in advice(trace)]
    found = replayed(trace, proposals, steps(trace).overhead_ratio if trace.manifest else None)
    if why := refusal(trace):
        return Savings(_rows([], 0.0), None, 0.0, 0, ranked(map(finding, found)), (), why)
    reported = ranks_of(trace).alone.reported
    step_ns = float(reported["measured_ns"].mean()) if len(reported) else 0.0
    findings = [finding(one) for one in found]
    notes = [f for f, one in zip(findings, found, strict=True) if one.why_not or not (one.prediction or one.proposal.saving)]
    kept = ranked([*notable(findings, step_ns), *notes])
    return Savings(
        rows=_rows(found, step_ns),
        quality=quality(trace),
        step_ns=step_ns,
        steps_count=len(reported),
        findings=kept,
        together=together(trace, kept, {one.proposal.id: one for one in found}),
    )


def _rows(found: list[Replayed], step_ns: float) -> pd.DataFrame:
    rows = [
        {
            "change": ", ".join(one.proposal.changes), "saving_ns": one.prediction.saving_ns, "low_ns": one.prediction.low_ns,
            "high_ns": one.prediction.high_ns, "saving_share": one.prediction.saving_ns / step_ns if step_ns else float("nan"),
        }
        for one in found
        if one.prediction
    ]  # fmt: skip
    columns = ["change", "saving_ns", "low_ns", "high_ns", "saving_share"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values(["saving_ns", "change"], ascending=[False, True], kind="stable", ignore_index=True)
