import math

import pytest
from make_trace import Event, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.analyses.gpu_kernels import gpu_kernels
from longpole.capture.errors import MissingData

STEP = [step(1, 0, 100)]


def wait(start: float, end: float, name: str = "cudaDeviceSynchronize") -> Event:
    return launch(99, start, end, name=name)


def test_a_kernel_without_a_duration_counts_and_makes_busy_time_a_lower_bound():
    endless = kernel("lost", 30, 40, correlation=2)
    del endless["dur"]
    calls = [step(1, 0, 100), launch(1, 0, 5), launch(2, 5, 10)]
    found = gpu_kernels(make_trace(calls, [kernel("a", 10, 30, correlation=1), endless, kernel("b", 60, 50, correlation=3)]))
    wanted = {"kernel_count": 3, "kernel_count_timed": 1, "kernel_sum_ns": 20_000, "gpu_busy_share_lower_bound": 0.2}
    assert wanted.items() <= found.measures.items()
    assert found.lower_bound == "device events without a time: 2"
    assert set(found.withheld) == {"gpu_idle_ns", "gpu_idle_share"}


def test_kernels_are_summed_by_name_the_most_time_first():
    found = gpu_kernels(
        make_trace(STEP, [kernel("gemm", 0, 30), kernel("add", 30, 40), kernel("gemm", 40, 50), memcpy("HtoD", 50, 60)])
    )
    rows = found.kernels.set_index("name")
    assert rows.index.tolist() == ["gemm", "HtoD", "add"]
    assert rows.loc["gemm", ["count", "total_ns", "mean_ns", "min_ns", "max_ns"]].tolist() == [2, 40_000, 20_000, 10_000, 30_000]
    assert rows["cat"].tolist() == ["kernel", "gpu_memcpy", "kernel"]
    assert rows["device_class"].tolist() == ["compute", "copy", "compute"]
    assert rows["total_share"].tolist() == pytest.approx([4 / 6, 1 / 6, 1 / 6])


def test_busy_time_is_the_union_over_streams():
    work = [kernel("a", 10, 50), kernel("b", 30, 70, stream=8), memcpy("HtoD", 80, 90, stream=9)]
    found = gpu_kernels(make_trace(STEP, work))
    expected = {
        "device": 0, "busy_ns": 70_000, "idle_ns": 30_000, "window_ns": 100_000, "busy_share": 0.7,
        "idle_share": 1 - 0.7, "compute_ns": 60_000, "span_ns": 80_000, "kernel_count": 2,
        "kernel_sum_ns": 80_000, "copy_count": 1, "copy_sum_ns": 10_000,
    }  # fmt: skip
    assert expected.items() <= found.devices.iloc[0].to_dict().items()
    assert found.streams[["stream", "kernel_count", "sum_ns", "busy_ns"]].to_numpy().tolist() == [
        [7, 1, 40_000, 40_000], [8, 1, 40_000, 40_000], [9, 0, 10_000, 10_000],
    ]  # fmt: skip
    assert (found.lower_bound, found.idle_withheld) == (None, None)


def test_each_device_has_its_own_figures():
    found = gpu_kernels(make_trace(STEP, [kernel("a", 0, 90), kernel("a", 0, 30, device=1)]))
    assert found.devices["busy_share"].tolist() == [0.9, 0.3]
    assert found.kernels["device"].tolist() == [0, 1]
    assert found.least_busy is not None
    assert (found.least_busy["device"], found.least_busy["busy_share"]) == (1, 0.3)
    assert gpu_kernels(make_trace(STEP, [kernel("a", 0, 90)])).least_busy is None


def test_communication_and_copies_are_no_computing():
    found = gpu_kernels(make_trace(STEP, [kernel("ncclKernel", 0, 60), memcpy("HtoD", 60, 80), kernel("gemm", 50, 70, stream=8)]))
    assert found.devices.loc[0, ["busy_ns", "compute_ns"]].tolist() == [80_000, 20_000]
    exposed = found.devices.loc[0, ["comm_exposed_ns", "copy_exposed_ns", "idle_ns"]]
    assert exposed.tolist() == [50_000, 10_000, 20_000]  # with computing they add up to the window


def test_kinds_of_kernels_are_summed_with_what_is_known_to_run_on_tensor_cores():
    work = [kernel("s884gemm", 0, 30), kernel("sgemm", 30, 40), kernel("nccl", 40, 60), memcpy("HtoD", 60, 100)]
    rows = gpu_kernels(make_trace(STEP, work)).classes
    assert rows["tensor_cores_share"].tolist() == pytest.approx([math.nan, 0.75, math.nan], nan_ok=True)
    assert rows.drop(columns="tensor_cores_share").to_numpy().tolist() == [
        ["copy", 1, 40_000, 0.4], ["gemm", 2, 40_000, 0.4], ["communication", 1, 20_000, 0.2],
    ]  # fmt: skip


