"""What a what-if selects, what it refuses, and what holds of every prediction."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_trace import backward, frame, host, kernel, launch, make_trace, memcpy, op, phase, step

from longpole.analyze.launches import is_launch
from longpole.analyze.links import calls_named
from longpole.analyze.replay.changes import joint_effect
from longpole.analyze.replay.graph import graph
from longpole.analyze.replay.quality import quality
from longpole.analyze.replay.what import COPY, HOST, KERNEL, SYNC
from longpole.analyze.replay.whatif import Prediction, WhatIf, parse, predict
from longpole.analyze.trace import Trace
from longpole.capture.errors import ChangeError


def predicted(trace: Trace, *changes: str) -> Prediction:
    (found,) = predict(trace, [tuple(parse(change) for change in changes)])
    return found


def saving_us(trace: Trace, *changes: str) -> float:
    return predicted(trace, *changes).saving_ns / 1000


def refusal(trace: Trace, change: str) -> str:
    with pytest.raises(ChangeError) as refused:
        predicted(trace, change)
    return str(refused.value)


def on_host() -> Trace:
    """A step without a GPU: 10 Python, mm 40 of which 10 are add's, 10, backward 20, 5, optimizer 15 with 10 of mul."""
    return make_trace(
        [step(1, 0, 100), op("aten::mm", 10, 50), op("aten::add", 20, 30), backward("MmBackward0", 60, 80)],
        [phase("optimizer", 85, 100), op("aten::mul", 85, 95), frame("nn.Module: Linear_0", 5, 55)],
    )


