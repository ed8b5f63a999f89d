"""Trace -> what is known of a recording that decides whether its times compare with another's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .analyses.op_table import op_table
from .analyses.steps import steps
from .averages import torch_version
from .forms import form, written_by
from .kernel_times import kernel_classes, kernel_times
from .kernels import number_type
from .trace import Trace

Value = str | int | float | bool | None  # None: the recording does not tell
Facts = Mapping[str, Value]
MULTIPLIED_SHARE = 0.1  # of the time of those: below, a kind of number is not worth a word
MULTIPLYING = ("gemm", "convolution", "attention")  # classes of kernels


@dataclass(frozen=True)
class Fact:
    """One fact. `decisive`: where it differs, times say nothing of the change that is asked about; `of_gpus`: without GPU work it
    does not apply.
    """

    name: str
    decisive: bool
    of: Callable[[Trace], Value]
    of_gpus: bool = False


def facts(trace: Trace) -> Facts:
    """All that apply to this kind of recording, in the order in which they are shown."""
    known = FACTS if form(trace) == "pytorch" else TOTALS_FACTS
    return {fact.name: fact.of(trace) for fact in known if len(trace.device) or not fact.of_gpus}


def is_decisive(name: str) -> bool:
    return name in DECISIVE


def _manifest(section: str, key: str) -> Callable[[Trace], Any]:
    return lambda trace: getattr(trace.manifest, section).get(key) if trace.manifest else None


def _devices(trace: Trace) -> str | None:
    """The GPUs that did work; None where the file does not name them."""
    used = np.unique(trace.device.device).tolist()
    if not used:
        return "no GPU"
    names = trace.source.devices
    return ", ".join(names[i] for i in used) if all(0 <= i < len(names) for i in used) else None


def _torch(trace: Trace) -> str | None:
    if trace.snapshot is not None:
        return torch_version(trace.snapshot)
    return trace.manifest.versions.get("torch") if trace.manifest else None


def _steps_count(trace: Trace) -> int | None:
    return None if form(trace) == "ranges" else op_table(trace).steps_count


def _multiplied(trace: Trace) -> str | None:
    """The kinds of numbers that GPU kernels multiply, by their names, each with MULTIPLIED_SHARE of that time at least."""
    ns, classes = kernel_times(trace), kernel_classes(trace)
    found: dict[str, int] = {}
    for row in np.flatnonzero(ns).tolist():
        if classes[row] in MULTIPLYING:
            kind = number_type(trace.names[row]) or "unknown"
            found[kind] = found.get(kind, 0) + int(ns[row])
    told = sorted(kind for kind, took in found.items() if took >= MULTIPLIED_SHARE * sum(found.values()))
    return None if not told or told == ["unknown"] else ", ".join(told)


def _environment(trace: Trace) -> str | None:
    """The variables that change how fast torch runs, as they were set."""
    if trace.manifest is None:
        return None
    program = trace.manifest.program.items()
    return ", ".join(f"{key[4:]}={value}" for key, value in sorted(program) if key.startswith("env.")) or "none"


FACTS = (
    Fact("Recorded by", False, written_by),
    Fact("Mode", True, lambda trace: steps(trace).mode),
    Fact("Steps marked", True, lambda trace: steps(trace).window == "steps"),
    Fact("Kind of step", True, lambda trace: steps(trace).kind or "training or inference step"),
    Fact("GPU", True, _devices),
    Fact("CPU", True, _manifest("machine", "cpu")),
    Fact("CPU cores", True, _manifest("machine", "cpu_usable_count")),
    Fact("PyTorch", False, _manifest("versions", "torch")),
    Fact("Python", False, _manifest("versions", "python")),
    Fact("GPU runtime", False, lambda trace: trace.source.runtime, of_gpus=True),
    Fact("cuDNN", False, _manifest("versions", "cudnn"), of_gpus=True),
    Fact("Samples per step", True, lambda trace: trace.manifest.samples_per_step if trace.manifest else None),
    Fact("Parameters of the model", True, _manifest("program", "parameters")),
    Fact("Parameter types", False, _manifest("program", "parameter_dtypes")),
    Fact("Numbers multiplied on the GPU", False, _multiplied, of_gpus=True),
    Fact("Autocast", False, _manifest("program", "autocast")),
    Fact("Matmul precision", False, _manifest("program", "matmul_precision")),
    Fact("cuDNN TF32", False, _manifest("program", "cudnn_tf32"), of_gpus=True),
    Fact("cuDNN benchmark", False, _manifest("program", "cudnn_benchmark"), of_gpus=True),
    Fact("Deterministic", False, _manifest("program", "deterministic")),
    Fact("Threads", False, _manifest("program", "threads")),
    Fact("Variables set", False, _environment),
    Fact("GPU driver", False, _manifest("machine", "gpu_driver"), of_gpus=True),
    Fact("GPU clocks", False, lambda trace: None, of_gpus=True),  # neither a trace nor a bundle has them
    Fact("Shapes recorded", True, lambda trace: trace.source.with_shapes),
    Fact("Stacks recorded", True, lambda trace: trace.source.with_stacks),
    Fact("Memory recorded", True, lambda trace: trace.source.with_memory),
    Fact("Ranks", True, lambda trace: trace.source.world_size or 1),
    Fact("Steps", False, lambda trace: steps(trace).count),
)
TOTALS_FACTS = (
    Fact("Recorded by", False, written_by),
    Fact("CPU", True, _manifest("machine", "cpu")),
    Fact("PyTorch", False, _torch),
    Fact("Steps", False, _steps_count),
)
DECISIVE = frozenset(fact.name for fact in (*FACTS, *TOTALS_FACTS) if fact.decisive)
