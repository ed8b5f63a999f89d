"""Small recordings with known numbers, as trace files, and the reports on them. Times are microseconds.

TRAINING: 12 whole steps of 955 on average (940, 950, 960, 970, three times) and one that was cut off. Of each step acting holds
100, the environment 50, sampling 400, forward 70, backward 80, the optimizer 200, the loss 15, and the rest is other.
AFTER: the same with sampling in 60 and the optimizer in 50: 465 on average.
GPU: 6 steps of 900 in a window of 6,000 on one GPU that works 450 of every 1,000.
"""

import gzip
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from make_trace import (
    Event,
    annotation,
    asynchronous,
    average,
    backward,
    kernel,
    kernel_average,
    launch,
    make_ranges,
    make_snapshot,
    memcpy,
    on_device,
    on_thread,
    op,
    phase,
    step,
    trace_text,
)

from longpole.analyze.contents import analyses_for
from longpole.analyze.diffs import diffs_for
from longpole.analyze.load import load
from longpole.analyze.run import run
from longpole.analyze.trace import Trace, TraceWarning
from longpole.capture.bundle import HealthNote, Manifest, RankFiles, described, write_manifest
from longpole.reports.model import Report, diff_report, run_report

STEPS = 12
SLOWER = (0, 10, 20, 30)  # what each step in turn takes longer, at its end
H200 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "cuda_runtime_version": 12040}

MANIFEST = Manifest(
    title="CartPole DQN, before",
    captured_at="2026-01-15T10:20:30Z",
    mode="training",
    machine={"cpu": "Example CPU"},
    versions={"python": "3.12.1", "torch": "2.13.0+cpu"},
    options={},
    program={"command": "python train.py --steps 12", "git_commit": "0123456789abcdef", "git_dirty": True, "threads": 2},
    ranks=(),
    unprofiled_step_ns=(500_000, 510_000, 520_000),  # median 510 µs: the profiler made the steps 955 ÷ 510 = 1.87 times as long
    samples_per_step=64,
)
AFTER = replace(MANIFEST, title="CartPole DQN, after", unprofiled_step_ns=(250_000, 255_000, 260_000))

SCRIPT = "</script><script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    '"><img src=x onerror="alert(2)">',
    "{{7*7}}{% raw %}",
    "[red]markup[/red] `code` **bold** | pipe",
    "turned \u202e round",
    "line\nbreak\ttab\r\x1b[31m\x07\x00",
    "void kernel<" + "int, " * 2000 + "float>()",
    "'single' & &amp; ampersand",
]
HOSTILE_MANIFEST = replace(
    MANIFEST,
    title=f"{SCRIPT} SURROGATE {{{{7*7}}}}",
    machine={"cpu": SCRIPT},
    program={"command": f"python {SCRIPT} $x$", "git_commit": "<b>0123456789"},
    versions={"python": "<i>3</i>", "torch": SCRIPT},
    health=(HealthNote("odd", SCRIPT),),
)


def hostile() -> list[Event]:
    """Six steps whose operators and phases have hostile names; the first phase holds most of each."""
    return [event for i in range(6) for event in _hostile_step(i, 1000 * i)]


def _hostile_step(i: int, at: float) -> list[Event]:
    borders = [0, 500, *(500 + 50 * k for k in range(1, len(HOSTILE)))]
    parts = list(zip(HOSTILE, borders, borders[1:], strict=False))
    loops = [op(HOSTILE[6], at + 20 * k, at + 20 * k + 10) for k in range(20)]
    return [
        step(i, at, at + 900),
        *(phase(name, at + a, at + b) for name, a, b in parts),
        *(op(name, at + a + 5, at + b - 5) for name, a, b in parts[1:]),
        *loops,
    ]


def hostile_gpu() -> list[Event]:
    """Six steps without phases that launch a kernel of each name."""
    return [event for i in range(6) for event in _hostile_gpu_step(10 * i, 1000 * i)]


def _hostile_gpu_step(i: int, at: float) -> list[Event]:
    calls = [(i + k, name, at + 50 * k) for k, name in enumerate(HOSTILE, 1)]
    return [
        step(i, at, at + 900),
        *(op(name, t, t + 40, **{"External id": k}) for k, name, t in calls),
        *(launch(k, t + 10, t + 20, **{"External id": k}) for k, _, t in calls),
        *(kernel(name, t + 25, t + 45, correlation=k, **{"External id": k}) for k, name, t in calls),
    ]


def sampling_in_a_loop(at: float) -> list[Event]:
    """400 long: 60 small reads."""
    return [phase("sampling", at, at + 400), *(op("aten::select", at + 6 * i, at + 6 * i + 4) for i in range(60))]


