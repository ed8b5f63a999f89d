"""Histories whose numbers one can check in the head, without traces. Times are microseconds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from longpole.analyze.measured import DEVICE_MEMORY, STEP, UNPROFILED, MeasuredRun, Metric

FACTS = {"GPU": "H100", "CPU": "Xeon", "PyTorch": "2.13", "Steps marked": True, "Steps": 4}
JITTER = (0, 1, -1, 0.5, -0.5, 0.2, -0.2, 0.8, -0.8, 0.4)  # of run means, in turn


def measured_run(number: int, mean: float, facts: dict[str, Any] | None = None, **fields: Any) -> MeasuredRun:
    """Four steps about the mean: 10 less, 10 more, and twice the mean. Captured on day `number` of January, commit `cNUMBER`."""
    metrics = {STEP: Metric("ns", 1000 * np.array([mean - 10, mean + 10, mean, mean]))}
    if unprofiled := fields.pop("unprofiled", None):
        metrics[UNPROFILED] = Metric("ns", 1000 * np.array([unprofiled]))
    if peak_bytes := fields.pop("peak_bytes", None):
        metrics[DEVICE_MEMORY] = Metric("bytes", np.array([peak_bytes, peak_bytes]))
    known = {
        "name": f"train {number}", "captured_at": f"2026-01-{number:02}T08:00:00Z", "commit": f"c{number:02}" + "0" * 38,
        "set_aside": {}, "sha256": (f"{number:064}",),
    }  # fmt: skip
    return MeasuredRun(**known | fields, facts=FACTS | (facts or {}), metrics=metrics)


def measured_runs(*levels: tuple[int, float], **fields: Any) -> list[MeasuredRun]:
    """So many runs about each level, with JITTER; `fields` of all of them."""
    means = [level + JITTER[i % len(JITTER)] for count, level in levels for i in range(count)]
    return [measured_run(number, mean, **fields) for number, mean in enumerate(means, 1)]


def spaced(found: Sequence[str]) -> list[str]:
    """Sentences with plain spaces, for comparisons."""
    return [text.replace("\u202f", " ") for text in found]
