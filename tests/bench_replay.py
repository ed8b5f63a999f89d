"""What does the replay cost? CPU time of the graph, of one pass with 20 candidates, and of the rest, for each 100,000 events.

python run.py bench replay [FILE…] [--runs 3] [--size 0.028] [--keep FOLDER]

Without FILE it is a generated trace of so many GB (0.028: 100,000 events). Every measurement is a process of its own, of which
the least time counts: other programs on the machine only ever add to it. The exit status is 1 where a limit is exceeded.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_analyze import cpu_of, least
from bench_load import finished, of_a_trace, say, table

CANDIDATES = 20
GRAPH_LIMIT, SWEEP_LIMIT = 1.0, 0.5  # seconds of CPU for 100,000 events
EVENTS = 100_000


def measured(path: Path) -> dict[str, Any]:
    """CPU seconds of this process by part, what other analyses share made before; the size of the graph."""
    import numpy as np

    from longpole.analyze.launches import missing_work
    from longpole.analyze.load import load
    from longpole.analyze.replay.critical_path import critical_path
    from longpole.analyze.replay.graph import graph
    from longpole.analyze.replay.host_shares import host_shares
    from longpole.analyze.replay.quality import quality
    from longpole.analyze.replay.sweep import sweep
    from longpole.analyze.replay.whatif import parse, predict
    from longpole.analyze.step_work import step_work

    trace = load(path)
    step_work(trace)
    missing_work(trace)
    parts = {}
    parts["graph"], found = cpu_of(lambda: graph(trace))
    weights = np.repeat((found.weight_ns + found.residual_ns)[:, None], CANDIDATES, axis=1)
    parts["sweep"] = cpu_of(lambda: sweep(found, weights))[0]
    parts["quality"] = cpu_of(lambda: quality(trace))[0]
    parts["host shares"] = cpu_of(lambda: host_shares(found))[0]
    parts["critical path"] = cpu_of(lambda: critical_path(trace))[0]
    changes = [(parse(f"host x{number / CANDIDATES}"),) for number in range(CANDIDATES)]
    parts["predict"] = cpu_of(lambda: predict(trace, changes))[0]
    return {"events": trace.coverage.total, "nodes": len(found.nodes), "edges": len(found.edges), "parts": parts}


def limits(found: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """What, its CPU seconds for so many events, and the limit; 0 without one."""
    scale = max(1.0, found["events"] / EVENTS)  # a small trace is held against the same limit
    known = {"graph": GRAPH_LIMIT, "sweep": SWEEP_LIMIT}
    for part, cost in found["parts"].items():
        yield part, cost / scale, known.get(part, 0)


def report(path: Path, runs: int) -> bool:
    """Measure and print; whether all limits hold."""
    measurements = []
    for run in range(runs):
        say(f"{run + 1}/{runs} {path.name}")
        measurements.append(json.loads(finished([__file__, "--measure", str(path)])[0]))
    found = least(measurements)
    rows = [
        (part, f"{cost:.3f} s", f"≤ {limit:g} s" if limit else "", "" if not limit else "ok" if cost <= limit else "OVER")
        for part, cost, limit in limits(found)
    ]
    size = f"{found['events']:,} events, {found['nodes']:,} moments, {found['edges']:,} edges, {CANDIDATES} candidates"
    print(f"{path.name}: {size}; CPU for each {EVENTS:,} events.\n")
    print(table(("what", "CPU", "limit", ""), rows), end="\n\n")
    return all(row[-1] != "OVER" for row in rows)


if __name__ == "__main__":
    sys.exit(of_a_trace("replay", __doc__ or "", 0.028, measured, report))
