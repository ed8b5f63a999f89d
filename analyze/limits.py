"""Buckets and the first change -> what limits the step of a run with a GPU: which GPU, its time by bound, and the bound."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from .analyses.buckets import Buckets
from .findings import Finding
from .step_buckets import COMMUNICATING, COMPUTING, COPYING, IDLE

BUSY_SHARE = 0.9  # of the step: an idle tenth can hide little
DECISIVE_SHARE = 0.1  # of the step: a change that saves less does not say what limits it
LEADING_SHARE = 0.3  # of the step: a part below this does not stand out
COMPUTE, COMMUNICATION, COPY, INPUT, SYNC, LAUNCH, HOST, UNKNOWN, BALANCED = (
    "compute", "communication", "copy", "input_pipeline", "synchronization", "launch", "host", "unknown", "balanced",
)  # fmt: skip
LAUNCHING = (LAUNCH, HOST)  # a host that is late dispatches, too
OF_BUSY = {COMPUTING: COMPUTE, COMMUNICATING: COMMUNICATION, COPYING: COPY}
OF_IDLE = {"h2d_wait": COPY, "other": UNKNOWN}  # the other causes are bounds by their own names


@dataclass(frozen=True)
class Limit:
    """The GPU that computes most of a step, and its time by bound, as shares of the step with the time before it.

    Idle time in which launched work waits while another GPU computes counts as computing: the GPUs take turns, `turns_share`.
    `parts`: empty where they cannot be told. `device`: its number, where there are several; `idle`: then of each, by number, its
    idle time by cause.
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    device: int | None = None
    turns_share: float = 0.0
    idle: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    def named(self, template: str) -> str:
        """About that GPU."""
        return template if self.device is None else re.sub("[Tt]he GPU", f"GPU {self.device}", template)

    @property
    def starving(self) -> int | None:
        """Of several GPUs the one that idles most, if that is notably more than the one that computes most."""
        total = {device: sum(of.values()) for device, of in self.idle.items()}
        most = max(total, key=lambda device: total[device], default=None)
        return (
            most if most is not None and self.device is not None and total[most] >= total[self.device] + DECISIVE_SHARE else None
        )


def limit_of(buckets: Buckets | None) -> Limit:
    """Of several GPUs that compute equally long the first."""
    if buckets is None or not buckets.told:
        return Limit()
    by_device = {device: buckets.periods[buckets.periods["device"] == device] for device in buckets.turns_share}
    parts = {device: _parts(rows, buckets.turns_share[device]) for device, rows in by_device.items()}
    if len(parts) == 1:
        return Limit(next(iter(parts.values())))
    own = {device: of[COMPUTE] - buckets.turns_share[device] for device, of in parts.items()}
    device = max(own, key=lambda one: own[one])
    idle = {one: _idle(rows[rows["kind"] == IDLE]) for one, rows in by_device.items()}
    return Limit(parts[device], device, buckets.turns_share[device], idle)


def _idle(rows: pd.DataFrame) -> dict[str, float]:
    return dict(zip(rows["of"].astype(str), rows["period_share"].astype(float), strict=True))


def _parts(rows: pd.DataFrame, turns_share: float) -> dict[str, float]:
    found = {COMPUTE: turns_share, UNKNOWN: -turns_share}
    for kind, of, share in zip(rows["kind"].astype(str), rows["of"].astype(str), rows["period_share"], strict=True):
        bound = OF_BUSY.get(kind) or OF_IDLE.get(of, of)
        found[bound] = found.get(bound, 0.0) + float(share)
    return found


def bound_of(limit: Limit, top: Finding | None, step_ns: float) -> str:
    """Computing, where a GPU does so in nine tenths of the step; else what the first change is about, if a tenth of the step is
    expected of it. Else the largest other part, launching and other host work as one, if it holds three tenths; else computing,
    if all of them together hold no more, or nothing alone.
    """
    if limit.parts.get(COMPUTE, 0.0) >= BUSY_SHARE:
        return COMPUTE
    if top and top.saving_ns >= DECISIVE_SHARE * step_ns:
        return top.bound
    if not limit.parts:
        return UNKNOWN
    others = {name: share for name, share in limit.parts.items() if name != COMPUTE}
    if sum(others.values()) <= LEADING_SHARE:
        return COMPUTE
    largest = max(others, key=lambda name: (share_of(limit, name), others[name]))
    return largest if share_of(limit, largest) >= LEADING_SHARE else BALANCED


def share_of(limit: Limit, bound: str) -> float:
    """What a bound holds of the step; launching and other host work are one."""
    return sum(limit.parts.get(name, 0.0) for name in (LAUNCHING if bound in LAUNCHING else (bound,)))
