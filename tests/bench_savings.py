"""Is what longpole predicts what a fix saves? Programs before and after one change, beside the prediction, as Markdown.

python run.py bench savings [PAIR…] [--repeats 5]

Each repeat records `before` (its steps without a profiler are the measured ones, its profiled ones give the prediction) and times
`after`, in turn. A point may differ from the measured saving, and a range may miss it, by 25 % of it or by its own 95 % interval,
whichever is more. The exit status is 1 where one is over, or where the first finding is not the cause.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench_load import finished, processor, say, table

PROFILED, WARMUP = 20, 3
COLD = 10  # first steps of a program, set aside
ALLOWED_SHARE = 0.25
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # 97.5 %, by number of values


def repeat(name: str, folder: Path) -> dict[str, Any]:
    """Mean steps before and after without a profiler, and the first finding on the recording of before; ns."""
    from make_report import run_report_of
    from worked_pairs import PAIRS, Stopwatch, one_thread, recorded

    from longpole.capture.bundle import read_manifest

    pair, watch = PAIRS[name], Stopwatch()
    wait = COLD + pair.steps
    recorded(name, "before", folder, wait + WARMUP + PROFILED, wait=wait, warmup=WARMUP, steps=PROFILED, force=True)
    with one_thread():
        pair.after(watch, wait)
    before = statistics.mean(read_manifest(folder).unprofiled_step_ns[COLD:])
    after = statistics.mean(watch.step_ns[COLD:]) * (pair.samples[0] / pair.samples[1] if pair.samples else 1)
    findings = run_report_of(folder).findings
    return {"before": before, "after": after, "finding": _told(findings[0]) if findings else None}


def _told(finding: Any) -> dict[str, Any]:
    share = finding.saving_unprofiled_ns / finding.saving_ns
    return {"id": finding.id, **{key: share * getattr(finding, f"{key}_ns") for key in ("low", "saving", "high")}}


@dataclass(frozen=True)
class Outcome:
    """Of all repeats, ms. `wide`: half of the 95 % interval of the measured saving."""

    title: str
    point: bool
    right_cause: bool
    first: str
    before: float
    low: float
    saving: float
    high: float
    measured: float
    wide: float

    @property
    def allowed(self) -> float:
        return max(ALLOWED_SHARE * abs(self.measured), self.wide)

    @property
    def error(self) -> float:
        """Of a point its distance, of a range how far it misses."""
        low, high = (self.saving, self.saving) if self.point else (self.low, self.high)
        return max(low - self.measured, self.measured - high, 0.0)

    @property
    def ok(self) -> bool:
        return self.right_cause and self.error <= self.allowed

    def row(self) -> tuple[str, ...]:
        predicted = f"{self.saving:.2f}" if self.point else f"{self.saving:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return (
            self.title, self.first, f"{self.before:.2f}", predicted, f"{self.measured:.2f} ± {self.wide:.2f}",
            f"{self.error:.2f}", f"≤ {self.allowed:.2f}", "ok" if self.ok else "OVER" if self.right_cause else "WRONG CAUSE",
        )  # fmt: skip


def outcome(found: dict[str, Any]) -> Outcome:
    repeats = found["repeats"]
    ids = Counter(r["finding"]["id"] if r["finding"] else "none" for r in repeats)
    told = [r["finding"] for r in repeats if r["finding"] and r["finding"]["id"] == found["cause"]]
    predicted = {key: statistics.mean([t[key] for t in told]) / 1e6 if told else 0.0 for key in ("low", "saving", "high")}
    savings = [(r["before"] - r["after"]) / 1e6 for r in repeats]
    deviation = statistics.stdev(savings) if len(savings) > 1 else float("inf")
    wide = STUDENT.get(len(savings), STUDENT[10]) * deviation / len(savings) ** 0.5
    return Outcome(
        title=found["title"], point=found["point"], right_cause=len(told) == len(repeats),
        first=", ".join(f"{name} ({n}×)" if len(ids) > 1 else name for name, n in ids.most_common()),
        before=statistics.mean([r["before"] for r in repeats]) / 1e6, **predicted, measured=statistics.mean(savings), wide=wide,
    )  # fmt: skip


def measured(name: str, repeats: int) -> dict[str, Any]:
    from worked_pairs import PAIRS

    pair = PAIRS[name]
    with tempfile.TemporaryDirectory(prefix="bench_savings_") as folder:
        runs = [repeat(name, Path(folder) / "before") for _ in range(repeats)]
    return {"title": pair.title, "cause": pair.cause, "point": pair.point, "repeats": runs}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python run.py bench savings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="names of tests/worked_pairs.py; all without one")
    parser.add_argument("--repeats", type=int, default=5, help="of before and after in turn (5)")
    parser.add_argument("--measure", metavar="PAIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure, options.repeats)))
        return 0
    from worked_pairs import COMPILER, PAIRS

    outcomes = []
    if not COMPILER:
        say("without a C++ compiler torch.compile is left out")
    for name in options.pairs or PAIRS:
        say(name)
        printed = finished([__file__, "--measure", name, "--repeats", str(options.repeats)])[0]
        outcomes.append(outcome([json.loads(printed.splitlines()[-1])]))
    heads = ("pair", "first finding", "before, ms", "predicted saving", "measured", "error", "allowed", "")
    print(f"{processor()}, {os.cpu_count()} cores; torch {version('torch')}, one thread; {options.repeats} repeats.", end="\n\n")
    print(table(heads, [each.row() for each in outcomes]))
    return not all(each.ok for each in outcomes)


if __name__ == "__main__":
    sys.exit(main())
