"""What do the analyses cost? CPU time of all of them beside loading, and of the arithmetic beside one sort, as Markdown.

python run.py bench analyze [FILE…] [--runs 3] [--size 1.4] [--keep FOLDER]

Without FILE it is a generated trace of so many GB (1.4: five million events). Every measurement is a process of its own, of which
the least time counts: other programs on the machine only ever add to it. The exit status is 1 where a limit is exceeded.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench_load import finished, of_a_trace, say, table

ANALYSES_LIMIT = 1.0  # of the time that loading takes
NESTING_LIMIT, LINKS_LIMIT, UNION_LIMIT = 8.0, 4.0, 4.0  # of a stable argsort of the same keys
REPEATS = 5  # of the arithmetic within a process
SECTIONS_SHOWN = 40


def cpu_of(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def least_cpu_of(call: Callable[[], Any]) -> float:
    """Of some milliseconds the first time is mostly that of getting memory."""
    return min(cpu_of(call)[0] for _ in range(REPEATS))


def measured(path: Path) -> dict[str, Any]:
    """CPU seconds of this process: loading, each section, and the arithmetic beside the sorts that it is held against."""
    import numpy as np

    from longpole.analyze.contents import analyses_for
    from longpole.analyze.intervals import union
    from longpole.analyze.load import load
    from longpole.analyze.run import run

    loading, trace = cpu_of(lambda: load(path))
    sections = {title: cpu_of(partial(run, {title: ask}, trace))[0] for title, ask in analyses_for(trace).items()}
    host, work = trace.host, trace.device
    keys = host.thread.astype(np.int64) * trace.window_ns + host.start_ns
    sorts = {
        "host ranges by (thread, start)": least_cpu_of(lambda: np.argsort(keys, kind="stable")),
        "device work by start": least_cpu_of(lambda: np.argsort(work.start_ns, kind="stable")),
        "calls by correlation": least_cpu_of(lambda: np.argsort(host.correlation, kind="stable")),
    }
    parts = {
        "nesting": least_cpu_of(lambda: nested(trace)),
        "union": least_cpu_of(lambda: union(work.start_ns, work.end_ns)),
        "links": least_cpu_of(lambda: linked(trace)),
    }
    return {"loading": loading, "sections": sections, "sorts": sorts, "parts": parts, "events": trace.coverage.total}


def nested(trace: Any) -> Any:
    """Sort, parent, depth and self time of all host ranges."""
    import numpy as np

    from longpole.analyze.callstack import depths, parents

    host = trace.host
    parent = parents(host.start_ns, host.end_ns, host.thread)
    own = host.end_ns - host.start_ns
    left = np.append(own, 0)  # and one more: that of no range, -1
    np.subtract.at(left, parent, own)
    return depths(parent), left[:-1]


def linked(trace: Any) -> Any:
    """Which call launched which piece of device work."""
    from longpole.analyze.links import launching_call

    launching_call.cache_clear()
    return launching_call(trace)


def least(measurements: list[dict[str, Any]]) -> dict[str, Any]:
    """Number by number, also inside."""
    first = measurements[0]
    return {
        key: least([m[key] for m in measurements]) if isinstance(value, dict) else min(m[key] for m in measurements)
        for key, value in first.items()
    }


def limits(found: dict[str, Any]) -> Iterator[tuple[str, float, float, float]]:
    """What, its CPU seconds, those it is held against, and how many times as many it may take."""
    sorts, parts = found["sorts"], found["parts"]
    yield "all analyses : loading", sum(found["sections"].values()), found["loading"], ANALYSES_LIMIT
    yield "nesting of host ranges : one sort", parts["nesting"], sorts["host ranges by (thread, start)"], NESTING_LIMIT
    yield "union of device work : one sort", parts["union"], sorts["device work by start"], UNION_LIMIT
    yield "links of device work : one sort", parts["links"], sorts["calls by correlation"], LINKS_LIMIT


def report(path: Path, runs: int) -> bool:
    """Measure and print; whether all limits hold."""
    measurements = []
    for run in range(runs):
        say(f"{run + 1}/{runs} {path.name}")
        measurements.append(json.loads(finished([__file__, "--measure", str(path)])[0]))
    found = least(measurements)
    rows = [
        (
            what,
            f"{cost:.3f} s : {against:.3f} s",
            f"{cost / against:.2f}×",
            f"≤ {limit:g}×",
            "ok" if cost <= limit * against else "OVER",
        )
        for what, cost, against, limit in limits(found)
    ]
    dearest = sorted(found["sections"].items(), key=lambda item: -item[1])[:SECTIONS_SHOWN]
    print(f"{path.name}, {found['events']:,} events.\n")
    print(table(("what", "CPU", "ratio", "limit", ""), rows), end="\n\n")
    print(table(("section", "CPU, s"), [(title, f"{cost:.3f}") for title, cost in dearest]), end="\n\n")
    return all(row[-1] == "ok" for row in rows)


if __name__ == "__main__":
    sys.exit(of_a_trace("analyze", __doc__ or "", 1.4, measured, report))
