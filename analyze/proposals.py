"""A change worth trying: what an advice gives, before it is replayed and becomes a Finding with a saving."""

from dataclasses import dataclass

from .findings import Confidence, Evidence, Text


@dataclass(frozen=True)
class Saving:
    """Nanoseconds a step, where a proposal knows without a replay."""

    low_ns: float
    expected_ns: float
    high_ns: float


@dataclass(frozen=True)
class Proposal:
    """Something to change, and what it does to the recorded work.

    `changes`: in the words of `longpole whatif` ("sync:aten::item x0"), all at once; what they save is replayed. A fix seldom
    does all of it: `expected_share` and `least_share` are the parts of the replayed saving to be expected and to be had in any
    case, by the proposal's own written rule. The most is the whole.
    `saving`: instead of changes, where the proposal knows what is saved. Without either it is worth knowing, and saves no time.
    `assumes`: what must hold for the saving to come true, as a half sentence ("the host does not need the value at once"); empty
    where nothing beyond the trace is assumed.
    """

    id: str
    title: Text  # the change, as an imperative
    problem: Text
    advice: Text
    bound: str
    phase: str
    evidence: tuple[Evidence, ...]
    changes: tuple[str, ...] = ()
    expected_share: float = 1.0
    least_share: float = 0.0
    saving: Saving | None = None
    best_confidence: Confidence = "high"
    assumes: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.least_share <= self.expected_share <= 1:
            raise ValueError(f"shares out of order in {self.id}: {self.least_share}, {self.expected_share}")
        if self.changes and self.saving:
            raise ValueError(f"{self.id} is both to be replayed and known")
