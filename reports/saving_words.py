"""What a finding saves, and how a replay explains a trace -> words, the same in every report."""

from ..analyze.findings import Finding
from ..analyze.joint import Together
from ..analyze.replay.quality import Quality
from . import formats as f

BOUND_NAMES = {
    "host": "the host", "data": "data", "launch": "launches and the gaps between kernels",
    "synchronization": "the return from a wait for the GPU", "compute": "computing", "copy": "copies",
    "communication": "communication", "unrecorded": "gaps inside graphs", "unexplained": "what the recording does not explain",
}  # fmt: skip


def excerpt_line(known: Quality) -> str:
    """Which steps of a long recording are replayed; nothing where all are."""
    if known.of_steps_count is None:
        return ""
    which = "is replayed: the one" if known.steps_count == 1 else "are replayed: those in a row around the one"
    return f"{known.steps_count:,} of {known.of_steps_count:,} steps {which} of median length."


def quality_line(known: Quality) -> str:
    """How well the replay explains a trace, and the ranks beside it."""
    return " ".join(filter(None, (_own_line(known), ranks_line(known))))


def ranks_line(known: Quality) -> str:
    """Whether the ranks of a run are replayed together; nothing of a single one."""
    if known.untied:
        return f"The other ranks are not replayed with it: {known.untied}."
    if known.between_ranks is None:
        return ""
    return (
        f"All {known.ranks_count} ranks are replayed together, so that none leaves a collective before the last has come; that "
        f"explains the steps of each to {f.share(known.between_ranks)}."
    )


def _own_line(known: Quality) -> str:
    if known.trivial:
        return "The host's own time alone decides it; what the host waits for outside of recorded calls counts as its own."
    unexplained, unrecorded = f.share(known.unexplained_share), f.share(known.unrecorded_share)
    return (
        f"The replay explains it to {f.share(known.worst_structural)}; of the time that decides it {unexplained} is unexplained, "
        f"{unrecorded} gaps inside graphs; {known.inferred_count} inferred dependencies lie on it."
    )


def no_more(together: Together) -> str:
    """Behind changes made at once, where only the first of them counts."""
    return "" if together.adds else ", which save hardly more than the first alone"


def saving_text(finding: Finding) -> str:
    """What the step changes by; nothing for what is only worth knowing."""
    return f.time(-finding.saving_ns) if finding.saves else f.UNKNOWN


def range_text(finding: Finding) -> str:
    """The most and the least of it."""
    return f.interval(f.time(-finding.high_ns), f.time(-finding.low_ns)) if finding.saves else "worth knowing"
