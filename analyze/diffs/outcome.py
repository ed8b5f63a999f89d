"""Did the changes save what was predicted?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...capture.errors import MissingData
from ..analyses.phases import phases
from ..contents import analyses_for
from ..findings import Finding, ranked
from ..joint import Together, together
from ..proposals import Saving
from ..run import Section, run
from ..statistics import Interval
from ..step_time import OTHER
from ..trace import Trace
from .comparability import comparability
from .fates import GONE, Fate, fates
from .sides import Side, typical
from .step_change import StepChange, step_change

AS_PREDICTED, LESS, MORE, CANNOT_BE_TOLD = "as_predicted", "less_than_predicted", "more_than_predicted", "cannot_be_told"


@dataclass(frozen=True)
class Comparison:
    """What was predicted to be saved per step, and what the whole step takes less, in one time base.

    `predicted`: None where several findings are gone that were not predicted together. `interval`: of `measured_ns`.
    """

    predicted: Saving | None
    measured_ns: float
    interval: Interval | None

    @property
    def word(self) -> str | None:
        """Whether what was measured, or its interval, meets the predicted range; None where there is none."""
        if self.predicted is None:
            return None
        if self.interval is None:
            return CANNOT_BE_TOLD
        least, most = min(self.interval.low, self.measured_ns), max(self.interval.high, self.measured_ns)
        if most < self.predicted.low_ns:
            return LESS
        if least > self.predicted.high_ns:
            return MORE
        return AS_PREDICTED if self.interval.excludes_zero() else CANNOT_BE_TOLD


@dataclass(frozen=True, eq=False)
class Outcome:
    """`fates` of all findings. Of what is gone and was to save time, all at once: `profiled` and `unprofiled`, None where nothing
    is gone, where the runs cannot be compared, or where a bundle has no steps without the profiler. `phase_change_ns`: of the
    phase of the only one gone, None where nothing marks it and on GPU runs.
    """

    fates: tuple[Fate, ...]
    comparable: bool
    profiled: Comparison | None
    unprofiled: Comparison | None
    phase_change_ns: float | None

    @property
    def gone(self) -> tuple[Fate, ...]:
        """Of those that were to save time."""
        return tuple(fate for fate in self.fates if fate.status == GONE and fate.finding.saves)

    @property
    def decisive(self) -> Comparison | None:
        """The steps without the profiler are what users have; the recorded ones count where those say nothing."""
        known = self.unprofiled
        return known if known and known.predicted and known.interval else self.profiled

    @property
    def word(self) -> str | None:
        return self.decisive.word if self.decisive else None


@lru_cache(maxsize=2)  # what limits the second run is told from the same
def explained(trace: Trace) -> tuple[Section, ...]:
    """One run by itself."""
    return run(analyses_for(trace), trace)


def outcome(before: Side, after: Side) -> Outcome:
    """What became of the findings of the typical runs, and what was predicted beside what was measured on all."""
    first, second = typical(before), typical(after)
    old, new = explained(first), explained(second)
    found = fates(*(ranked(finding for section in sections for finding in section.findings) for sections in (old, new)))
    if not found:
        raise MissingData("Neither run has a finding, so nothing was predicted.")
    comparable = comparability(before, after).comparable
    gone = [fate.finding for fate in found if fate.status == GONE and fate.finding.saves]
    profiled = unprofiled = None
    if gone and comparable:
        profiled, unprofiled = _comparisons(step_change(before, after), gone, together(old))
    return Outcome(found, comparable, profiled, unprofiled, _phase_change(first, second, gone) if profiled else None)


def _comparisons(step: StepChange, gone: Sequence[Finding], joint: Sequence[Together]) -> tuple[Comparison, Comparison | None]:
    predicted, share = _predicted(gone, joint), _unprofiled_share(gone)
    profiled = Comparison(predicted, -step.change_ns, _less(step.interval))
    if step.unprofiled_before_ns is None or step.unprofiled_after_ns is None:
        return profiled, None
    measured = step.unprofiled_before_ns - step.unprofiled_after_ns
    scaled = _scaled(predicted, share) if predicted and share is not None else None
    return profiled, Comparison(scaled, measured, _less(step.unprofiled_interval))


def _predicted(gone: Sequence[Finding], joint: Sequence[Together]) -> Saving | None:
    """Of one finding its own saving, of several only what was predicted of exactly these at once: savings do not add up."""
    if len(gone) == 1:
        return Saving(gone[0].low_ns, gone[0].saving_ns, gone[0].high_ns)
    ids = {finding.id for finding in gone}
    return next((_of_several(some) for some in joint if set(some.ids) == ids), None)


def _of_several(some: Together) -> Saving:
    return Saving(some.step_ns - some.most_ns, some.step_ns - some.after_ns, some.step_ns - some.least_ns)


def _unprofiled_share(gone: Sequence[Finding]) -> float | None:
    """Saving without ÷ with the profiler, where it is known and the same of all."""
    known = [f.saving_unprofiled_ns / f.saving_ns for f in gone if f.saving_unprofiled_ns is not None and f.saving_ns > 0]
    alike = len(known) == len(gone) and max(known) - min(known) <= 1e-9 * max(known)
    return known[0] if alike else None


def _scaled(saving: Saving, share: float) -> Saving:
    return Saving(saving.low_ns * share, saving.expected_ns * share, saving.high_ns * share)


def _less(change: Interval | None) -> Interval | None:
    return None if change is None else Interval(-change.high, -change.low)


def _phase_change(before: Trace, after: Trace, gone: Sequence[Finding]) -> float | None:
    """Of the phase in which the only finding was; on a GPU run the host's phases do not hold what is saved."""
    if len(gone) != 1 or gone[0].phase == OTHER or len(before.device):
        return None
    old, new = (phases(trace).per_step.mean().to_dict() for trace in (before, after))
    return new.get(gone[0].phase, 0.0) - old[gone[0].phase] if gone[0].phase in old else None
