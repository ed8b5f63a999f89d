"""Device event name -> short readable name, and its class: compute, communication or copy."""

import re

import numpy as np

from . import trace as t
from .trace import Ids, Trace

COMPUTE, COMMUNICATION, COPY = range(3)  # of a piece of device work: `work_class`
CLASSES = ("compute", "communication", "copy")

COMMUNICATION_NAME = re.compile(
    r"nccl|rccl|cross_device_reduce|multimem_|(one|two)_shot_all_?reduce|symm_mem|deep_ep|nvshmem", re.IGNORECASE
)
SPEAKING = (r"\w+Functor\b", r"\w+_kernel_cuda\b", r"\w+_kernel_impl\b", r"\w+Ops?\b", r"\w+_kernel\b")
WRAPPERS = {"BinaryFunctor", "UnaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "CUDAFunctor", "gpu_kernel_impl", "ReduceOp"}
PARAMETERS = re.compile(r"\((?!anonymous namespace\))")
SHORT_LENGTH = 72  # fits a table cell of the report


def device_class(category: str, name: str) -> str:
    """By category first (gpu_memcpy is copy, gpu_memset compute), then by name."""
    if category == "gpu_memcpy":
        return "copy"
    return "communication" if category == "kernel" and COMMUNICATION_NAME.search(name) else "compute"


def work_class(trace: Trace) -> Ids:
    """For each piece of device work COMPUTE, COMMUNICATION or COPY: copies by their category, else by name; memsets compute."""
    communicates = np.array([COMMUNICATION_NAME.search(name) is not None for name in trace.names], bool)
    found = np.where(communicates[trace.device.name] & (trace.device.category == t.KERNEL), COMMUNICATION, COMPUTE)
    return np.where(trace.device.category == t.MEMCPY, COPY, found).astype(np.int8)


def short_name(name: str) -> str:
    """A C++ signature without return type, parameters and template arguments: `at::native::elementwise_kernel<…>`.

    In the brackets stays what the kernel computes, where its template arguments say it (MulFunctor, direct_copy_kernel_cuda).
    Two kernels can still share a short name: the full name belongs beside it.
    """
    plain = name.removeprefix("void ")
    head, brackets, rest = plain.partition("<")
    if (parameters := PARAMETERS.search(head)) and not plain.startswith("Mem"):  # `Memcpy HtoD (Pageable -> Device)` is whole
        return _clipped(head[: parameters.start()])
    if not brackets:
        return _clipped(plain)
    words = [word for pattern in SPEAKING for word in re.findall(pattern, rest) if word not in head and word not in WRAPPERS]
    return _clipped(f"{head}<{words[0] if words else '…'}>")


def _clipped(name: str) -> str:
    return name if len(name) <= SHORT_LENGTH else name[: SHORT_LENGTH - 1] + "…"
