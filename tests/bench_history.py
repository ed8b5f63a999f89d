"""How often does `longpole history` name a change that is not there, and find one that is? Simulated histories, as Markdown.

python run.py bench history [--histories 2000]

Runs vary independently by one standard deviation, 1 % of their mean. The exit status is 1 where significantly more than 5 % of
the histories without a change show one.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from bench_load import say, table

from longpole.analyze.change_points import CHANCE, Changes, Stretch, changes

MEAN = 100.0  # of which one standard deviation of the runs is 1 %
SEED = 5
RUNS = (8, 12, 20, 40)
SHIFTS = (1, 2, 3)  # standard deviations

Random = np.random.Generator
Values = np.ndarray
Noise = Callable[[Random, int], Values]


def normal(random: Random, count: int) -> Values:
    return random.standard_normal(count)


def heavy(random: Random, count: int) -> Values:
    """Student's t with 3 degrees of freedom: one run in 70 is more than 3 standard deviations off, of normal ones one in 370."""
    return random.standard_t(3, count) / math.sqrt(3)


def skewed(random: Random, count: int) -> Values:
    """Log-normal: some runs take much longer, none much less."""
    return (random.lognormal(0, 1, count) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


NOISES: dict[str, Noise] = {"normal": normal, "heavy-tailed": heavy, "skewed": skewed}


def found(values: Values, *borders: int) -> Changes:
    edges = [0, *borders, len(values)]
    return changes({"step": values}, [Stretch("step", a, b) for a, b in pairwise(edges)])


def named(of: Changes) -> bool:
    return bool(of.points or of.drifts)


def unchanged(noise: Noise, random: Random) -> bool:
    """Whether a history of 8 to 40 runs without a change shows one."""
    return named(found(MEAN + noise(random, int(random.integers(8, 41)))))


def unchanged_with_break(noise: Noise, random: Random) -> bool:
    """The same of two machines, of 8 to 20 runs each, of which one takes twice as long."""
    before, after = random.integers(8, 21, 2)
    values = MEAN + noise(random, before + after)
    values[before:] *= 2
    return named(found(values, int(before)))


def unchanged_with_memory(noise: Noise, random: Random) -> bool:
    """The same of step and memory of 9 to 40 runs."""
    count = int(random.integers(9, 41))
    means = {"step": MEAN + noise(random, count), "peak": MEAN + noise(random, count)}
    return named(changes(means, [Stretch(metric, 0, count) for metric in means]))


ERRORS = {
    "8 to 40 runs": unchanged,
    "two stretches of 8 to 20": unchanged_with_break,
    "9 to 40, step and memory": unchanged_with_memory,
}


def margin(share: float, count: int) -> float:
    """Half of the 95 % interval of a share of so many."""
    return 1.96 * math.sqrt(max(share * (1 - share), 1 / count) / count)


def error_rows(histories: int) -> tuple[list[tuple[str, ...]], bool]:
    """And whether all are at most CHANCE, as far as so many histories can tell."""
    rows, fine = [], True
    for title, once in ERRORS.items():
        shares = []
        for name, noise in NOISES.items():
            say(f"no change: {title}, {name}")
            random = np.random.default_rng(SEED)
            shares.append(sum(once(noise, random) for _ in range(histories)) / histories)
        fine &= all(share - margin(share, histories) <= CHANCE for share in shares)
        rows.append((title, *(f"{100 * share:.1f} ± {100 * margin(share, histories):.1f} %" for share in shares)))
    return rows, fine


@dataclass(frozen=True)
class Outcome:
    """Of one history with a change. All but `seen` are of the change that was named, False where none was."""

    seen: bool
    right_place: bool = False
    near: bool = False  # at most one run off
    place_held: bool = False
    share_held: bool = False
    drift: bool = False
    more: bool = False  # another change beside it


def outcome(noise: Noise, count: int, shift: float, random: Random) -> Outcome:
    """Of a shift anywhere that leaves two runs on both sides."""
    at = int(random.integers(2, count - 1))
    values = MEAN + noise(random, count)
    values[at:] += shift
    told = found(values)
    if not told.points:
        return Outcome(named(told), drift=bool(told.drifts))
    point = min(told.points, key=lambda one: one.chance)
    held = point.interval is not None and point.interval.low <= shift / MEAN <= point.interval.high
    return Outcome(
        True, point.at == at, abs(point.at - at) <= 1, point.earliest <= at <= point.latest, held, more=len(told.points) > 1
    )


def power_row(name: str, count: int, shift: float, histories: int) -> tuple[str, ...]:
    say(f"{name}, {count} runs, shift of {shift}")
    random = np.random.default_rng(SEED)
    seen = [one for _ in range(histories) if (one := outcome(NOISES[name], count, shift, random)).seen]
    points = [one for one in seen if not one.drift]

    def share(told: Sequence[bool], of: int) -> str:
        return f"{100 * sum(told) / of:.0f} %" if of >= 20 else "–"

    return (
        name, str(count), str(shift), share([True] * len(seen), histories), share([one.drift for one in seen], len(seen)),
        *(share([getattr(one, field) for one in points], len(points))
          for field in ("right_place", "near", "place_held", "share_held", "more")),
    )  # fmt: skip


def drift_row(count: int, total: float, histories: int) -> tuple[str, ...]:
    """Of runs on a straight line, which rises by so many standard deviations from the first run to the last."""
    say(f"drift, {count} runs, {total}")
    random = np.random.default_rng(SEED)
    told = [found(MEAN + normal(random, count) + total * np.linspace(0, 1, count)) for _ in range(histories)]
    jumps, drifts = sum(bool(one.points) for one in told), sum(bool(one.drifts) for one in told)
    return str(count), str(total), f"{100 * drifts / histories:.0f} %", f"{100 * jumps / histories:.0f} %"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python run.py bench history", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=2000, help="of each kind (2000)")
    histories = parser.parse_args().histories
    errors, fine = error_rows(histories)
    print(f"Of {histories} histories without a change, how many show one (at most {100 * CHANCE:.0f} % are allowed):", end="\n\n")
    print(table(("histories", *NOISES), errors), end="\n\n")
    heads = (
        "runs vary", "runs", "shift, s.d.", "found", "as drift", "at its place", "at most 1 run off", "place in its range",
        "size in its interval", "another beside it",
    )  # fmt: skip
    row = partial(power_row, histories=max(histories // 4, 1))
    print(table(heads, [row(name, count, shift) for name in ("normal", "heavy-tailed") for count in RUNS for shift in SHIFTS]))
    print()
    drifts = [drift_row(count, total, max(histories // 4, 1)) for count in RUNS[1:] for total in (3, 6)]
    print(table(("runs on a line", "rise, s.d.", "told as drift", "told as change point"), drifts))
    return not fine


if __name__ == "__main__":
    sys.exit(main())
