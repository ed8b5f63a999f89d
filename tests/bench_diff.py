"""How often does a comparison claim a change where there is none, find one that is there, and hold its size? As Markdown.

python run.py bench diff [PAIRS] [TABLES]     simulated pairs a figure, 2000; pairs of tables a figure, 200
"""

import sys
from collections.abc import Iterator, Sequence

import numpy as np
from simulated_steps import IN_ORDER, INDEPENDENT, Floats, Shape, alike_tables, autoregressive, normal, runs

from longpole.analyze.diffs.changes import TABLES
from longpole.analyze.statistics import CHANCE, MeanChange, mean_change, mean_changes_at_once
from longpole.analyze.student import student_quantile

SIZES = ((6, 6), (6, 20), (10, 10), (20, 20), (40, 40), (40, 100), (100, 100))
TABLE_SIZES = (
    (6, 6, 0.0),
    (6, 20, 0.0),
    (10, 10, 0.0),
    (20, 20, 0.0),
    (40, 40, 0.0),
    (40, 40, 0.3),
    (40, 40, 0.6),
    (40, 40, 0.8),
)
RUN_COUNTS = ((2, 2), (3, 3), (4, 4), (4, 6), (8, 8))
STEPS = (6, 10, 20, 40, 100)
CHANGES = (0.02, 0.05, 0.2)
LIMIT = 0.03
COLUMNS = 200
RESAMPLES = 1000  # of the bootstrap that is compared
SEED = 5


def claims(found: MeanChange) -> Floats:
    return (found.low > 0) | (found.high < 0)


def compared(shape: Shape, before: int, after: int, pairs: int, change: float = 0.0) -> MeanChange:
    random = np.random.default_rng(SEED)
    old, new = shape(random, before, pairs), shape(random, after, pairs) * (1 + change)
    return mean_change([old], [new])


def false_claims(pairs: int) -> Iterator[Sequence[str]]:
    yield ["steps", *(f"{before} v {after}" for before, after in SIZES), "percentile bootstrap, 10 v 10", "40 v 40"]
    for name, shape in {**INDEPENDENT, **IN_ORDER}.items():
        own = [percent(claims(compared(shape, before, after, pairs)).mean()) for before, after in SIZES]
        yield [name, *own, *(percent(bootstrap_claims(shape, steps, pairs)) for steps in (10, 40))]


def bootstrap_claims(shape: Shape, steps: int, pairs: int) -> float:
    """Of the interval from the 2.5th to the 97.5th percentile of means of resampled steps, Efron 1979."""
    random = np.random.default_rng(SEED)
    means = [
        random.multinomial(steps, np.full(steps, 1 / steps), RESAMPLES) / steps @ shape(random, steps, pairs) for _ in range(2)
    ]
    low, high = np.percentile(means[1] - means[0], [2.5, 97.5], axis=0)
    return float(((low > 0) | (high < 0)).mean())


def run_claims(pairs: int) -> Iterator[Sequence[str]]:
    yield ["variation of steps", "one run a side", *(f"{before} v {after} runs" for before, after in RUN_COUNTS)]
    for cv in (0.02, 0.05):
        cells = [claims_of_runs(1, 1, cv, pairs), *(claims_of_runs(before, after, cv, pairs) for before, after in RUN_COUNTS)]
        yield [percent(cv, 0), *map(percent, cells)]


def claims_of_runs(before: int, after: int, cv: float, pairs: int, change: float = 0.0) -> float:
    return float(claims(of_runs(before, after, cv, pairs, change)).mean())


def of_runs(before: int, after: int, cv: float, pairs: int, change: float) -> MeanChange:
    random = np.random.default_rng(SEED)
    return mean_change(runs(random, before, pairs, cv), [run * (1 + change) for run in runs(random, after, pairs, cv)])


def table_claims(tables: int) -> Iterator[Sequence[str]]:
    yield ["steps", "max-T at 5 %", "as each of the tables of a diff", "Bonferroni, Welch's t"]
    for before, after, phi in TABLE_SIZES:
        random = np.random.default_rng(SEED)
        told = [table_claim(*alike_tables(random, before, after, COLUMNS, phi)) for _ in range(tables)]
        yield [f"{before} v {after}" + f", phi {phi}" * (phi > 0), *map(percent, np.mean(told, axis=0))]


