"""What can be changed in a replay; text such as "kernel:gemm x0.5" -> WhatIf, or a sentence that tells what is possible."""

import re
from dataclasses import dataclass

from ...capture.errors import ChangeError

KERNEL = "kernel"  # device work of a class, or whose name fits
OP = "op"  # all inside calls of an operator: host time, and the device work launched there
MODULE = "module"  # all inside a module, backward included
PHASE = "phase"  # all inside a phase
HOST = "host"  # host time: all of it, or that inside ranges of a name, or of a phase
COPY = "copy"  # copies: all, or h2d, d2h, d2d
COMM = "comm"  # kernels of communication
SYNC = "sync"  # waits for the device: all, or by the call's name, or inside ranges of a name
LAUNCH = "launch"  # gaps between kernels that a graph of them would not have
GRAPH = "graph"  # the host launches at no cost
DATA = "data"  # the wait for data
NEEDS_PATTERN = (KERNEL, OP, MODULE, PHASE)
TAKES_PATTERN = (*NEEDS_PATTERN, HOST, COPY, SYNC)
ONLY_GONE = (SYNC, LAUNCH, GRAPH, DATA)  # a wait is there or not
# What a fix of this kind saves at most: the host may need the value, peers may be waited for, launches are never free.
CEILINGS = (SYNC, COMM, GRAPH, LAUNCH)
PINNED = "pinned"
WRITTEN = re.compile(r"(?P<kind>[a-z]+)(:(?P<pattern>.+?))?(\s+(?P<how>pinned|x\s*(?P<factor>[0-9.]+)))?", re.IGNORECASE)
POSSIBLE = (
    "kernel:gemm x0.5, op:aten::addmm x0.5, module:Linear_0 x0.5, phase:optimizer x0.5, host x0.5, host:NAME x0.5, comm x0, "
    "copy:h2d pinned, copy x0, sync x0, sync:aten::item x0, data x0, launch x0, graph"
)


@dataclass(frozen=True)
class WhatIf:
    """One change: what, and how much of its time is left. `pinned`: copies run as fast as those from pinned memory."""

    kind: str
    pattern: str = ""
    factor: float = 0.0
    pinned: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.factor <= 1:
            raise ChangeError(
                f"A what-if can leave 0 to 1 times of the time, not {self.factor:g}: a saving is what is looked for."
            )

    @property
    def is_ceiling(self) -> bool:
        """Whether a fix saves at most what is predicted, and may save nothing.

        Of a part that is left the kind alone decides: what leaves less never saves less at the least.
        """
        return self.kind in CEILINGS

    def __str__(self) -> str:
        what = f"{self.kind}:{self.pattern}" if self.pattern else self.kind
        return what if self.kind == GRAPH else f"{what} {PINNED}" if self.pinned else f"{what} x{self.factor:g}"


def parse(text: str) -> WhatIf:
    """ChangeError, one sentence, for anything else than what POSSIBLE shows."""
    found = WRITTEN.fullmatch(text.strip())
    kind = found["kind"].lower() if found else ""
    if not found or kind not in (*TAKES_PATTERN, COMM, LAUNCH, GRAPH, DATA):
        raise ChangeError(f"{text!r} is no change that can be replayed; possible are, for instance: {POSSIBLE}.")
    pattern, how = (found["pattern"] or "").strip(), (found["how"] or "").lower()
    if kind in NEEDS_PATTERN and not pattern:
        raise ChangeError(f"{text!r} does not say which {kind}; write, for instance, {_example(kind)}.")
    if pattern and kind not in TAKES_PATTERN:
        raise ChangeError(f"{text!r}: {kind} is changed as a whole; write {_example(kind)}.")
    if how == PINNED:
        if kind != COPY:
            raise ChangeError(f"{text!r}: only copies can be pinned; write copy:h2d pinned.")
        return WhatIf(COPY, pattern or "h2d", 0.0, pinned=True)
    if not how and kind != GRAPH:
        raise ChangeError(f"{text!r} does not say how much of the time is left; write, for instance, {_example(kind)}.")
    factor = _factor(text, found["factor"]) if how else 0.0
    if kind in ONLY_GONE and factor != 0:
        raise ChangeError(f"{text!r}: this can only be taken away altogether; write {_example(kind)}.")
    return WhatIf(kind, pattern, factor)


def _factor(text: str, written: str) -> float:
    try:
        return float(written)
    except ValueError:
        raise ChangeError(f"{text!r}: {written} is no number.") from None


def _example(kind: str) -> str:
    return next(example for example in POSSIBLE.split(", ") if re.match(rf"{kind}\b", example))
