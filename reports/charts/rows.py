"""What charts are drawn from, in nanoseconds, and what they become."""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_PHASES = 15  # more colours than that cannot be told apart


@dataclass(frozen=True)
class Chart:
    """`svg` goes inline into HTML or behind an image into the PDF; `alt` says in words what it shows."""

    id: str
    svg: str
    alt: str


@dataclass(frozen=True)
class Part:
    """One phase of a step; `fill` is a token of the palette."""

    label: str
    fill: str
    ns: float


@dataclass(frozen=True)
class StepColumn:
    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Change:
    """What one phase adds to the difference; without an interval it is drawn as uncertain."""

    label: str
    change_ns: float
    low_ns: float | None = None
    high_ns: float | None = None


@dataclass(frozen=True)
class Dots:
    """The step times of one run, their mean and its interval."""

    label: str
    values_ns: tuple[float, ...]
    mean_ns: float
    low_ns: float
    high_ns: float
    fill: str = "ink3"


@dataclass(frozen=True)
class OpChange:
    label: str
    before_ns: float
    after_ns: float
    low_ns: float | None = None  # of the change
    high_ns: float | None = None


@dataclass(frozen=True)
class Piece:
    """From one moment to the next a value is never below `low` and never above `high`."""

    start_ns: float
    end_ns: float
    low: float
    high: float


@dataclass(frozen=True)
class Lane:
    """One value over time; `peak_ns`: when it is highest for the first time."""

    label: str
    pieces: tuple[Piece, ...]
    peak_ns: float


@dataclass(frozen=True)
class StepSpan:
    label: str
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class RunDot:
    """One run: its mean, and the interval of that, where there is one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Level:
    """What the runs from `first` up to, and without, `after` are about: from its begin to its end, alike unless they drift."""

    first: int
    after: int
    begin: float
    end: float


@dataclass(frozen=True)
class Jump:
    """Where a mean changes: before run `at`, in doubt anywhere from `earliest` to `latest`; `fill`: good or bad."""

    at: int
    text: str
    fill: str
    earliest: int
    latest: int


@dataclass(frozen=True)
class RunLane:
    """One value over runs, None where it was not recorded. `name` ends in its unit."""

    label: str
    name: str
    dots: tuple[RunDot | None, ...]
    levels: tuple[Level, ...]
    jumps: tuple[Jump, ...]


@dataclass(frozen=True)
class RunBreak:
    """From run `at` on values do not compare with those before."""

    at: int
    text: str


def largest_parts(parts: Iterable[Part], most: int = MOST_PHASES) -> tuple[Part, ...]:
    """The parts that take time, in order; of too many, the smallest become one at the end."""
    drawn = tuple(p for p in parts if p.ns > 0)
    if len(drawn) <= most:
        return drawn
    ranked = sorted(range(len(drawn)), key=lambda i: (-drawn[i].ns, i))
    kept, rest = sorted(ranked[: most - 1]), ranked[most - 1 :]
    return (*(drawn[i] for i in kept), Part(smaller(len(rest)), "other", sum(drawn[i].ns for i in rest)))


def smaller(n: int, noun: str = "part") -> str:
    return f"{n} smaller {noun}{'s' if n > 1 else ''}"
