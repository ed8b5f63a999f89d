"""Measured runs <-> a baseline: a small JSON file that stands for runs in a comparison, without their traces."""

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ..capture.errors import BundleError
from .facts import Value
from .measured import MeasuredRun, Metric

SCHEMA = "longpole.baseline/1"
PER_UNIT = {"ns": 1000, "bytes": 1, "count": 1}  # of what is written: times are microseconds, as in all of longpole's JSON
UNITS = {"_us": "ns", "_bytes": "bytes", "_count": "count"}  # by the end of a name; what has a colon in it is a time
NUMBERS = re.compile(r"\[\n([-+.,\de\s]+)\]")  # a list of them, a line each: one line reads better beside a commit
LARGEST_BYTES = 64 * 2**20  # a file beyond is no baseline; it is not read to find that out


def baseline_json(runs: Sequence[MeasuredRun]) -> bytes:
    """The file's content; the same runs give the same bytes."""
    content = {"schema": SCHEMA, "runs": [_run_json(run) for run in runs]}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return (NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text) + "\n").encode("utf-8")


def _run_json(run: MeasuredRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "captured_at": run.captured_at,
        "commit": run.commit,
        "sha256": list(run.sha256),
        "facts": dict(run.facts),
        "set_aside": dict(run.set_aside),
        "metrics": {name: _values(metric) for name, metric in run.metrics.items()},
    }


def _values(metric: Metric) -> list[float]:
    scaled = (metric.values / PER_UNIT[metric.unit]).round(3).tolist()
    return [int(value) if value.is_integer() else value for value in scaled]


def is_baseline(path: Path) -> bool:
    """Whether a file is one, by how it begins."""
    if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        return False
    with path.open("rb") as file:
        return f'"{SCHEMA.split("/")[0]}/'.encode() in file.read(200)


def read_baseline(path: Path) -> tuple[MeasuredRun, ...]:
    """BundleError, one sentence, for a damaged file or one of a newer longpole."""
    try:
        content = json.loads(path.read_bytes())
        if content["schema"] != SCHEMA:
            raise BundleError(f"{path} is {content['schema']}, this longpole reads {SCHEMA}; install a newer longpole.")
        runs = tuple(_run(fields) for fields in content["runs"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as damage:
        raise BundleError(f"{path} is a damaged baseline ({damage!r}); make it again with longpole baseline.") from damage
    except OSError as problem:
        raise BundleError(f"{path} cannot be read ({problem.strerror}); name a baseline file.") from problem
    if not runs:
        raise BundleError(f"{path} is a baseline without runs; make it again with longpole baseline.")
    return runs


def _run(fields: Mapping[str, Any]) -> MeasuredRun:
    facts, captured_at, commit = fields["facts"], fields["captured_at"], fields["commit"]
    if not all(isinstance(value, Value) for value in facts.values()):
        raise TypeError("a fact is neither text nor a number")
    if not isinstance(fields["name"], str) or not all(isinstance(text, str | None) for text in (captured_at, commit)):
        raise TypeError("a name or a time is no text")
    return MeasuredRun(
        name=fields["name"],
        captured_at=captured_at,
        commit=commit,
        facts=dict(facts),
        metrics={name: _metric(name, values) for name, values in fields["metrics"].items()},
        set_aside={str(step): str(why) for step, why in fields["set_aside"].items()},
        sha256=tuple(map(str, fields["sha256"])),
    )


def _metric(name: str, values: Sequence[float]) -> Metric:
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end) and ":" not in name), "ns")
    if not values or not all(isinstance(value, int | float) and isfinite(value) and value >= 0 for value in values):
        raise ValueError(f"{name} holds something else than numbers")
    return Metric(unit, np.array(values, np.float64) * PER_UNIT[unit])
