"""The category of an event -> the table that takes it, and its category there."""

from .. import trace as t

# What becomes of a complete event (ph X) of a category. NO_KIND: unknown, or nothing that is measured.
NO_KIND, HOST, DEVICE, MARKS, INSTANT, SPAN = range(6)
HOST_CATEGORIES = {
    "cpu_op": t.OP,
    "Operator": t.OP,
    "user_annotation": t.ANNOTATION,
    "python_function": t.PYTHON,
    "Runtime": t.RUNTIME,
    "overhead": t.OVERHEAD,
}  # and every category that ends in _runtime or _driver
DEVICE_CATEGORIES = {
    "kernel": t.KERNEL,
    "Kernel": t.KERNEL,
    "gpu_memcpy": t.MEMCPY,
    "Memcpy": t.MEMCPY,
    "gpu_memset": t.MEMSET,
    "Memset": t.MEMSET,
    "gpu_user_annotation": t.MARK,
    "cuda_sync": t.SYNC,
}
OLD_CATEGORIES = {"Operator", "Runtime", "Kernel", "Memcpy", "Memset"}  # before 2022: their ids are spelled "external id"
NOT_MEASURED = {
    "Trace", "ac2g", "fwdbwd", "cpu_instant_event", "async", "async_gpu", "async_cpu_to_gpu", "forward_backward", "cpu_to_cuda",
}  # fmt: skip
CALLS_OF_VENDORS = ("_runtime", "_driver")


def kind_of(category: str | None) -> tuple[int, int]:
    """The table of a complete event, and its category there."""
    name = category or ""
    if name in HOST_CATEGORIES:
        return HOST, HOST_CATEGORIES[name]
    if name.endswith(CALLS_OF_VENDORS):
        return HOST, t.RUNTIME
    if name in DEVICE_CATEGORIES:
        code = DEVICE_CATEGORIES[name]
        return (DEVICE if code in (t.KERNEL, t.MEMCPY, t.MEMSET) else MARKS), code
    return {"cpu_instant_event": INSTANT, "Trace": SPAN}.get(name, NO_KIND), 0
