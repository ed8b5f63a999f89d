import pytest
from make_trace import Event, annotation, kernel, launch, make_trace, memcpy, op

from longpole.analyze.clocks import clocks
from longpole.analyze.launches import clock_offset
from longpole.analyze.trace import Trace


def other_process(event: Event) -> Event:
    return {**event, "pid": 200}


def wait(start: float, end: float, name: str = "cudaDeviceSynchronize", correlation: int = 90) -> Event:
    return launch(correlation, start, end, name=name)


def recorded(name: str, start: float, end: float, correlation: int = 90, **where: int) -> Event:
    return kernel(name, start, end, category="cuda_sync", correlation=correlation, **where)


def late_us(trace: Trace) -> list[float]:
    return [max(-1, ns / 1000) for ns in clocks(trace).late_ns]


def test_a_kernel_that_ends_after_the_wait_for_it_returned_is_late_by_that_time():
    trace = make_trace([op("aten::mm", 0, 10), launch(1, 5, 8), wait(20, 100)], [kernel("gemm", 400, 470, correlation=1)])
    assert late_us(trace) == [370]
    assert clock_offset(trace) == "the two clocks disagree: device events that end after a wait for them returned, 1"


def test_of_several_waits_the_first_to_return_counts():
    host = [launch(1, 5, 8), wait(20, 100), wait(30, 60), wait(6, 10)]
    assert late_us(make_trace(host, [kernel("gemm", 10, 70, correlation=1)])) == [10]


def test_a_wait_for_a_stream_proves_something_only_where_a_row_names_the_stream():
    host = [launch(1, 0, 5), launch(2, 6, 9), wait(20, 30, "cudaStreamSynchronize")]
    work = [kernel("a", 10, 50, correlation=1), kernel("b", 10, 60, stream=8, correlation=2)]
    assert late_us(make_trace(host, work)) == [-1, -1]
    assert late_us(make_trace(host, work, [recorded("Stream Sync", 21, 30, stream=8)])) == [-1, 30]


def test_with_several_devices_a_wait_proves_something_only_where_a_row_names_the_device():
    host = [launch(1, 0, 5), launch(2, 6, 9), wait(20, 30)]
    work = [kernel("a", 10, 50, correlation=1), kernel("b", 10, 60, device=1, correlation=2)]
    assert late_us(make_trace(host, work)) == [-1, -1]
    assert late_us(make_trace(host, work, [recorded("Context Sync", 21, 30, stream=-1, device=1)])) == [-1, 30]


def test_a_stream_that_waits_for_an_event_is_no_wait_of_the_host():
    host = [launch(1, 0, 5), wait(20, 30, "cudaStreamWaitEvent")]
    assert late_us(make_trace(host, [kernel("a", 10, 50, correlation=1)], [recorded("Stream Wait Event", 21, 30, stream=7)])) == [
        -1
    ]


def test_without_calls_that_wait_the_rows_of_the_driver_are_the_waits():
    host, work = [launch(1, 0, 5)], [kernel("a", 10, 50, correlation=1)]
    assert late_us(make_trace(host, work, [recorded("Context Sync", 20, 30, stream=-1)])) == [20]
    assert late_us(make_trace(host, work, [recorded("Stream Sync", 20, 40, stream=7)])) == [10]
    assert late_us(make_trace(host, work, [recorded("Stream Sync", 20, 40, stream=8)])) == [-1]
    assert late_us(make_trace(host, work, [recorded("Event Sync", 20, 40, stream=7)])) == [-1]
    assert late_us(make_trace(host, work, [recorded("Context Sync", 20, 30, stream=-1, device=1)])) == [-1]


def test_a_row_does_not_say_which_of_two_processes_on_its_device_waits():
    host = [launch(1, 0, 5), other_process(launch(2, 0, 5))]
    work = [kernel("a", 10, 50, correlation=1), kernel("b", 10, 50, stream=8, correlation=2)]
    assert late_us(make_trace(host, work, [recorded("Context Sync", 20, 30, stream=-1)])) == [-1, -1]


def test_a_wait_of_another_process_proves_nothing():
    host = [launch(1, 0, 5), other_process(wait(10, 20))]
    assert late_us(make_trace(host, [kernel("a", 10, 50, correlation=1)])) == [-1]


@pytest.mark.parametrize(("start", "early_us", "disagree"), [(52, -2, False), (49.5, 0.5, False), (49, 1, False), (42, 8, True)])
def test_a_start_before_the_launch_by_a_microsecond_is_still_one_clock(start: float, early_us: float, disagree: bool):
    trace = make_trace([annotation("step", 0, 100), launch(1, 50, 55)], [memcpy("HtoD", start, 70, correlation=1)])
    assert (clocks(trace).early_ns / 1000).tolist() == [early_us]
    assert (clock_offset(trace) is not None) is disagree
    assert clocks(trace).offset.tolist() == [disagree]


def test_work_without_calls_proves_nothing():
    trace = make_trace([kernel("a", 10, 50)])
    assert clocks(trace).offset.tolist() == [False]
