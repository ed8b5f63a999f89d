"""Device event name -> its class: compute, communication or copy, and in more detail what it computes."""

import re
from functools import lru_cache

import numpy as np

from . import trace as t
from .trace import Ids, Trace

COMPUTE, COMMUNICATION, COPY = range(3)  # of a piece of device work: `work_class`

COMMUNICATION_NAME = re.compile(
    r"nccl|rccl|cross_device_reduce|multimem_|(one|two)_shot_all_?reduce|symm_mem|deep_ep|nvshmem", re.IGNORECASE
)
TELLING_LENGTH = 500  # of a name: what a kernel computes stands in front, parameters repeat it
KERNEL_CLASSES = (  # the first that fits a kernel's name in lower case
    ("elementwise", r"^[^<]*elementwise_kernel|triton_poi"),  # a fused kernel has the names of all operators around it
    ("normalisation", r"triton_(red|per)\w*norm"),
    ("reduction", r"triton_(red|per)"),
    ("convolution", r"triton_tem\w*conv"),
    ("attention", r"triton_tem\w*attention"),
    ("gemm", r"triton_tem"),
    ("elementwise", r"reshape_and_cache|store_kv_?cache|rotary"),
    ("other", r"kv_indices"),
    ("attention", r"flash|fmha|attention|attn|sdpa|fused_mha|batch(prefill|decode)with|singleprefill|mla_(fwd|decode)|flashmla"),
    ("optimizer", r"adam|adagrad|rmsprop|adadelta|lamb(?!da)|(?<![a-z])sgd|(?<![a-z])lion_|fused_?optimi|muon"),
    ("normalisation", r"(batch|layer|group|instance|rms|fused)_?norm|(?<![a-z])bn_(fw|bw)|rowwisemoments|gammabeta|welford"),
    ("elementwise", r"nchwtonhwc|nhwctonchw|transpose|im2col|col2im"),
    (
        "convolution",
        r"conv(?!er)|bwd_(weight|data)|fprop|dgrad|wgrad|scudnn|winograd|igemm_(fwd|bwd|wrw)|implicit_gemm|cudnn\w*::compute|fft2d_",
    ),
    (
        "gemm",
        r"(?<!fb)gemm|gemv|splitkreduce|cijk_|nvjet|matmul|(?<![a-z])[abg]?mm_|_b?mm(?![a-z])|cublas\w*dot|dot_kernel|wgmma|cutlass",
    ),
    ("gemm", r"xdlops|marlin|fused_moe_kernel|moe_gemm|grouped_mm"),
    ("other", r"sort|top_?k|bucketize"),
    ("reduction", r"reduc|softmax|scan|cumsum|arg(max|min)|l2norm|lpnorm|normtwo"),
    ("elementwise", r"pointwise|multi_tensor_apply|catarray|copy|(?<!pre)fill|dropout|act_and_mul|[sg]elu|silu|swiglu"),
    ("elementwise", r"quant|cast(?!er)|subtensorop|scal_kernel|scalepackedtensor|_to_float_cuda|distribution_|permute"),
)
_CLASSES = tuple((name, re.compile(pattern)) for name, pattern in KERNEL_CLASSES)
NO_TENSOR_CORES = re.compile(r"simt|ffma")
TENSOR_CORES = re.compile(
    r"[hsi]884|[hsic]1688|[ish]16816|[hs]161616|[hiqb]mma|w[gm]mma|xmma|tcgen05|mma_sync|tensorop|_tensor\d+x\d+x\d+"
    r"|cutlass3x_sm(90|1\d\d)|nvjet|flash_(fwd|bwd)"
    r"|_MI\d+x\d+x\d+|mfma|xdl(ops|_)|igemm_\w+_gtcx"  # matrix cores of AMD
)