def table_claim(before: Floats, after: Floats) -> tuple[bool, bool, bool]:
    one, part = (mean_changes_at_once([before], [after], chance) for chance in (CHANCE, CHANCE / TABLES))
    return bool(claims(one).any()), bool(claims(part).any()), bonferroni_claims(before, after)


def bonferroni_claims(before: Floats, after: Floats) -> bool:
    a, b = (side.var(axis=0, ddof=1) / len(side) for side in (before, after))
    varies = a + b > 0
    a, b, change = a[varies], b[varies], (after.mean(axis=0) - before.mean(axis=0))[varies]
    freedom = (a + b) ** 2 / (a * a / (len(before) - 1) + b * b / (len(after) - 1))
    return bool((np.abs(change) > student_quantile(CHANCE / len(change), freedom) * np.sqrt(a + b)).any())


def power(pairs: int) -> Iterator[Sequence[str]]:
    yield ["steps vary by", "change", *(f"{steps} v {steps}" for steps in STEPS), "4 v 4 runs"]
    shapes = {"2 %": normal(0.02), "5 %": normal(0.05), "5 %, AR(1) with phi 0.6": autoregressive(0.6)}
    for name, shape in shapes.items():
        for change in CHANGES:
            found = [compared(shape, steps, steps, pairs, change) for steps in STEPS]
            of_several = [] if "AR" in name else [of_runs(4, 4, 0.02 if name == "2 %" else 0.05, pairs, change)]
            cells = [f"{percent(claims(one).mean(), 0)}; {percent(held(one, change))}" for one in [*found, *of_several]]
            yield [name, f"+{percent(change, 0)}", *cells, *["–"] * (not of_several)]


def held(found: MeanChange, change: float) -> float:
    return float(((found.low <= change) & (change <= found.high)).mean())


def limits(pairs: int) -> Iterator[Sequence[str]]:
    yield ["steps vary by", "steps", *(f"+{percent(change, 0)}" for change in (0, 0.02, LIMIT, *CHANGES[1:]))]
    for cv in (0.02, 0.05):
        for steps in (10, 40):
            yield [
                percent(cv, 0),
                f"{steps} v {steps}",
                *(limit_cell(cv, steps, pairs, c) for c in (0, 0.02, LIMIT, *CHANGES[1:])),
            ]


def limit_cell(cv: float, steps: int, pairs: int, change: float) -> str:
    """How often the whole interval is beyond the limit; how often it excludes zero and the change is beyond the limit."""
    found = compared(normal(cv), steps, steps, pairs, change)
    shares = share_lows(found)
    point = (found.after / found.before - 1 > LIMIT) & (found.low > 0)
    return f"{percent((shares > LIMIT).mean())}; {percent(point.mean())}"


def share_lows(found: MeanChange) -> Floats:
    """The lower ends of after ÷ before − 1, of each column alone."""
    alone = [
        MeanChange(*(part[column : column + 1] for part in parts), found.unit)
        for column, parts in (
            (c, (found.before, found.after, found.before_variance, found.after_variance, found.critical))
            for c in range(len(found.before))
        )
    ]
    return np.array([1 / one.ratio.high - 1 if one.ratio else -np.inf for one in alone])


def percent(share: float, decimals: int = 1) -> str:
    return f"{100 * share:.{decimals}f} %"


def printed(title: str, rows: Iterator[Sequence[str]]) -> None:
    head, *cells = rows
    print(f"\n{title}\n")
    for row in (head, ["---"] * len(head), *cells):
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> int:
    pairs, tables = (int(given) if given else usual for given, usual in zip([*sys.argv[1:3], "", ""], (2000, 200), strict=False))
    error = 1.96 * np.sqrt(CHANCE * (1 - CHANCE) / pairs)
    printed(f"False claims about the step, of {pairs:,} pairs; 5 % is ± {percent(error)}", false_claims(pairs))
    printed("False claims where runs differ by 1 %; runs of 10 to 60 steps", run_claims(pairs))
    printed(f"Comparisons of {COLUMNS} rows that call any changed, of {tables:,} without a change", table_claims(tables))
    printed("Changes found; intervals that hold the change", power(pairs))
    printed(
        f"Slower by more than {percent(LIMIT, 0)}: the whole interval beyond it; real, and the change beyond it", limits(pairs)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
