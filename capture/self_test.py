"""One operator under the profiler, in a process of its own -> what of it arrives, and why the rest does not.

A process of its own, because Kineto reads its settings once, writes what it has to say on stderr, and may take a process down.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .machine import gpu_driver

TIMEOUT_S = 300  # torch and CUDA take up to a minute to start from a slow disk
SAYING = re.compile(r"cupti|error|warning|insufficient|denied|missing", re.IGNORECASE)
NOISE = re.compile(r"\bUSDT:|profiler_start|profiler_stop")
LONGEST_MESSAGE = 200
KINETO_SETTINGS = ("KINETO_CONFIG", "KINETO_USE_DAEMON", "KINETO_LOG_LEVEL", "TEARDOWN_CUPTI", "DISABLE_CUPTI_LAZY_REINIT")
DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")
RIGHTS = "start the container with --cap-add=SYS_ADMIN, or let the driver be loaded with NVreg_RestrictProfilingToAdminUsers=0"


@dataclass(frozen=True)
class SelfTest:
    """What one operator on each device left in the trace. `cuda_build`: the CUDA or ROCm that torch was built for."""

    ops: int = 0
    launches: int = 0
    kernels: int = 0
    torch: str = ""
    cuda_build: str | None = None
    sees_gpu: bool = False
    can_record_gpu: bool = False  # CUDA is among the activities that this torch supports
    problem: str = ""  # why there is nothing
    messages: tuple[str, ...] = ()  # what torch and Kineto said


def self_test() -> SelfTest:
    """Run it, and never fail: what goes wrong is the result."""
    command = [sys.executable, "-m", "longpole.capture.self_test"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return SelfTest(problem=f"the profiler did not come back within {TIMEOUT_S} s")
    said = tuple(line.strip() for line in done.stderr.splitlines() if SAYING.search(line) and not NOISE.search(line))
    if done.returncode == 0:
        return SelfTest(**json.loads(done.stdout.splitlines()[-1]), messages=said)
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    last = next((line.strip() for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
    return SelfTest(problem=f"the profiler ended with {how}: {last[:LONGEST_MESSAGE]}", messages=said)


def why_no_kernels(test: SelfTest, environment: Mapping[str, str], driver_settings: str) -> str:
    """As far as it can be told: the reason, settings that may be one, and torch's own last message."""
    said = " ".join(test.messages)
    reason = _reason_said(said) or _reason_set(test, environment, driver_settings) or "no reason can be told"
    settings = [f"{name}={environment[name]}" for name in KINETO_SETTINGS if name in environment]
    parts = [reason, *([f"set: {', '.join(settings)}"] if settings else [])]
    return "; ".join([*parts, *(f"torch says: {message[:LONGEST_MESSAGE]}" for message in test.messages[-1:])])


def _reason_said(said: str) -> str | None:
    return next((reason for code, reason in CUPTI_CODES.items() if code in said), None)


def _reason_set(test: SelfTest, environment: Mapping[str, str], driver_settings: str) -> str | None:
    """What would explain it, the most particular first."""
    tool = Path(environment.get("CUDA_INJECTION64_PATH", "")).name
    reasons = (
        (tool, f"CUDA_INJECTION64_PATH is set ({tool}): another profiler, such as nsys or ncu, is attached; run without it"),
        (test.cuda_build is None, f"torch {test.torch} is a build without CUDA, and there is a GPU: install a CUDA build"),
        (not test.sees_gpu, "torch sees no GPU, and there is one: check the driver, and CUDA_VISIBLE_DEVICES"),
        (not test.can_record_gpu, f"torch {test.torch} was built without CUPTI; install it from pytorch.org"),
        ("RmProfilingAdminOnly: 1" in driver_settings, f"the driver lets only administrators profile: {RIGHTS}"),
    )
    return next((reason for holds, reason in reasons if holds), None)


CUPTI_CODES = {
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES": f"this user may not profile the GPU: {RIGHTS}",
    "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES": f"the virtual GPU may not be profiled: {RIGHTS}",
    "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": "another profiler holds CUPTI (nsys, ncu, DCGM, compute-sanitizer); end it",
    "CUPTI_ERROR_NOT_INITIALIZED": "CUPTI cannot be initialised: most often a second libcupti in LD_LIBRARY_PATH, or WSL2",
    "CUPTI_ERROR_NOT_SUPPORTED": "CUPTI does not support this GPU or its mode",
    "CUPTI initialization failed": "CUPTI cannot be initialised: most often a lack of rights, or another profiler",
    "libcupti": "libcupti is missing or does not fit: reinstall torch, or take another CUDA out of LD_LIBRARY_PATH",
}  # fmt: skip


def has_gpu(test: SelfTest) -> bool:
    """Whether there is one to be profiled, though torch may not see it."""
    return test.sees_gpu or gpu_driver() is not None


def driver_settings() -> str:
    """What the NVIDIA driver was loaded with; empty where it does not say."""
    try:
        return DRIVER_SETTINGS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# In the process of its own


def main() -> None:
    """Print the result as one line of JSON."""
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    from .window import activities, cuda_available

    counts = _recorded(activities(cuda_available()), torch.cuda.is_available())
    runtime = sum(count for category, count in counts.items() if category.endswith(("_runtime", "_driver")))
    result = SelfTest(
        ops=counts["cpu_op"],
        launches=runtime,
        kernels=counts["kernel"],
        torch=torch.__version__,
        cuda_build=torch.version.cuda or getattr(torch.version, "hip", None),
        sees_gpu=torch.cuda.is_available(),
        can_record_gpu=ProfilerActivity.CUDA in supported_activities(),
    )
    fields = asdict(result)
    del fields["messages"]
    sys.stdout.write(json.dumps(fields) + "\n")


def _recorded(kinds: list, on_gpu: bool) -> Counter[str]:
    """Events by category in the trace of one multiplication on each device."""
    import torch

    devices = ["cpu", *(["cuda"] if on_gpu else [])]
    matrices = [torch.ones(8, 8, device=device) for device in devices]
    with torch.profiler.profile(activities=kinds) as profiler:
        for matrix in matrices:
            torch.mm(matrix, matrix)
        if on_gpu:
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")  # noqa: PTH118 - torch wants a text
        profiler.export_chrome_trace(path)
        content = json.loads(Path(path).read_bytes())
    return Counter(event.get("cat", "") for event in content["traceEvents"] if event.get("ph") == "X")


if __name__ == "__main__":
    main()
