"""What does longpole say of real traces? The verdict on each, with the numbers that defend it, as Markdown.

python run.py bench verdicts TRACE…
"""

import sys
from pathlib import Path

from longpole.analyze.contents import analyses_for
from longpole.analyze.load import load
from longpole.analyze.run import run
from longpole.reports import formats as f
from longpole.reports.model import Report, run_report
from longpole.reports.prose import sentence
from longpole.reports.saving_words import range_text, saving_text

HEADS = ("trace", "verdict", "a step goes to", "first change", "saves", "range", "replay")
LEAST_SHARE = 0.05  # of the step: a smaller part defends nothing


def row(path: Path) -> tuple[str, ...]:
    trace = load(path)
    report = run_report(run(analyses_for(trace), trace), trace)
    first = report.findings[0] if report.findings and report.findings[0].saves else None
    said = (sentence(first.title), saving_text(first), range_text(first)) if first else ("none", "", "")
    return path.name.split(".")[0], sentence(report.verdict.sentence), parts(report), *said, replay(report)


def parts(report: Report) -> str:
    buckets, phases = report.result("buckets"), report.result("phases")
    if buckets is not None and buckets.told:
        shares = buckets.periods.groupby("label", sort=False)["period_share"].mean()  # of all GPUs
    elif phases is not None and phases.marked:
        shares = phases.ranked.set_index("phase")["phase_share"]
    else:
        return "withheld" if buckets is not None else "not marked"
    large = shares[shares >= LEAST_SHARE].sort_values(ascending=False)
    return "; ".join(f"{label} {f.share(share)}" for label, share in large.items())


def replay(report: Report) -> str:
    found = report.result("savings")
    if found is None:
        return "no GPU work"
    return found.reason or f"explains it to {f.share(found.quality.worst_structural)}"


def main() -> int:
    if len(sys.argv) < 2:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    rows = [row(Path(path)) for path in sorted(sys.argv[1:])]
    for cells in (HEADS, ["---"] * len(HEADS), *rows):
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
