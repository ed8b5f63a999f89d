import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.links import LATE_END_NS, enclosing, launching_call, links
from longpole.analyze.trace import Trace

RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(1, 3)), max_size=20)


def owners(trace: Trace) -> list[str | None]:
    return [trace.names[trace.host.name[row]] if row >= 0 else None for row in links(trace).owner]


def own(number: int) -> dict[str, int]:
    return {"External id": number}


def test_a_kernel_belongs_to_the_operator_whose_id_it_carries_wherever_it_was_launched():
    host = [op("aten::mm", 0, 50, **own(3)), op("aten::add", 60, 90, **own(4)), launch(70, 65, 70)]
    assert owners(make_trace(host, [kernel("gemm", 80, 95, correlation=70, **own(3))])) == ["aten::mm"]


def test_without_an_id_a_kernel_belongs_to_the_innermost_operator_around_its_launch():
    host = [op("aten::linear", 0, 90), op("aten::addmm", 10, 80), op("aten::view", 12, 15), launch(7, 20, 25)]
    assert owners(make_trace(host, [kernel("gemm", 30, 60, correlation=7)])) == ["aten::addmm"]


def test_an_operator_of_another_thread_is_not_around_a_launch():
    host = [op("aten::mm", 0, 90, tid=2), launch(7, 20, 25), step(1, 0, 100)]
    assert owners(make_trace(host, [kernel("gemm", 30, 60, correlation=7)])) == [None]


def test_an_annotation_owns_a_kernel_only_where_no_operator_has_the_id():
    host = [annotation("forward", 0, 90, **own(3)), op("aten::mm", 10, 50, **own(4)), annotation("again", 10, 50, **own(4))]
    assert owners(make_trace(host, [kernel("a", 60, 70, **own(3)), kernel("b", 70, 80, **own(4))])) == ["forward", "aten::mm"]


def test_an_id_that_is_only_the_correlation_again_does_not_take_work_from_the_operator_around_the_launch():
    host = [op("aten::detach", 0, 5, **own(14)), op("aten::copy_", 10, 50, **own(90)), launch(14, 20, 30, name="cudaMemcpyAsync")]
    assert owners(make_trace(host, [memcpy("HtoD", 40, 60, correlation=14, **own(14))])) == ["aten::copy_"]


def test_an_id_that_is_only_the_correlation_again_serves_where_nothing_is_around_the_launch():
    host = [op("aten::mm", 0, 5, **own(14)), launch(14, 20, 30, tid=2)]
    assert owners(make_trace(host, [kernel("gemm", 40, 60, correlation=14, **own(14))])) == ["aten::mm"]


def test_all_kernels_of_a_graph_belong_to_its_one_launch():
    host = [op("replay", 0, 20), launch(7, 5, 15, name="cudaGraphLaunch")]
    trace = make_trace(host, [kernel("a", 20, 30, correlation=7), kernel("b", 30, 40, correlation=7)])
    assert launching_call(trace).tolist() == [1, 1]
    assert owners(trace) == ["replay", "replay"]


def test_zero_and_missing_numbers_link_nothing():
    host = [op("aten::mm", 0, 50, **own(0)), launch(0, 10, 15)]
    trace = make_trace(host, [kernel("a", 20, 30, correlation=0, **own(0)), kernel("b", 30, 40)])
    assert launching_call(trace).tolist() == [-1, -1]
    assert owners(trace) == [None, None]


def test_the_old_names_of_kineto_link_as_well():
    def old(category: str, name: str, start: float, end: float, pid: int, tid: str, **args: object) -> Event:
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": end - start, "args": args}

    device = {"device": 0, "stream": 7, "correlation": 1, "external id": 5}
    trace = make_trace([
        old("Kernel", "gemm", 40, 60, 0, "stream 7", **device),
        old("Operator", "aten::mm", 0, 30, 100, "12", **{"External id": "5"}),
        old("Runtime", "cudaLaunchKernel", 10, 15, 100, "12", **{"correlation": 1, "external id": 5}),
    ])  # fmt: skip
    assert launching_call(trace).tolist() == [1]
    assert owners(trace) == ["aten::mm"]


def test_an_operator_that_names_a_stream_is_no_device_work():
    trace = make_trace([op("triton_poi_fused_add_0", 0, 30, stream=7, device=0), launch(1, 10, 15, name="cuLaunchKernel")])
    assert len(trace.device) == 0
    assert len(links(trace).call) == 0


@given(RANGES, RANGES)
def test_the_range_around_another_agrees_with_a_loop(outer: list[tuple[int, int, int]], inner: list[tuple[int, int, int]]):
    us = LATE_END_NS
    (start, length, thread), (begin, duration, own_thread) = (
        np.array(ranges, np.int64).reshape(-1, 3).T for ranges in (outer or [(50, 1, 9)], inner or [(50, 1, 8)])
    )
    end, stop = start + length, begin + duration
    found = enclosing((start * us, end * us, thread), (begin * us, stop * us, own_thread))
    for one, row in enumerate(found.tolist()):
        low, high = begin[one] * us, stop[one] * us
        around = [
            r for r in range(len(start))
            if thread[r] == own_thread[one] and start[r] * us <= low and end[r] * us > low and end[r] * us >= high - us
        ]  # fmt: skip
        assert (row == -1) == (not around)
        if around:
            best = max(around, key=lambda r: (start[r], -end[r]))
            assert (start[row], end[row]) == (start[best], end[best])
