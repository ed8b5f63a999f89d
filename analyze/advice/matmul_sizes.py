"""Do sizes of matrices keep their products off tensor cores, or slow them there?"""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..findings import NOTABLE_SHARE, Evidence, Text
from ..kernel_times import kernel_times, longest, named, recorded_ns
from ..kernels import HALF_WITHOUT_TENSOR_CORES, MISALIGNED, TF32
from ..links import links
from ..proposals import Proposal
from ..tensor_units import tensor_units
from ..trace import Mask, Trace

# Kernels that load one or two values at a time take about twice as long as those that load 16 bytes (NVIDIA's guide to matrix
# products shows 1.5 to 4 times); those outside tensor cores far longer. Half of that is expected: padding adds work and copies.
FASTER = 0.5
EXPECTED_SHARE = 0.5
HALF_MULTIPLE, TF32_MULTIPLE = 8, 4  # values in 16 bytes
MATRIX_OPS = re.compile(r"aten::(_?addmm|_?mm|bmm|baddbmm|linear|matmul)")


def matmul_sizes(trace: Trace) -> Iterator[Proposal]:
    """Products whose kernels load less than 16 bytes at a time, or that are in half precision and still outside tensor cores."""
    units = tensor_units(trace)
    ns = kernel_times(trace)
    rows = [row for row in np.flatnonzero(ns).tolist() if _is_odd(trace.names[row])]
    total_ns = int(ns[rows].sum())
    if units is None or total_ns * FASTER * EXPECTED_SHARE < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return
    those = named(trace, rows)
    multiple = TF32_MULTIPLE if all(TF32.search(trace.names[row]) for row in rows) else HALF_MULTIPLE
    op, shapes, sizes = _worst(trace, those, multiple)
    where = "; for instance in {op} on {shapes} (no multiples of {multiple_count}: {sizes})" if sizes else ""
    yield Proposal(
        id="matmul_sizes",
        title=Text.of("Make the sizes of matrices multiples of {multiple_count}", multiple_count=multiple),
        problem=Text.of(
            "{kernels_count:matrix product loads|matrix products load} numbers in pieces of less than 16 bytes or outside tensor "
            f"cores, as sizes that are not aligned demand: {{kernels_ns}} in the recording{where}.",
            kernels_count=int(those.sum()), kernels_ns=total_ns, op=op, shapes=shapes, sizes=sizes, multiple_count=multiple,
        ),
        advice=Text.of(
            "Pad the sizes that products run over (vocabulary, features, sequence length, batch) to a multiple of "
            "{multiple_count}, better of 64: a larger nn.Embedding and nn.Linear, pad_to_multiple_of in the tokenizer or "
            "collator. For attention call torch.nn.functional.scaled_dot_product_attention, which copes with any sequence "
            "length.",
            multiple_count=multiple,
        ),
        bound="compute",
        phase="other",
        evidence=(
            Evidence("their share of the recording", "recording_share", total_ns / recorded_ns(trace)),
            longest(trace, those, "the longest of them"),
        ),
        changes=tuple(f"kernel:{name} x{FASTER}" for name in dict.fromkeys(trace.names[row] for row in rows)),
        expected_share=EXPECTED_SHARE,
        best_confidence="medium",
        assumes="aligned products are twice as fast, and padding adds little work",
    )  # fmt: skip


def _is_odd(name: str) -> bool:
    return MISALIGNED.search(name) is not None or HALF_WITHOUT_TENSOR_CORES.search(name) is not None


def _worst(trace: Trace, those: Mask, multiple: int) -> tuple[str, str, str]:
    """Operator, shapes and odd sizes of the costliest product whose shapes tell; empty where none do."""
    work, host, owner = trace.device, trace.host, links(trace).owner
    rows = np.flatnonzero(those & (owner >= 0))
    rows = rows[host.shapes[owner[rows]] >= 0]
    spent: dict[tuple[str, str], int] = {}
    for row, ns in zip(rows.tolist(), (work.end_ns - work.start_ns)[rows].tolist(), strict=True):
        op = int(owner[row])
        key = str(trace.names[int(host.name[op])]), str(trace.shapes[int(host.shapes[op])])
        spent[key] = spent.get(key, 0) + ns
    for op, shapes in sorted(spent, key=lambda key: -spent[key]):
        if MATRIX_OPS.fullmatch(op) and (sizes := _odd_sizes(shapes, multiple)):
            return op, shapes, ", ".join(map(str, sizes))
    return "", "", ""


def _odd_sizes(shapes: str, multiple: int) -> list[int]:
    """The last two sizes of each matrix, where they are no multiple."""
    try:
        inputs: Any = json.loads(shapes)
    except ValueError:
        return []
    matrices = [
        size[-2:] for size in inputs if isinstance(size, list) and len(size) >= 2 and all(isinstance(n, int) for n in size)
    ]
    return sorted({n for size in matrices for n in size if n % multiple})
