"""Proposals -> Findings: what each would save, by one replay of them all; and what the first few of them save at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..capture.errors import ChangeError
from .findings import Confidence, Finding
from .joint import MOST_TOGETHER, Together
from .proposals import Proposal
from .replay.changes import NothingSuchError, joint_effect
from .replay.excerpt import refusal
from .replay.ranks import ranks_of
from .replay.what import HOST, WhatIf, parse
from .replay.whatif import Prediction, predict
from .trace import Trace

CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")


@dataclass(frozen=True)
class Replayed:
    """A proposal, what its changes save, and without the profiler, where that is known."""

    proposal: Proposal
    prediction: Prediction | None
    unprofiled_ns: float | None
    why_not: str  # why its changes cannot be replayed


def replayed(trace: Trace, proposals: Sequence[Proposal], overhead_ratio: float | None) -> list[Replayed]:
    """One replay of all; `overhead_ratio`: profiled ÷ unprofiled step time, where that is known."""
    why = refusal(trace)
    errors = {proposal.id: why or _error(trace, proposal) for proposal in proposals}
    known = [p for p in proposals if p.changes and not errors[p.id]]
    changes = [tuple(map(parse, proposal.changes)) for proposal in known]
    found = dict(zip((p.id for p in known), predict(trace, changes), strict=True))
    without = _unprofiled(trace, changes, overhead_ratio) if known and overhead_ratio and overhead_ratio > 1 else {}
    unprofiled = {p.id: without.get(c) for p, c in zip(known, changes, strict=True)}
    return [Replayed(p, found.get(p.id), unprofiled.get(p.id), errors[p.id]) for p in proposals]


def _error(trace: Trace, proposal: Proposal) -> str:
    try:
        joint_effect(ranks_of(trace).alone, list(map(parse, proposal.changes)))
    except NothingSuchError as missing:
        return missing.what
    except ChangeError as problem:
        return str(problem)
    return ""


def _unprofiled(trace: Trace, changes: Sequence[tuple[WhatIf, ...]], ratio: float) -> Mapping[tuple[WhatIf, ...], float]:
    """What the changes save where the host is faster by that ratio, as it is without the profiler; the device is not."""
    faster = WhatIf(HOST, factor=1 / ratio)
    alone, *both = predict(trace, [(faster,), *((faster, *several) for several in changes)])
    return {several: max(0.0, b.saving_ns - alone.saving_ns) for several, b in zip(changes, both, strict=True)}


def finding(found: Replayed) -> Finding:
    """With the saving that was replayed, or that the proposal knows; without either it saves no time.

    Confidence: that of the proposal at best; medium at best where a range is given or only a part of the time is expected to go;
    low where the replay does not explain the trace well enough.
    """
    proposal, prediction = found.proposal, found.prediction
    low = expected = high = 0.0
    confidence: Confidence = proposal.best_confidence
    if prediction:
        expected, high = proposal.expected_share * prediction.saving_ns, prediction.high_ns
        low = min(expected, proposal.least_share * prediction.low_ns)
        whole = prediction.point and proposal.expected_share == 1
        confidence = _least(confidence, "high" if whole else "medium" if prediction.point else "low")
    elif proposal.saving:
        low, expected, high = proposal.saving.low_ns, proposal.saving.expected_ns, proposal.saving.high_ns
    unprofiled = None if found.unprofiled_ns is None else proposal.expected_share * found.unprofiled_ns
    return Finding(
        id=proposal.id,
        title=proposal.title,
        problem=proposal.problem,
        advice=proposal.advice,
        saving_ns=expected,
        low_ns=low,
        high_ns=max(expected, high),
        confidence=confidence,
        evidence=proposal.evidence,
        bound=proposal.bound,
        phase=proposal.phase,
        changes=proposal.changes,
        assumes=_assumes(found),
        saving_unprofiled_ns=unprofiled,
    )


def _least(*confidences: Confidence) -> Confidence:
    return min(confidences, key=CONFIDENCES.index)


def _assumes(found: Replayed) -> tuple[str, ...]:
    """What must hold for the saving to come true, and why only its range counts."""
    reason = found.why_not or (found.prediction.reason if found.prediction else None)
    return tuple(half for half in (found.proposal.assumes, reason) if half)


def together(trace: Trace, ranked: Sequence[Finding], by_id: Mapping[str, Replayed]) -> tuple[Together, ...]:
    """The first two, and the first three, of the findings that were replayed, at once.

    Of the joint saving the share is expected that is expected of the single ones.
    """
    firsts = [f for f in ranked if f.saving_ns > 0 and by_id[f.id].prediction][:MOST_TOGETHER]
    several = [tuple(firsts[:count]) for count in range(2, len(firsts) + 1)]
    changes = [tuple(parse(change) for f in some for change in f.changes) for some in several]
    return tuple(_together(some, p, by_id) for some, p in zip(several, predict(trace, changes), strict=True))


def _together(some: Sequence[Finding], joint: Prediction, by_id: Mapping[str, Replayed]) -> Together:
    whole = sum(by_id[f.id].prediction.saving_ns for f in some)  # type: ignore[union-attr]
    share = sum(f.saving_ns for f in some) / whole if whole else 0.0
    step = float(joint.measured_ns.mean())
    expected = max(share * joint.saving_ns, *(f.saving_ns for f in some))  # never less than the first alone
    expected = min(expected, joint.saving_ns)
    low = min(expected, max(f.low_ns for f in some))
    least = step - max(expected, joint.high_ns)
    return Together(tuple(f.id for f in some), step, step - expected, least, step - low, step - some[0].saving_ns)
