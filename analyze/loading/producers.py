"""Which tool wrote a file, by the marks it leaves; begin and end events -> ranges."""

from dataclasses import dataclass

import numpy as np

from .. import trace as t
from ..trace import Ids, Ints
from .columns import Collected
from .events import Header
from .kinds import DEVICE_CATEGORIES, HOST_CATEGORIES, NOT_MEASURED, kind_of

TORCH, LEGACY, JAX, TENSORFLOW = "PyTorch Profiler", "PyTorch legacy autograd profiler", "JAX/XLA", "TensorFlow"
ONNX, ASCEND, UNKNOWN = "ONNX Runtime", "Ascend", "unknown"
LEGACY_PROCESSES = {"CPU functions": t.HOST_SLICE, "CUDA functions": t.DEVICE_SLICE}
ONNX_CATEGORIES = {"Session", "Node"}
ASCEND_DEVICES = {"Ascend Hardware", "AI Core", "NPU"}


@dataclass(frozen=True)
class Producer:
    """`name`; whether its events are torch.profiler's; which processes, and which categories, stand for devices."""

    name: str
    is_torch: bool
    device_processes: frozenset[str] = frozenset()
    device_categories: frozenset[str] = frozenset()


def producer_of(header: Header, collected: Collected) -> Producer:
    """Told by the header, the names of processes, and the categories; of several marks the most particular."""
    categories = set(filter(None, collected.categories))
    processes = collected.process_names
    pids = {str(pid) for pid, _ in collected.threads}
    if pids & LEGACY_PROCESSES.keys() and header.schema is None:
        return Producer(LEGACY, False, frozenset({"CUDA functions"}))
    if ascend := {pid for pid, name in processes.items() if name in ASCEND_DEVICES}:
        return Producer(ASCEND, False, frozenset(ascend))
    if header.schema is not None:
        return Producer(TORCH, True)
    if categories >= ONNX_CATEGORIES or (ONNX_CATEGORIES & categories and not _of_torch(categories)):
        return Producer(ONNX, False, device_categories=frozenset({"Kernel"}))
    if devices := {pid for pid, name in processes.items() if "/device:" in name and "CPU" not in name}:
        return Producer(TENSORFLOW if _of_tensorflow(processes) else JAX, False, frozenset(devices))
    if any(name.startswith("/host:CPU") for name in processes.values()):
        return Producer(JAX, False)
    if _of_torch(categories):
        return Producer(UNKNOWN, True)
    named = header.other_data.get("producer") if isinstance(header.other_data, dict) else None
    return Producer(str(named)[:80] if named else UNKNOWN, not len(collected.other) and not len(collected.borders))


def _of_torch(categories: set[str]) -> bool:
    return any(kind_of(category)[0] for category in categories)


def _of_tensorflow(processes: dict[str, str]) -> bool:
    return any("/job:" in name or "/replica:" in name for name in processes.values())


@dataclass(frozen=True, eq=False)
class Paired:
    """Ranges from their two ends, in order of their ends; `row`: of the begin in its table."""

    row: Ids
    start_ns: Ints
    end_ns: Ints
    unmatched_begin: int
    unmatched_end: int


def paired(time_ns: Ints, begins: np.ndarray, lane: Ids) -> Paired:
    """Each end closes the last begin that is open on its lane (a thread, or the id of an asynchronous range)."""
    order = np.lexsort((time_ns, lane))
    open_rows: list[int] = []
    rows, ends = [], []
    unmatched_begin = unmatched_end = 0
    last_lane = None
    for row, where, is_begin in zip(order.tolist(), lane[order].tolist(), begins[order].tolist(), strict=True):
        if where != last_lane:
            unmatched_begin += len(open_rows)
            open_rows, last_lane = [], where
        if is_begin:
            open_rows.append(row)
        elif open_rows:
            rows.append(open_rows.pop())
            ends.append(row)
        else:
            unmatched_end += 1
    found = np.array(rows, np.int64)
    return Paired(found, time_ns[found], time_ns[np.array(ends, np.int64)], unmatched_begin + len(open_rows), unmatched_end)


def unknown_categories(collected: Collected) -> dict[str, int]:
    """Categories that stand for nothing this version knows, with their events."""
    known = {*HOST_CATEGORIES, *DEVICE_CATEGORIES, *NOT_MEASURED}
    return {
        name: count
        for name, count in sorted(collected.by_category.items())
        if name not in known and not name.startswith("(phase") and kind_of(name)[0] == 0
    }