def sampling_at_once(at: float) -> list[Event]:
    return [phase("sampling", at, at + 60), op("aten::index", at + 5, at + 45)]


def optimizer_one_by_one(at: float) -> list[Event]:
    """200 long: two operators for each of four parameters."""
    calls = [op(("aten::mul_", "aten::add_")[i % 2], at + 24 * i, at + 24 * i + 20) for i in range(8)]
    return [annotation("Optimizer.step#Adam.step", at, at + 200), *calls]


def optimizer_fused(at: float) -> list[Event]:
    return [annotation("Optimizer.step#Adam.step", at, at + 50), op("aten::_fused_adam_", at + 10, at + 40)]


def training_step(number: int, at: float, after: bool = False) -> list[Event]:
    sampling, optimizer = (sampling_at_once, optimizer_fused) if after else (sampling_in_a_loop, optimizer_one_by_one)
    slow, fast = (60, 50) if after else (400, 200)
    learn = at + 150 + slow
    end = learn + 150 + fast + 40 + SLOWER[number % 4]
    return [
        step(number, at, end),
        phase("act", at, at + 100), op("aten::linear", at + 10, at + 60),
        phase("environment", at + 100, at + 150),
        *sampling(at + 150),
        phase("forward", learn, learn + 70), op("aten::linear", learn + 10, learn + 60),
        backward("autograd::engine::evaluate_function: AddmmBackward0", learn + 70, learn + 150),
        *optimizer(learn + 150),
        phase("loss", learn + 150 + fast, learn + 165 + fast), op("aten::item", learn + 152 + fast, learn + 162 + fast),
    ]  # fmt: skip


def training(after: bool = False) -> list[Event]:
    """Thirteen steps, of which the last was cut off."""
    cut_off = [step(STEPS, 1100 * STEPS, 1100 * STEPS + 120), op("aten::linear", 1100 * STEPS + 10, 1100 * STEPS + 60)]
    return [event for i in range(STEPS) for event in training_step(i, 1100 * i, after)] + cut_off


def gpu() -> list[Event]:
    """Each step launches a copy of 50, a product of 300 and a sum of 100, one after the other."""
    return [event for i in range(6) for event in _gpu_step(i, 1000 * i)]


def _gpu_step(i: int, at: float) -> list[Event]:
    first = 10 * i + 1
    return [
        step(i, at, at + 900),
        op("aten::mm", at + 100, at + 200, **{"External id": first}),
        launch(first, at + 110, at + 120, **{"External id": first}),
        launch(first + 1, at + 130, at + 140, **{"External id": first}),
        launch(first + 2, at + 150, at + 160, name="cudaMemcpyAsync", **{"External id": first}),
        kernel("void gemm<float, 128>(float*)", at + 300, at + 600, correlation=first, **{"External id": first}),
        kernel("void sum<float>(float*)", at + 600, at + 700, correlation=first + 1, **{"External id": first}),
        memcpy("Memcpy HtoD (Pageable -> Device)", at + 700, at + 750, correlation=first + 2, bytes=4096),
    ]


def without_steps() -> list[Event]:
    """A recording of 1,000 in which aten::mm holds 600 and aten::relu 100."""
    return [op("aten::mm", 0, 600), op("aten::relu", 700, 800), op("aten::item", 990, 1000)]


