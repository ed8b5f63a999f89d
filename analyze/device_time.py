"""Device work -> its time by device and by stream: counts and sums, unions by class, what is exposed, gaps."""

import numpy as np
import pandas as pd

from . import trace as t
from .durations import by_stream
from .intervals import length, union
from .kernels import COMMUNICATION, COMPUTE, COPY
from .trace import DeviceRanges, Ids, Mask


def stream_times(work: DeviceRanges) -> pd.DataFrame:
    """Columns: device; stream; kernel_count; sum_ns; busy_ns (union); gap_ns (between its first start and last end, not busy)."""
    rows = [(device, stream, work[rows]) for device, stream, rows in by_stream(work)]
    return pd.DataFrame(
        [{"device": device, "stream": stream, **_stream(part)} for device, stream, part in rows],
        columns=["device", "stream", "kernel_count", "sum_ns", "busy_ns", "gap_ns"],
    )


def _stream(work: DeviceRanges) -> dict[str, int]:
    busy = length(*union(work.start_ns, work.end_ns))
    return {
        "kernel_count": int((work.category == t.KERNEL).sum()),
        "sum_ns": int((work.end_ns - work.start_ns).sum()),
        "busy_ns": busy,
        "gap_ns": int(work.end_ns.max() - work.start_ns.min()) - busy,
    }


def union_times(work: DeviceRanges, kind: Ids) -> dict[str, int | float]:
    """Of the work of one device; `kind`: COMPUTE, COMMUNICATION or COPY of each row.

    Exposed communication runs beside no computing, an exposed copy beside neither: busy = computing + exposed.
    """

    def covered(rows: Mask) -> int:
        return length(*union(work.start_ns[rows], work.end_ns[rows]))

    compute, comm, copy = (covered(kind == one) for one in (COMPUTE, COMMUNICATION, COPY))
    without_copies = covered(kind != COPY)
    start, end = union(work.start_ns, work.end_ns)
    busy, overlap, gaps = length(start, end), compute + comm - without_copies, start[1:] - end[:-1]
    return {
        "busy_ns": busy,
        "compute_ns": compute,
        "comm_ns": comm,
        "copy_ns": copy,
        "overlap_ns": overlap,
        "overlap_share": overlap / comm if comm else float("nan"),
        "comm_exposed_ns": without_copies - compute,
        "copy_exposed_ns": busy - without_copies,
        "median_gap_ns": float(np.median(gaps)) if len(gaps) else float("nan"),
    }


def sums(work: DeviceRanges, kind: Ids) -> dict[str, int | float]:
    """Counts, plain sums and bytes, of the work of one device; `kind` as in `union_times`."""
    ns = work.end_ns - work.start_ns
    kernels, copies = work.category == t.KERNEL, work.category == t.MEMCPY
    sized = copies & (work.size_bytes >= 0)
    return {
        "compute_sum_ns": int(ns[kind == COMPUTE].sum()),
        "comm_sum_ns": int(ns[kind == COMMUNICATION].sum()),
        "comm_count": int((kind == COMMUNICATION).sum()),
        "kernel_timed_count": int(kernels.sum()),
        "kernel_repaired_ns": int(ns[kernels].sum()),
        "kernel_median_ns": float(np.median(ns[kernels])) if kernels.any() else float("nan"),
        "copy_count": int(copies.sum()),
        "copy_sum_ns": int(ns[copies].sum()),
        "copy_unsized_count": int((copies & ~sized).sum()),
        "copy_bytes": int(work.size_bytes[sized].sum()) if sized.any() or not copies.any() else float("nan"),
    }