def test_kernels_of_one_table_have_different_names():
    work = [kernel(f"void sum<{size}>(int)", 10 * size, 10 * size + 5, device=size % 2) for size in (1, 2, 3)]
    rows = gpu_kernels(make_trace(STEP, [*work, kernel("void sum<1>(int)", 50, 55)])).kernels
    assert rows["short_name"].tolist() == ["sum<…> [1]", "sum<…> [1]", "sum<…> [2]", "sum<…> [3]"]


def test_an_impossible_duration_is_cut_counted_and_told():
    found = gpu_kernels(make_trace(STEP, [kernel("broken", 10, 90), kernel("a", 30, 60)]))
    measures = found.measures
    assert [measures[f"kernel_sum_{kind}ns"] for kind in ("", "raw_", "repaired_")] == [110_000, 110_000, 50_000]
    assert (measures["impossible_durations"], measures["gpu_busy_ns"], measures["same_stream_overlap_ns"]) == (1, 50_000, 0)
    assert found.kernels["name"].tolist() == ["a", "broken"]
    assert [(warning.code, warning.count) for warning in found.warnings] == [("impossible_durations", 1)]
    assert found.cut_ns == 60_000


def test_an_impossible_duration_is_no_sign_of_two_clocks():
    work = [kernel("broken", 10, 90, correlation=1), kernel("a", 30, 60, correlation=2)]
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 5, 10), wait(20, 61)], work))
    assert (found.devices["busy_ns"].tolist(), found.withheld) == ([50_000], {})


def test_a_kernel_that_starts_early_on_its_stream_is_whole():
    found = gpu_kernels(make_trace(STEP, [kernel("a", 10, 40), kernel("b", 30, 50)]))
    assert found.warnings == ()
    assert {"gpu_busy_ns": 40_000, "same_stream_overlap_ns": 10_000, "impossible_durations": 0}.items() <= found.measures.items()


def test_on_an_unknown_stream_nothing_is_said_to_overlap():
    work = [{**kernel(name, 0, 50, stream=-1), "tid": -1} for name in ("a", "b")]
    assert gpu_kernels(make_trace(STEP, work)).measures["same_stream_overlap_ns"] == 0


def test_measures_are_numbers_for_one_device_and_by_device_for_several():
    one = gpu_kernels(make_trace(STEP, [kernel("a", 0, 20), kernel("b", 30, 50), kernel("c", 60, 70, stream=8)])).measures
    assert (one["streams_with_work"], one["stream_gap_ns"]) == ([7, 8], {7: 10_000, 8: 0})
    assert (one["kernel_count_timed"], one["kernel_median_ns"], one["median_gap_ns"]) == (3, 20_000, 10_000)
    assert not {"overlap_share_of_comm", "comms_id", "message_bytes_out", "memcpy_bandwidth_gbps_over_nonzero"} & one.keys()
    two = gpu_kernels(make_trace(STEP, [kernel("a", 0, 20), kernel("nccl", 30, 50, device=1)])).measures
    assert (two["gpu_busy_ns"], two["comm_count"]) == ({0: 20_000, 1: 20_000}, {0: 0, 1: 1})
    assert (two["streams_with_work"], two["overlap_share_of_comm"]) == ({0: [7], 1: [7]}, {1: 0})


def test_bytes_of_copies_are_told_only_where_each_has_a_size():
    copies = [memcpy("HtoD", 0, 10, bytes=300), memcpy("DtoH", 20, 30, bytes=0)]
    whole = gpu_kernels(make_trace(STEP, copies))
    assert (whole.measures["memcpy_bytes"], whole.withheld) == (300, {})
    part = gpu_kernels(make_trace(STEP, copies, [memcpy("HtoD", 40, 50, device=1)]))
    assert part.withheld == {"memcpy_bytes": "copies without a size: 1 of 3"}
    none = gpu_kernels(make_trace(STEP, [memcpy("HtoD", 40, 50)]))
    assert none.withheld == {}
    assert "memcpy_bytes" not in part.measures.keys() | none.measures.keys()


def test_what_is_withheld_is_no_measure():
    lost = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 10, 15)], [kernel("a", 20, 40, correlation=1)]))
    assert (lost.withheld.keys(), lost.measures["gpu_busy_share_lower_bound"]) == ({"gpu_idle_ns", "gpu_idle_share"}, 0.2)
    hidden = gpu_kernels(make_trace(STEP, [launch(1, 0, 5, name="cudaGraphLaunch")], [kernel("a", 20, 40)]))
    assert hidden.withheld.keys() == {"gpu_idle_ns", "gpu_idle_share", "gpu_busy_share"}
    assert [warning.code for warning in hidden.warnings] == ["graph_launches_without_kernels"]
    assert not (hidden.withheld.keys() | {"gpu_busy_share_lower_bound"}) & hidden.measures.keys()