def write(path: Path, events: list[Event], **top_level: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(trace_text(events, **top_level), encoding="utf-8")
    return path


def write_bundle(folder: Path, events: list[Event], manifest: Manifest = MANIFEST, **top_level: Any) -> Path:
    """A whole bundle of one rank without snapshots."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rank0.trace.json.gz"
    path.write_bytes(gzip.compress(trace_text(events, **top_level).encode("utf-8"), mtime=0))
    write_manifest(folder, replace(manifest, ranks=(RankFiles(0, described(path)),)))
    return folder


def run_report_of(path: Path) -> Report:
    return report_on(load(path))


def report_on(trace: Trace) -> Report:
    return run_report(run(analyses_for(trace), trace), trace)


def diff_report_of(before: Path, after: Path) -> Report:
    return diff_report_on(load(before), load(after))


def diff_report_on(before: Trace, after: Trace) -> Report:
    return diff_report(run(diffs_for([before], [after]), [before], [after]), [before], [after])


def jax(faster_by: float = 0) -> Trace:
    """A device works 800 of 1,000, two of its streams 100 of that at once; its thread rests 50."""
    return make_ranges(
        on_thread("PjitFunction(train)", 0, 300), on_thread("copy_to_device", 100, 200),
        on_thread("block_until_ready", 350, 1000),
        on_device("fusion.1", 100, 600 - faster_by, 1), on_device("dot.2", 500 - faster_by, 900 - faster_by, 2),
        warnings=(
            TraceWarning("no_category", 5, "5 events carry no category; told by their process.", harmless=True),
            TraceWarning("truncated_file", 1, "The file was cut off after 1,000 µs; what came later is missing."),
        ),
    )  # fmt: skip


def pairs() -> Trace:
    """outer 100 with inner 50 inside, and 60 of a collective beside them."""
    slices = [on_thread("outer", 0, 100), on_thread("inner", 10, 60), asynchronous("AllReduce", 20, 80)]
    return make_ranges(*slices, producer="unknown")


def snapshot(faster_by: float = 0, **fields: Any) -> Trace:
    """Ten steps of 1,000, of which aten::mm holds 600 and aten::add 100; 300 are outside operators."""
    return make_snapshot(
        average("ProfilerStep*", 10, 3000, 10_000 - 10 * faster_by, is_user_annotation=True),
        average("aten::mm", 20, 6000 - 10 * faster_by), average("aten::add", 100, 1000), **fields,
    )  # fmt: skip


def gpu_snapshot() -> Trace:
    """No steps; a product of 4,000 and a sum of 1,000 on the device."""
    return make_snapshot(
        average("aten::mm", 20, 500, device=4000), average("aten::sum", 20, 300, device=1000),
        kernel_average("void gemm<float, 128>(float*)", 20, 4000), kernel_average("void sum<float>(float*)", 20, 1000),
    )  # fmt: skip


def hostile_ranges() -> Trace:
    named = [make(name, 100 * i, 100 * i + 50) for i, name in enumerate(HOSTILE) for make in (on_thread, on_device, asynchronous)]
    return make_ranges(*named, producer=SCRIPT, warnings=(TraceWarning("odd", 1, SCRIPT), TraceWarning("odd", 1, SCRIPT, True)))


def hostile_snapshot() -> Trace:
    return make_snapshot(*(average(name, 1, 10) for name in HOSTILE), torch=SCRIPT)


KINDS = (
    "bundle", "after", "trace", "gpu", "no steps", "hostile", "hostile gpu",
    "jax", "pairs", "snapshot", "gpu snapshot", "hostile ranges", "hostile snapshot",
    "diff", "bare diff", "gpu diff", "mixed diff", "hostile diff", "jax diff", "snapshot diff", "totals diff",
)  # fmt: skip


@cache
def reports() -> dict[str, Report]:
    """A report of each of KINDS, made once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before, after = write_bundle(folder / "before", training()), write_bundle(folder / "after", training(after=True), AFTER)
        trace, trace_after = write(folder / "train.json", training()), write(folder / "train_after.json", training(after=True))
        on_gpu, plain = write(folder / "gpu.json", gpu(), **H200), write(folder / "plain.json", without_steps())
        evil = write_bundle(folder / "evil", hostile(), HOSTILE_MANIFEST, deviceProperties=[{"id": 0, "name": SCRIPT}])
        manifest = evil / "manifest.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace("SURROGATE", "\\ud800"), encoding="utf-8")
        evil_gpu = write(folder / "evil <i>.json", hostile_gpu(), deviceProperties=[{"id": 0, "name": SCRIPT}])
        return {
            "bundle": run_report_of(before),
            "after": run_report_of(after),
            "trace": run_report_of(trace),
            "gpu": run_report_of(on_gpu),
            "no steps": run_report_of(plain),
            "hostile": run_report_of(evil),
            "hostile gpu": run_report_of(evil_gpu),
            "jax": report_on(jax()),
            "pairs": report_on(pairs()),
            "snapshot": report_on(snapshot()),
            "gpu snapshot": report_on(gpu_snapshot()),
            "hostile ranges": report_on(hostile_ranges()),
            "hostile snapshot": report_on(hostile_snapshot()),
            "jax diff": diff_report_on(jax(), jax(faster_by=200)),
            "snapshot diff": diff_report_on(snapshot(), snapshot(faster_by=200)),
            "totals diff": diff_report_on(gpu_snapshot(), load(on_gpu)),
            "diff": diff_report_of(before, after),
            "bare diff": diff_report_of(trace, trace_after),
            "gpu diff": diff_report_of(on_gpu, on_gpu),
            "mixed diff": diff_report_of(plain, on_gpu),
            "hostile diff": diff_report_of(trace, evil),
        }
