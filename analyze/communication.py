"""Trace -> its collectives: kernels of communication, or what a CPU run does with gloo, mpi or ucc; and their arguments."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import trace as t
from .durations import repaired_work
from .kernels import COMMUNICATION, work_class
from .trace import Ids, Ints, Table, Trace

HOST_BACKENDS = ("gloo:", "mpi:", "ucc:")
ELEMENT_BYTES = {  # of `dtype`, as torch's collectives name it
    "Byte": 1, "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
    "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8, "Double": 8, "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Collectives(Table):
    """One row a collective, by its start."""

    start_ns: Ints
    end_ns: Ints
    name: Ids  # row of Trace.names
    device: Ids  # -1 on the host
    stream: Ids  # -1 on the host
    row: Ids  # of the device work; on a CPU run of the host ranges


def collectives_of(trace: Trace) -> Collectives:
    """Kernels where the trace holds device work, else ranges on the host."""
    if len(trace.device):
        table, rows = repaired_work(trace), np.flatnonzero(work_class(trace) == COMMUNICATION)
    else:
        named = np.array([name.startswith(HOST_BACKENDS) for name in trace.names], bool)
        table, rows = trace.host, np.flatnonzero(named[trace.host.name])
    rows = rows[np.argsort(table.start_ns[rows], kind="stable")]
    none = np.full(len(rows), -1)
    device, stream = (table.device[rows], table.stream[rows]) if isinstance(table, t.DeviceRanges) else (none, none)
    return Collectives(table.start_ns[rows], table.end_ns[rows], table.name[rows], device, stream, rows)


def argument(trace: Trace, calls: Collectives, key: str) -> list[Any]:
    """For each collective the value of an argument, None where it has none."""
    if not len(trace.device) or key not in trace.argument_keys:
        return [None] * len(calls)
    given = trace.device_arguments[trace.device_arguments.key == list(trace.argument_keys).index(key)]
    value_of = np.full(len(trace.device), -1, np.int32)
    value_of[given.row] = given.value
    codes: list[int] = value_of[calls.row].tolist()
    values = {code: _value(str(trace.argument_values[code])) for code in set(codes) - {-1}}
    return [values.get(code) for code in codes]


def message_bytes(trace: Trace, calls: Collectives, elements: str) -> Any:
    """For each collective the bytes of its message; NaN where its arguments do not say. `elements`: the key of their number."""
    widths = [ELEMENT_BYTES.get(kind) if isinstance(kind, str) else None for kind in argument(trace, calls, "dtype")]
    counts = argument(trace, calls, elements)
    sizes = [width * count if width and isinstance(count, int) else np.nan for width, count in zip(widths, counts, strict=True)]
    return np.array(sizes, np.float64)


def _value(text: str) -> Any:
    """Numbers beyond 64 bits stay exact; what cannot be read stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
