import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import kernel, make_trace, memcpy, step
from test_durations import table

from longpole.analyze import trace as t
from longpole.analyze.device_time import stream_times, sums, union_times
from longpole.analyze.durations import repaired_work
from longpole.analyze.kernels import COMMUNICATION, COMPUTE, COPY, work_class

STEP = [step(1, 0, 100)]
CLASSES = (COMPUTE, COMMUNICATION, COPY)


def test_what_runs_beside_computing_is_not_exposed():
    work = [kernel("gemm", 0, 50), kernel("nccl", 30, 70, stream=8), memcpy("HtoD", 40, 90, stream=9)]
    trace = make_trace(STEP, work)
    found = union_times(trace.device, work_class(trace))
    assert found == {
        "busy_ns": 90_000, "compute_ns": 50_000, "comm_ns": 40_000, "copy_ns": 50_000, "overlap_ns": 20_000, "overlap_share": 0.5,
        "comm_exposed_ns": 20_000, "copy_exposed_ns": 20_000, "median_gap_ns": found["median_gap_ns"],
    }  # fmt: skip
    assert math.isnan(found["median_gap_ns"])


def test_the_median_gap_is_between_stretches_of_work_on_any_stream():
    trace = make_trace(STEP, [kernel("a", 10, 20), kernel("b", 15, 30, stream=8), kernel("a", 38, 40), kernel("a", 60, 70)])
    assert union_times(trace.device, work_class(trace))["median_gap_ns"] == 14_000


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from(CLASSES)), min_size=1))
def test_unions_agree_with_a_count_of_instants_and_add_up(rows: list[tuple[int, int, int]]):
    found = union_times(table([(start, ns, t.KERNEL, 0, 7) for start, ns, _ in rows]), np.array([kind for *_, kind in rows]))
    runs = {kind: {at for start, ns, k in rows if k == kind for at in range(start, start + ns)} for kind in CLASSES}
    compute, comm, copy = (runs[kind] for kind in CLASSES)
    assert [found["compute_ns"], found["comm_ns"], found["copy_ns"]] == [len(compute), len(comm), len(copy)]
    assert found["overlap_ns"] == len(comm & compute)
    assert [found["comm_exposed_ns"], found["copy_exposed_ns"]] == [len(comm - compute), len(copy - compute - comm)]
    assert found["busy_ns"] == found["compute_ns"] + found["comm_exposed_ns"] + found["copy_exposed_ns"]


def test_a_stream_has_gaps_between_its_first_and_last_work():
    work = [kernel("a", 10, 20), kernel("b", 50, 60), kernel("c", 30, 80, stream=8), memcpy("HtoD", 70, 75)]
    assert stream_times(make_trace(STEP, work).device).to_numpy().tolist() == [
        [0, 7, 2, 25_000, 25_000, 40_000], [0, 8, 1, 50_000, 50_000, 0],
    ]  # fmt: skip


def test_a_copy_of_no_duration_has_no_bandwidth():
    work = [memcpy("HtoD", 0, 10, bytes=80_000), memcpy("HtoD", 20, 20, bytes=200), memcpy("DtoD", 30, 40)]
    trace = make_trace(STEP, work)
    found = sums(trace.device, work_class(trace))
    assert [found["copy_count"], found["copy_sum_ns"], found["copy_bytes"]] == [3, 20_000, 80_200]


def test_without_copies_there_are_no_bytes_and_without_sizes_nothing_is_known_of_them():
    none, unsized = (make_trace(STEP, work) for work in ([kernel("a", 0, 10)], [memcpy("HtoD", 0, 10)]))
    assert sums(none.device, work_class(none))["copy_bytes"] == 0
    assert math.isnan(sums(unsized.device, work_class(unsized))["copy_bytes"])


def test_sums_are_plain_and_memsets_compute():
    work = [kernel("gemm", 0, 30), kernel("nccl", 10, 30, stream=8), kernel("Memset", 40, 45, category="gpu_memset")]
    trace = make_trace(STEP, work)
    found = sums(trace.device, work_class(trace))
    assert [found["compute_sum_ns"], found["comm_sum_ns"], found["comm_count"]] == [35_000, 20_000, 1]
    assert [found["kernel_timed_count"], found["kernel_median_ns"]] == [2, 25_000]


def test_busy_time_is_counted_from_repaired_durations():
    trace = make_trace(STEP, [kernel("broken", 10, 99), kernel("a", 30, 40)])
    assert union_times(repaired_work(trace), work_class(trace))["busy_ns"] == 30_000
