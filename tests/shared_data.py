"""Where the shared test data lie, which files they hold, and traces of them, each read once."""

import os
from functools import cache
from pathlib import Path

from longpole.analyze.load import load
from longpole.analyze.trace import Trace

SHARED = Path(os.environ.get("LONGPOLE_SHARED") or Path(__file__).parents[2] / "shared")
TRACES = (
    "h100_bert", "h100_falconsai", "h100_qwen", "h100_timesformer", "hta_alexnet", "hta_amd", "hta_control", "hta_filter_r1",
    "hta_negative_queue", "hta_nongpu", "hta_ns", "hta_test", "hta_timeline_r0", "hta_triton", "mi210_gpu_only",
    "mi300_resnet_act_ckpt", "sglang_decode", "torch_compile_triton", "vllm_decode_full",
)  # fmt: skip


def names(pattern: str) -> list[str]:
    """Paths of the shared files that match, for readable test ids; empty where the folder is absent."""
    return sorted(path.relative_to(SHARED).as_posix() for path in SHARED.glob(pattern))


@cache
def shared_trace(name: str) -> Trace:
    return load(SHARED / name)
