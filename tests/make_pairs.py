"""Records the worked pairs into tests/data/pairs, small: `python tests/make_pairs.py [PAIR…]`. For a machine at rest.

Of each bundle stay the manifest and the trace, and of its events what analyses of a CPU run read.
"""

import gzip
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from longpole.analyze.load import load
from longpole.analyze.step_marks import marked_steps
from longpole.capture.bundle import RankFiles, described, read_manifest, write_manifest

PAIRS_FOLDER = Path(__file__).parent / "data" / "pairs"
STEPS, WAIT, WARMUP = 2, 30, 2
ATTEMPTS = 12
REST_SHARE = 0.05  # of the time: what others may take
USUAL_RATIO = 1.7  # the most by which the profiler itself slows such steps
KEPT = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


def small(folder: Path) -> None:
    """Leave the manifest and a short trace."""
    manifest, path = read_manifest(folder), folder / "rank0.trace.json.gz"
    whole = json.loads(gzip.decompress(path.read_bytes()))
    events = [_short(event) for event in whole["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
    head = {key: whole[key] for key in ("schemaVersion", "baseTimeNanoseconds") if key in whole}
    text = json.dumps({**head, "traceEvents": events}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    for other in folder.glob("*key_averages*"):
        other.unlink()
    write_manifest(folder, replace(manifest, ranks=(RankFiles(0, described(path)),), program=_facts(manifest.program)))


def _short(event: dict[str, Any]) -> dict[str, Any]:
    forward = event.get("args", {}).get("Fwd thread id", 0)
    return {**{key: event[key] for key in KEPT}, **({"args": {"Fwd thread id": forward}} if forward else {})}


def _facts(program: dict[str, Any]) -> dict[str, Any]:
    return {key: program[key] for key in ("pair", "side", "cause", "threads")}


def main() -> None:
    from worked_pairs import PAIRS, recorded

    for name in sys.argv[1:] or PAIRS:
        for side in ("before", "after"):
            folder = PAIRS_FOLDER / f"{name}_{side}"
            for _ in range(ATTEMPTS):
                recorded(name, side, folder, STEPS + WAIT + WARMUP, steps=STEPS, wait=WAIT, warmup=WARMUP, force=True)
                if disturbed_share(folder) < REST_SHARE:
                    break
            else:
                sys.stderr.write(f"{name}, {side}: others used the cores ({disturbed_share(folder):.0%}); record it again.\n")
            small(folder)


def disturbed_share(folder: Path) -> float:
    """Of the steps, the most that the thread waited for a core: before the profiler, or as the steps with it took longer."""
    manifest = read_manifest(folder)
    waited = (manifest.options["unprofiled_core_wait_ns"] or 0) / sum(manifest.unprofiled_step_ns)
    profiled = statistics.mean(marked_steps(load(folder))["step_ns"])
    return max(waited, profiled / statistics.median(manifest.unprofiled_step_ns) / USUAL_RATIO - 1)


if __name__ == "__main__":
    main()
