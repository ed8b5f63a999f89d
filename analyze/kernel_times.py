"""Kernels by name -> their time beside the recording, and where the longest of them runs: what advice about kernels weighs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from . import trace as t
from .durations import repaired_work
from .findings import Evidence
from .grouping import group_sums
from .kernels import kernel_class
from .trace import Ints, Mask, Trace


@lru_cache(maxsize=2)  # a report's advice shares it; 2: a diff has two traces
def kernel_times(trace: Trace) -> Ints:
    """For each row of Trace.names the time of the kernels of that name, all devices together."""
    work, kernels = repaired_work(trace), trace.device.category == t.KERNEL
    return group_sums(np.where(kernels, work.name, -1), work.end_ns - work.start_ns, len(trace.names))


@lru_cache(maxsize=2)
def kernel_classes(trace: Trace) -> Sequence[str]:
    """For each row of Trace.names the class of the kernels of that name, empty where no kernel has it."""
    used = np.zeros(len(trace.names), bool)
    used[trace.device.name[trace.device.category == t.KERNEL]] = True
    return tuple(kernel_class("kernel", name) if own else "" for name, own in zip(trace.names, used.tolist(), strict=True))


def recorded_ns(trace: Trace) -> int:
    """The recording, counted once for each device that works."""
    return trace.window_ns * len(np.unique(trace.device.device))


def named(trace: Trace, names: Iterable[int]) -> Mask:
    """Which device work are kernels of these rows of Trace.names."""
    wanted = np.zeros(len(trace.names), bool)
    wanted[list(names)] = True
    return wanted[trace.device.name] & (trace.device.category == t.KERNEL)


def longest(trace: Trace, those: Mask, label: str) -> Evidence:
    """The longest of this device work, with its place."""
    work, rows = repaired_work(trace), np.flatnonzero(those)
    ns = work.end_ns[rows] - work.start_ns[rows]
    row = rows[int(ns.argmax())]
    return Evidence(label, "longest_ns", int(ns.max()), int(work.start_ns[row]), int(work.end_ns[row]))