def test_a_launch_without_a_record_makes_busy_time_a_lower_bound():
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 10, 15)], [kernel("a", 20, 40, correlation=1)]))
    assert found.lower_bound == found.idle_withheld == "launch calls without a record of their work: 1 of 2"
    assert found.measures["gpu_busy_share_lower_bound"] == 0.2
    assert [caution.code for caution in found.warnings] == ["lower_bound"]


def test_of_several_devices_each_has_its_lower_bound():
    work = [kernel("a", 20, 40, correlation=1), kernel("b", 20, 70, device=1)]
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 10, 15)], work))
    assert found.measures["gpu_busy_share_lower_bound"] == {0: 0.2, 1: 0.5}


def test_a_device_none_of_whose_kernels_has_a_time_is_a_device_all_the_same():
    lost = {**kernel("lost", 0, 0, device=1), "ts": -5_000_000}
    told = gpu_kernels(make_trace(STEP, [lost, kernel("a", 20, 40)])).measures
    assert (told["kernel_count"], told["kernel_count_timed"]) == ({0: 1, 1: 1}, {0: 1, 1: 0})
    assert told["gpu_busy_share_lower_bound"] == {0: 0.2, 1: 0}


def test_where_no_kernel_has_a_time_that_is_said():
    lost = {**kernel("lost", 0, 0), "ts": -5_000_000}
    with pytest.raises(MissingData, match="carries a time"):
        gpu_kernels(make_trace(STEP, [lost]))


def test_host_functions_are_no_launches_of_kernels():
    found = gpu_kernels(make_trace(STEP, [launch(2, 10, 15, name="cudaLaunchHostFunc")], [kernel("a", 20, 40)]))
    assert found.lower_bound is None


def test_a_kernel_without_a_time_counts_and_makes_busy_time_a_lower_bound():
    found = gpu_kernels(make_trace(STEP, [kernel("a", 20, 40), {**kernel("lost", 0, 0), "ts": -5_000_000}]))
    assert found.devices.loc[0, ["kernel_count", "kernel_sum_ns"]].tolist() == [2, 20_000]
    assert found.lower_bound == "device events without a time: 1"


def test_a_graph_launch_without_records_hides_an_unknown_share():
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5, name="cudaGraphLaunch")], [kernel("a", 20, 40)]))
    assert found.idle_withheld == "graph launches without a record of the kernels inside: 1 of 1"
    assert found.lower_bound is None


def test_many_kernels_belong_to_one_graph_launch():
    kernels = [kernel("a", 10 * i, 10 * i + 5, correlation=1) for i in range(1, 5)]
    assert gpu_kernels(make_trace(STEP, [launch(1, 0, 5, name="cudaGraphLaunch")], kernels)).idle_withheld is None


@pytest.mark.parametrize(("start", "agrees"), [(49, True), (48.999, False)])
def test_a_kernel_more_than_a_microsecond_before_its_launch_shows_two_clocks(start: float, agrees: bool):
    found = gpu_kernels(make_trace(STEP, [launch(1, 50, 55)], [kernel("a", start, 70, correlation=1)]))
    assert (found.idle_withheld is None) is agrees
    assert found.lower_bound is None


@pytest.mark.parametrize(("end", "agrees"), [(61, True), (61.001, False)])
def test_a_kernel_more_than_a_microsecond_after_the_wait_for_it_shows_two_clocks(end: float, agrees: bool):
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), wait(10, 60)], [kernel("a", 20, end, correlation=1)]))
    assert (found.idle_withheld is None) is agrees


def test_a_wait_that_began_before_the_launch_or_for_another_stream_proves_nothing():
    early = make_trace(STEP, [launch(1, 5, 15), wait(10, 20)], [kernel("a", 20, 40, correlation=1)])
    stream = make_trace(STEP, [launch(1, 0, 5), wait(10, 20, "cudaStreamSynchronize")], [kernel("a", 20, 40, correlation=1)])
    assert gpu_kernels(early).idle_withheld is None
    assert gpu_kernels(stream).idle_withheld is None


def test_with_two_devices_a_wait_does_not_say_for_which():
    work = [kernel("a", 20, 40, correlation=1), kernel("b", 0, 5, device=1)]
    assert gpu_kernels(make_trace(STEP, [launch(1, 0, 5), wait(10, 30)], work)).idle_withheld is None


def test_a_cpu_run_has_no_gpu_work():
    with pytest.raises(MissingData, match="CUDA activity"):
        gpu_kernels(make_trace([op("a", 0, 10)]))