FULL_PRECISION = re.compile(  # multiplies float32 outside tensor cores: cuBLAS, CUTLASS, cuDNN, and its older engines
    r"(maxwell|pascal|volta|turing|ampere|sm\d+)_(sgemm|scudnn)|simt_s(gemm|fprop|dgrad|wgrad)|xmma_\w+?_f32f32_f32f32_f32(?=\w*ffma)"
    r"|(dgrad|wgrad_alg\d)_engine<float|implicit_convolve_sgemm<float|sgemm_largek"
    r"|winograd_nonfused::winograd(?=\w+<float, float>)"
)
TENSILE_FULL = re.compile(r"Cijk_\w+?_SB?_(?!\w*_MI\d)")  # AMD's, without its matrix cores
TF32 = re.compile(r"tf32|tensorop_s1688(gemm|fprop|dgrad|wgrad)_(?!b?f16)")
NUMBER_TYPES = {  # in this order: a kernel of bfloat16 may also name the float32 that it adds up in
    "float8": re.compile(r"e4m3|e5m2|fp8|float8", re.IGNORECASE),
    "bfloat16": re.compile(r"bf16|bfloat16|_BBS_|_BS?_?BH_", re.IGNORECASE),
    "float16": re.compile(r"fp16|f16|half|hgemm|_h(884|1688|16816)|_HHS_|_HSS?_", re.IGNORECASE),
    "TF32": re.compile(TF32.pattern, re.IGNORECASE),
    "float64": re.compile(r"dgemm|float64|double", re.IGNORECASE),
    "float32": re.compile(r"sgemm|f32|fp32|float"),
}
HALF_WITHOUT_TENSOR_CORES = re.compile(
    r"(maxwell|pascal|volta|turing|ampere|sm\d+)_((b?f16|fp16)_sgemm|hgemm)|simt_(h|b?f16_[hs])gemm"
)
MISALIGNED = re.compile(r"tensorop_\w*gemm\w*_align[12](?!\d)")  # loads 1 or 2 values at a time, not 16 bytes


def device_class(category: str, name: str) -> str:
    """By category first (gpu_memcpy is copy, gpu_memset compute), then by name."""
    if category == "gpu_memcpy":
        return "copy"
    return "communication" if category == "kernel" and COMMUNICATION_NAME.search(name) else "compute"


@lru_cache(maxsize=2)  # a report's analyses share it; 2: a diff has two traces
def work_class(trace: Trace) -> Ids:
    """For each piece of device work COMPUTE, COMMUNICATION or COPY: copies by their category, else by name; memsets compute."""
    communicates = np.array([COMMUNICATION_NAME.search(name) is not None for name in trace.names], bool)
    found = np.where(communicates[trace.device.name] & (trace.device.category == t.KERNEL), COMMUNICATION, COMPUTE)
    return np.where(trace.device.category == t.MEMCPY, COPY, found).astype(np.int8)


def kernel_class(category: str, name: str) -> str:
    """What kind of work it is: gemm, convolution, attention, ..., copy, communication; "other" where the name does not tell."""
    kind = device_class(category, name)
    if kind != "compute" or category != "kernel":
        return kind if kind != "compute" else "other"
    telling = name[:TELLING_LENGTH].lower()
    return next((found for found, pattern in _CLASSES if pattern.search(telling)), "other")


def has_tensor_cores(name: str) -> bool:
    """Whether the name tells that the kernel computes on tensor cores (matrix cores): of many kernels it does not tell."""
    telling = name[:TELLING_LENGTH]
    return TENSOR_CORES.search(telling) is not None and NO_TENSOR_CORES.search(telling) is None


def number_type(name: str) -> str | None:
    """The kind of numbers that a kernel of matrix products multiplies, where its name tells."""
    telling = name[:TELLING_LENGTH]
    if full_precision(name):
        return "float32"
    return next((kind for kind, pattern in NUMBER_TYPES.items() if pattern.search(telling)), None)


def full_precision(name: str) -> str | None:
    """The part of the name that tells that a kernel multiplies float32 outside tensor cores, as most of its kind have it."""
    telling = name[:TELLING_LENGTH]
    if found := FULL_PRECISION.search(telling):
        return found.group()
    return name if TENSILE_FULL.match(telling) else None
