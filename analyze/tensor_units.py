"""Trace -> what the GPU's tensor cores can do: which kinds of numbers they take, and how much faster they are."""

import re
from dataclasses import dataclass

from .trace import Trace

# Peak with tensor cores ÷ peak of float32 without, from NVIDIA's data sheets, of the kind of number that serves training best:
# V100 and T4 float16 8; A100 TF32 8; H100 TF32 7.4; GA10x and AD10x have few tensor cores beside float32 units: bfloat16 2 to 4.
PEAK_RATIOS = {"7.0": 8, "7.2": 8, "7.5": 8, "8.0": 8, "8.6": 2, "8.7": 2, "8.9": 4, "9.0": 7, "10.0": 8, "10.3": 8, "12.0": 2}
AMD_RATIO = 4  # bfloat16 ÷ float32 on matrix cores: MI100 to MI300X 4 to 8
AMPERE = re.compile(r"(ampere|hopper|sm(80|86|89|90|100|120)|cutlass(3x)?_(sm)?(8\d|90|1\d\d))_", re.IGNORECASE)
NAMED = re.compile(r"(?P<tf32>\b(A100|A10|A30|A40|A\d000|H100|H200|GH200|B200|GB200|L40S?|L4|RTX [345]0\d0)\b)|\b(V100|T4)\b")


@dataclass(frozen=True)
class TensorUnits:
    """`tf32`: whether they take float32 as TF32; if not, only float16. `peak_ratio`: how much faster than float32 they are."""

    amd: bool
    tf32: bool
    peak_ratio: int


def tensor_units(trace: Trace) -> TensorUnits | None:
    """None where the GPU has none, several kinds of GPU are listed, or the trace does not tell."""
    if (trace.source.runtime or "").startswith("ROCm") or any(name.startswith("hip") for name in trace.names):
        return TensorUnits(amd=True, tf32=False, peak_ratio=AMD_RATIO)
    capabilities = set(trace.source.capabilities) - {""}
    if len(capabilities) > 1:
        return None
    if capabilities:
        (capability,) = capabilities
        ratio = PEAK_RATIOS.get(capability)
        return None if ratio is None else TensorUnits(amd=False, tf32=int(capability.split(".")[0]) >= 8, peak_ratio=ratio)
    models = [NAMED.search(name) for name in set(trace.source.devices)]
    if models and all(models):
        kinds = {bool(model and model["tf32"]) for model in models}
        return TensorUnits(False, kinds.pop(), 2) if len(kinds) == 1 else None
    if any(AMPERE.search(name) for name in trace.names):  # a kernel compiled for it runs on nothing older
        return TensorUnits(amd=False, tf32=True, peak_ratio=2)
    return None
