"""Does the GPU get its data from pageable memory?"""

from collections.abc import Iterator

from ...capture.errors import MissingData
from ..analyses.copies import AT_PINNED_SPEED, copies
from ..findings import Evidence, Text
from ..proposals import Proposal
from ..trace import Trace

UNKNOWN_SPEED_SHARE = 0.5  # of their time: a driver's copy into its own buffer costs about as much as the way to the GPU
NOT_SHOWN = "pinned copies are faster here, too, which no copy of the recording shows"


def pageable_copies(trace: Trace) -> Iterator[Proposal]:
    """Copies from pageable memory that take a notable part of the recording.

    Pinned memory makes them faster: as fast as the pinned copies of the same trace, where there are some; without one only their
    whole time can be given, as what they may save at the most.
    """
    try:
        found = copies(trace)
    except MissingData:
        return
    if not found.costly:
        return
    total, known = found.total, AT_PINNED_SPEED not in found.withheld and found.total["pinned_h2d_gbps"] > 0
    evidence = [
        Evidence("copies from pageable memory", "copies_count", int(total["pageable_h2d_count"])),
        Evidence("their time", "copies_ns", int(total["pageable_h2d_ns"])),
    ]
    if known:
        evidence.append(Evidence("their time at the speed of the pinned copies here", "pinned_ns", total[AT_PINNED_SPEED]))
    yield Proposal(
        id="pageable_copies",
        title=Text.of("Copy to the GPU from pinned memory"),
        problem=Text.of(
            "{copies_count:copy to the GPU reads|copies to the GPU read} pageable memory, {copies_ns} in "
            "the recording; the driver first copies such data into a buffer of its own, and the host waits.",
            copies_count=int(total["pageable_h2d_count"]), copies_ns=int(total["pageable_h2d_ns"]),
        ),
        advice=Text.of(
            "Give the DataLoader pin_memory=True and copy with .to(device, non_blocking=True). Do not call pin_memory() on each "
            "tensor right before its copy: that costs what it saves."
        ),
        bound="copy",
        phase="input",
        evidence=tuple(evidence),
        changes=("copy:h2d pinned",) if known else ("copy:pageable x0",),
        expected_share=1.0 if known else UNKNOWN_SPEED_SHARE,
        best_confidence="medium",
        assumes="pinned copies run as fast as the pinned ones of this recording" if known else NOT_SHOWN,
    )  # fmt: skip