def test_text_becomes_a_change():
    assert parse("kernel:gemm x0.5") == WhatIf(KERNEL, "gemm", 0.5)
    assert parse("sync:aten::item x0") == WhatIf(SYNC, "aten::item", 0)
    assert parse("host x 0.5") == WhatIf(HOST, "", 0.5)
    assert parse("copy:h2d pinned") == WhatIf(COPY, "h2d", pinned=True)
    assert parse("GRAPH") == WhatIf("graph")
    for text in ("kernel:gemm x0.5", "host x0.5", "copy:h2d pinned", "graph", "sync x0"):
        assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("faster please", "possible are"), ("", "possible are"), ("kernel x0.5", "which kernel"), ("host", "how much"),
        ("comm:nccl x0", "as a whole"), ("sync x0.5", "altogether"), ("kernel:gemm x2", "0 to 1"), ("host pinned", "only copies"),
        ("host x1.2.3", "no number"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_one_sentence(text: str, said: str):
    with pytest.raises(ChangeError, match=said) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


def test_a_pattern_that_matches_nothing_names_what_is_near():
    phases = "phases: backward, optimizer, other."
    assert refusal(on_host(), "op:aten::m x0.5") == (
        f"The trace holds no operator called aten::m; nearest names: aten::mm, aten::mul; {phases}"
    )
    assert refusal(on_host(), "comm x0") == f"The trace holds no kernel of communication; {phases}"
    assert refusal(on_host(), "kernel:gemm x0.5") == f"The trace holds no kernel called gemm; {phases}"
    assert refusal(on_host(), "phase:optim x0.5") == f"The trace holds no phase called optim; {phases}"
    assert refusal(two_kernels(), "kernel:conv x0.5") == (
        "The trace holds no kernel called conv; nearest names: ncclDevKernel_AllReduce, sgemm_128; "
        "classes of kernels: communication, gemm; phases: other."
    )


def test_on_the_host_a_region_takes_its_time_with_it():
    trace = on_host()
    assert quality(trace).trivial
    assert saving_us(trace, "op:aten::mm x0.5") == 20
    assert saving_us(trace, "op:aten::add x0") == 10
    assert saving_us(trace, "phase:optimizer x0") == 15
    assert saving_us(trace, "phase:backward x0.5") == 10
    assert saving_us(trace, "module:Linear_0 x0") == 50
    assert saving_us(trace, "host:optimizer x0.2") == pytest.approx(12)
    assert saving_us(trace, "host x0.5") == 50
    assert saving_us(trace, "op:aten::mm x0", "phase:optimizer x0") == pytest.approx(55)


def two_kernels() -> Trace:
    """The host waits for two kernels, a gemm 50 and nccl 30, launched in addmm and in all_reduce."""
    return make_trace(
        [step(1, 0, 200), op("aten::addmm", 10, 30, **{"External id": 3}), op("c10d::allreduce_", 35, 50)],
        [launch(1, 20, 25), launch(2, 40, 45), host("cuda_runtime", "cudaStreamSynchronize", 60, 110)],
        [kernel("sgemm_128", 25, 75, correlation=1), kernel("ncclDevKernel_AllReduce", 76, 106, correlation=2)],
    )


def test_kernels_are_found_by_class_by_name_and_by_operator():
    trace = two_kernels()
    assert saving_us(trace, "kernel:gemm x0.5") == 25
    assert saving_us(trace, "kernel:sgemm_ x0.5") == 25
    assert saving_us(trace, "kernel:aten::addmm x0.5") == 25
    assert saving_us(trace, "comm x0") == 30
    assert saving_us(trace, "op:c10d::allreduce_ x0") == 30


def test_a_ceiling_may_save_nothing():
    found = predicted(two_kernels(), "comm x0")
    assert (found.low_ns, found.saving_ns, found.point) == (0, 30_000, True)


def test_copies_from_pageable_memory_get_the_speed_of_pinned_ones():
    trace = make_trace(
        [step(1, 0, 300), host("cuda_runtime", "cudaMemcpyAsync", 0, 5, correlation=1)],
        [host("cuda_runtime", "cudaMemcpyAsync", 10, 120, correlation=2)],
        [memcpy("Memcpy HtoD (Pinned -> Device)", 5, 15, correlation=1, bytes=1000)],
        [memcpy("Memcpy HtoD (Pageable -> Device)", 16, 116, correlation=2, bytes=2000)],
    )
    assert saving_us(trace, "copy:h2d pinned") == 80
    with pytest.raises(ChangeError, match="no direction"):
        predicted(trace, "copy:sideways x0.5")


def test_no_candidates_give_no_predictions():
    assert predict(on_host(), []) == []


def test_what_no_rule_explains_gives_a_range_and_a_reason():
    """b starts 400 µs after its launch, and nothing else runs."""
    trace = make_trace(
        [step(1, 0, 50), launch(1, 10, 15), launch(2, 20, 25)],
        [kernel("a_gemm", 20, 60, correlation=1), kernel("b_gemm", 460, 560, correlation=2)],
    )
    found = predicted(trace, "kernel:gemm x0.5")
    assert not found.point
    assert found.reason is not None
    assert found.reason.startswith("not predicted, because ")
    assert 0 <= found.low_ns <= found.saving_ns <= found.high_ns <= found.removed_ns == 70_000


def test_two_clocks_are_a_reason():
    trace = make_trace([step(1, 0, 100), launch(1, 50, 55)], [kernel("a_gemm", 20, 60, correlation=1)])
    found = predicted(trace, "kernel:gemm x0.5")
    assert not found.point
    assert "clocks disagree" in (found.reason or "")


def test_work_that_nothing_launched_is_a_reason():
    trace = make_trace([kernel("sgemm", 0, 10), kernel("sgemm", 12, 20, device=1)])
    assert "without the call" in (predicted(trace, "kernel:gemm x0.5").reason or "")


def test_lost_work_is_a_reason():
    trace = make_trace([step(1, 0, 100), launch(1, 10, 15), launch(2, 20, 25)], [kernel("a_gemm", 20, 60, correlation=1)])
    assert "without a record" in (predicted(trace, "kernel:gemm x0.5").reason or "")


Drawn = tuple[int, int, int, int, int, int]  # pause, launch, how late, kernel, stream, whether the host waits
PAUSE, LAUNCH, LATE, TOOK, STREAM, WAIT = (st.integers(*of) for of in ((0, 30), (1, 8), (0, 60), (1, 200), (7, 9), (0, 9)))
EVENTS = st.lists(st.tuples(PAUSE, LAUNCH, LATE, TOOK, STREAM, WAIT), min_size=1, max_size=12)
KNOBS = ("kernel:gemm x", "kernel:elementwise x", "comm x", "host x")
NAMES = ("sgemm", "ncclAllReduce", "vectorized_elementwise_kernel", "sgemm_b")


def random_trace(drawn: list[Drawn]) -> Trace:
    """Launches one after the other, each stream in order, now and then a wait for the device."""
    now, free, last = 0.0, dict.fromkeys((7, 8, 9), 0.0), 0.0
    calls, kernels = [], []
    for number, (gap, call, late, took, stream, wait) in enumerate(drawn):
        now += gap
        calls.append(launch(number + 1, now, now + call))
        start = max(now + 5, free[stream] + 1) + (late if wait > 6 else 0)
        free[stream] = start + took
        last = max(last, free[stream])
        kernels.append(kernel(NAMES[number % len(NAMES)], start, start + took, stream=stream, correlation=number + 1))
        now += call
        if wait == 0:
            end = max(now + 2, last + 3)
            calls.append(host("cuda_runtime", "cudaDeviceSynchronize", now, end))
            now = end
    return make_trace([step(1, 0, now + 5)], calls, kernels)


def launch_ns(trace: Trace) -> int:
    """Time in launch calls."""
    host_ranges = trace.host[calls_named(trace, is_launch)]
    return int((host_ranges.end_ns - host_ranges.start_ns).sum())


def held_knobs(trace: Trace) -> list[str]:
    held = []
    for knob in KNOBS:
        with contextlib.suppress(ChangeError):
            joint_effect(graph(trace), [parse(knob + "0.5")])
            held.append(knob)
    return held


@settings(max_examples=40)
@given(EVENTS)
def test_a_saving_is_never_negative_nor_more_than_what_is_removed(drawn: list[Drawn]):
    trace = random_trace(drawn)
    candidates = [(parse(knob + factor),) for knob in held_knobs(trace) for factor in ("0", "0.5")]
    for found in predict(trace, [*candidates, (parse("graph"),)]):
        raw = float((found.measured_ns - found.step_ns).mean())
        assert -1 <= raw <= found.removed_ns + 1
        assert 0 <= found.low_ns <= found.saving_ns <= found.high_ns + 1e-6


@settings(max_examples=40)
@given(EVENTS)
def test_less_time_never_makes_a_step_longer_nor_its_least_saving_smaller(drawn: list[Drawn]):
    trace = random_trace(drawn)
    for knob in held_knobs(trace):
        predictions = predict(trace, [(parse(f"{knob}{factor}"),) for factor in ("0", "0.01", "0.3", "0.6", "0.9", "1")])
        assert np.diff([found.step_ns.mean() for found in predictions]).min() >= -1e-6
        assert np.diff([found.low_ns for found in predictions]).max() <= 1e-6


@settings(max_examples=40)
@given(EVENTS)
def test_no_step_is_shorter_than_its_busiest_stream_its_compute_and_its_launches(drawn: list[Drawn]):
    trace = random_trace(drawn)
    work = trace.device
    took = work.end_ns - work.start_ns
    busiest = max(int(took[work.stream == stream].sum()) for stream in np.unique(work.stream))
    changes = ("graph", "host x0.5", "launch x0")
    for found, left in zip(predict(trace, [(parse(change),) for change in changes]), (0, 0.5, 1), strict=True):
        assert found.step_ns.mean() >= busiest - 1
        assert found.step_ns.mean() >= left * launch_ns(trace) - 1
    quiet = np.array(["nccl" not in trace.names[name] for name in work.name], bool)
    if not quiet.all():
        (found,) = predict(trace, [(parse("comm x0"),)])
        assert found.step_ns.mean() >= max(int(took[quiet & (work.stream == stream)].sum()) for stream in (7, 8, 9)) - 1
        assert found.step_ns.mean() >= launch_ns(trace) - 1
