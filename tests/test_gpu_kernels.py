import pytest
from make_trace import Event, kernel, launch, loop, make_trace, memcpy, op, step

from longpole.analyze.analyses.gpu_kernels import gpu_kernels, kernel_time_per_step
from longpole.capture.errors import MissingData

STEP = [step(1, 0, 100)]


def wait(start: float, end: float, name: str = "cudaDeviceSynchronize") -> Event:
    return launch(99, start, end, name=name)


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
    assert found.devices.iloc[0].to_dict() == {
        "device": 0, "busy_ns": 70_000, "idle_ns": 30_000, "window_ns": 100_000, "busy_share": 0.7,
        "idle_share": pytest.approx(0.3), "compute_ns": 60_000, "span_ns": 80_000, "kernel_count": 2,
        "kernel_sum_ns": 80_000, "copy_count": 1, "copy_sum_ns": 10_000,
    }  # fmt: skip
    assert found.streams[["stream", "kernel_count", "sum_ns", "busy_ns"]].to_numpy().tolist() == [
        [7, 1, 40_000, 40_000], [8, 1, 40_000, 40_000], [9, 0, 10_000, 10_000],
    ]  # fmt: skip
    assert (found.lower_bound, found.idle_withheld) == (None, None)


def test_each_device_has_its_own_figures():
    found = gpu_kernels(make_trace(STEP, [kernel("a", 0, 90), kernel("a", 0, 30, device=1)]))
    assert found.devices["busy_share"].tolist() == [0.9, 0.3]
    assert found.kernels["device"].tolist() == [0, 1]


def test_communication_and_copies_are_no_computing():
    found = gpu_kernels(make_trace(STEP, [kernel("ncclKernel", 0, 60), memcpy("HtoD", 60, 80), kernel("gemm", 50, 70, stream=8)]))
    assert found.devices.loc[0, ["busy_ns", "compute_ns"]].tolist() == [80_000, 20_000]


def test_a_launch_without_a_record_makes_busy_time_a_lower_bound():
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 10, 15)], [kernel("a", 20, 40, correlation=1)]))
    assert found.lower_bound == found.idle_withheld == "launch calls without a record of their work: 1 of 2"
    assert found.measures == {"gpu_busy_share_lower_bound": 0.2}
    assert [caution.code for caution in found.warnings] == ["lower_bound"]


def test_of_several_devices_each_has_its_lower_bound():
    work = [kernel("a", 20, 40, correlation=1), kernel("b", 20, 70, device=1)]
    found = gpu_kernels(make_trace(STEP, [launch(1, 0, 5), launch(2, 10, 15)], work))
    assert found.measures == {"gpu_busy_share_lower_bound": {0: 0.2, 1: 0.5}}


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


def test_device_work_belongs_to_the_step_that_launched_it():
    launches = loop([100, 100], lambda start, end: [op("a", start, end), launch(int(start) + 1, start, start + 5)])
    work = [kernel("gemm", 150, 180, correlation=1), kernel("gemm", 180, 220, correlation=101), kernel("stray", 220, 230)]
    table = kernel_time_per_step(make_trace(launches, work))
    assert table.columns.tolist() == [("kernel", "gemm")]
    assert table["kernel", "gemm"].tolist() == [30_000, 40_000]


def test_a_cpu_run_has_no_gpu_work():
    with pytest.raises(MissingData, match="CUDA activity"):
        gpu_kernels(make_trace([op("a", 0, 10)]))
