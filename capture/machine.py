"""The machine, the versions and the program -> flat facts for the manifest. No host name, no user name, no secrets."""

import os
import platform
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module

COMMAND_TIMEOUT_S = 5
ENVIRONMENT_NAMES = (  # they change how fast torch runs, and never hold a secret
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "KINETO_LOG_LEVEL",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_COMPILE_DISABLE",
)
SECRET_OPTION = re.compile(r"[\w.-]*(token|key|secret|password|passwd|credential)[\w.-]*", re.IGNORECASE)
URL_USER = re.compile(r"://[^/@\s]*@")


def machine_facts() -> dict[str, Any]:
    """Operating system, CPU, memory in bytes, and each GPU with its memory in bytes."""
    return {
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable_count": usable_cpu_count(),
        "memory_bytes": memory_bytes(),
        **gpu_facts(),
    }


def version_facts() -> dict[str, Any]:
    """Versions of torch and what it was built with, of Python and of longpole."""
    import torch

    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        "python": platform.python_version(),
        "longpole": installed_version("longpole"),
    }


def program_facts() -> dict[str, Any]:
    """Command line, git commit, and the settings of torch that decide speed, as they are now."""
    return {
        "command": command_line(sys.argv),
        **git_facts(Path()),  # the working directory, which may be gone
        **torch_settings(),
        **environment_facts(os.environ),
    }


def model_facts(model: "Module | None") -> dict[str, Any]:
    """Number of parameters and their types; nothing without a model."""
    if model is None:
        return {}
    parameters = list(model.parameters())
    dtypes = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})
    return {"parameters": sum(parameter.numel() for parameter in parameters), "parameter_dtypes": ", ".join(dtypes)}


def command_line(arguments: list[str]) -> str:
    """The command, paths by their base names, without values that sound secret: after `--token`, in `api_key=`, in a URL."""
    shown, hide_next = [], False
    for argument in arguments[1:]:
        option, equals, _ = argument.partition("=")
        secret = SECRET_OPTION.fullmatch(option) is not None
        shown.append("***" if hide_next else f"{option}=***" if secret and equals else _without_folders(argument))
        hide_next = secret and not equals
    return shlex.join([Path(arguments[0]).name, *shown])


def _without_folders(argument: str) -> str:
    option, equals, value = argument.partition("=") if argument.startswith("-") or "=" in argument else ("", "", argument)
    if "://" in value:
        value = URL_USER.sub("://***@", value)
    elif "/" in value or "\\" in value:
        value = PurePath(value.replace("\\", "/")).name
    return f"{option}{equals}{value}"


def git_facts(folder: Path) -> dict[str, Any]:
    """The commit checked out in a folder, and whether tracked files differ from it; None outside git."""
    commit = output_of("git", "-C", str(folder), "rev-parse", "HEAD")
    if commit is None:
        return {"git_commit": None, "git_dirty": None}
    status = output_of("git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": commit, "git_dirty": None if status is None else bool(status)}


def torch_settings() -> dict[str, Any]:
    """Thread counts and the precision and determinism flags."""
    import torch

    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "matmul_precision": _setting(torch.get_float32_matmul_precision),
        "cudnn_tf32": _setting(lambda: torch.backends.cudnn.allow_tf32),
        "cudnn_benchmark": _setting(lambda: torch.backends.cudnn.benchmark),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled() or None,  # None: not seen here, yet a loop may turn it on for a part
    }


def environment_facts(environment: Any) -> dict[str, Any]:
    """The variables of the short list that are set, as `env.NAME`."""
    return {f"env.{name}": environment[name] for name in ENVIRONMENT_NAMES if name in environment}


def gpu_facts() -> dict[str, Any]:
    """Number of GPUs, driver, and name and memory in bytes of each."""
    import torch

    if not torch.cuda.is_available():
        return {"gpu_count": 0}
    facts: dict[str, Any] = {"gpu_count": torch.cuda.device_count(), "gpu_driver": gpu_driver()}
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        facts |= {f"gpu_{index}_name": gpu.name, f"gpu_{index}_memory_bytes": gpu.total_memory}
    return facts


def gpu_driver() -> str | None:
    """Version of the NVIDIA driver, None where its tool is not there."""
    lines = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return lines.splitlines()[0] if lines else None


def cpu_model() -> str:
    """Name of the CPU as its maker writes it, or the best the system says."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        if match:
            return match[1].strip()
    if sys.platform == "darwin":
        return output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def usable_cpu_count() -> int | None:
    """CPUs that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count()


def memory_bytes() -> int | None:
    """Physical memory, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def installed_version(package: str) -> str | None:
    """Version of an installed package, None when it runs from a bare checkout."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def output_of(*command: str) -> str | None:
    """What a command prints, None when it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace").strip()


def _setting(read: Any) -> Any:
    # torch refuses to read a precision flag once a program has set it through the newer interface.
    try:
        return read()
    except RuntimeError:
        return None
