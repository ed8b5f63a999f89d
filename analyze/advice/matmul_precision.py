"""Are matrices multiplied in float32 where tensor cores could do it?"""

from collections.abc import Iterator

import numpy as np

from ..findings import NOTABLE_SHARE, Evidence, Text
from ..kernel_times import kernel_classes, kernel_times, longest, named, recorded_ns
from ..kernels import TF32, full_precision
from ..proposals import Proposal
from ..tensor_units import TensorUnits, tensor_units
from ..trace import Trace

# NVIDIA measures 2 to 6 times the speed for whole trainings with TF32 on an A100: memory limits smaller products. Three times
# is two thirds of their time, which is three quarters of the seven eighths that the peak would save.
EXPECTED_SHARE = 0.75
TF32_WAY = (
    'Call torch.set_float32_matmul_precision("high") before the loop (with torch 2.9 or later also torch.backends.cuda.matmul.'
    'fp32_precision = "tf32"; for convolutions torch.backends.cudnn.conv.fp32_precision = "tf32", before 2.9 '
    'torch.backends.cudnn.allow_tf32 = True), or run the forward pass and the loss in torch.autocast("cuda", '
    "dtype=torch.bfloat16). Products then keep 10 or 7 bits of the mantissa instead of 23: compare the loss."
)
HALF_WAY = (
    'Run the forward pass and the loss in torch.autocast("cuda", dtype=torch.float16) and scale the loss with '
    "torch.amp.GradScaler; this GPU's tensor cores know neither TF32 nor bfloat16. Compare the loss."
)
AMD_WAY = (
    'Run the forward pass and the loss in torch.autocast("cuda", dtype=torch.bfloat16): the matrix cores are several '
    "times faster with it. Compare the loss."
)


def matmul_precision(trace: Trace) -> Iterator[Proposal]:
    """Kernels whose names tell of float32 outside tensor cores, on a GPU that has some.

    Where others of their kind run in TF32, it is switched on, and the library chose float32 for those that are left.
    """
    units, told = tensor_units(trace), _told(trace)
    ns = kernel_times(trace)
    total_ns = int(ns[list(told)].sum()) if told else 0
    if units is None or total_ns * EXPECTED_SHARE < max(1, NOTABLE_SHARE * recorded_ns(trace)):
        return
    those = named(trace, told)
    factor = 1 / units.peak_ratio
    yield Proposal(
        id="matmul_precision",
        title=Text.of("Multiply matrices on tensor cores"),
        problem=Text.of(
            "{kernels_count:kernel} of matrix products and convolutions in float32, outside tensor cores: "
            "{kernels_ns} in the recording.",
            kernels_count=int(those.sum()), kernels_ns=total_ns,
        ),
        advice=Text.of(_way(units)),
        bound="compute",
        phase="other",
        evidence=(
            Evidence("their share of the recording", "recording_share", total_ns / recorded_ns(trace)),
            longest(trace, those, "the longest of them"),
        ),
        changes=tuple(f"kernel:{part} x{factor:.3f}" for part in sorted(set(told.values()))),
        expected_share=EXPECTED_SHARE,
        best_confidence="medium",
        assumes="the results bear fewer bits of the mantissa",
    )  # fmt: skip


def _told(trace: Trace) -> dict[int, str]:
    """Rows of Trace.names of such kernels -> the part of the name that tells; without kinds that have TF32 elsewhere."""
    present, kinds = np.flatnonzero(kernel_times(trace)).tolist(), kernel_classes(trace)
    in_tf32 = {kinds[row] for row in present if TF32.search(trace.names[row])}
    told = {row: full_precision(trace.names[row]) for row in present if kinds[row] not in in_tf32}
    return {row: part for row, part in told.items() if part}


def _way(units: TensorUnits) -> str:
    if units.amd:
        return AMD_WAY
    return TF32_WAY if units.tf32 else HALF_WAY
