from make_trace import allocation, kernel, launch, loop, make_trace, step

from longpole.analyze.advice.memory_headroom import memory_headroom

GPU = {"deviceProperties": [{"id": 0, "name": "Demo GPU", "totalGlobalMem": 1000}]}


def ids(trace) -> list[str]:
    return [found.id for found in memory_headroom(trace)]


def held(peak_bytes: int, busy_us: float):
    return make_trace([step(1, 0, 100), allocation(1, peak_bytes, 1, total=peak_bytes)], [kernel("k", 0, busy_us)], **GPU)


def test_a_full_memory_and_a_free_one_are_worth_knowing_and_save_nothing():
    (full,), (free,) = memory_headroom(held(950, 50)), memory_headroom(held(100, 50))
    assert (full.id, full.problem.values["peak_share"], full.changes, full.saving) == ("memory_nearly_full", 0.95, (), None)
    assert free.id == "memory_mostly_free"


def test_a_busy_gpu_needs_no_larger_batch_and_a_half_full_memory_is_no_news():
    assert ids(held(100, 95)) == []
    assert ids(held(700, 50)) == []


def test_without_the_size_of_the_memory_nothing_can_be_told():
    assert ids(make_trace([step(1, 0, 100), allocation(1, 950, 1, total=950)], [kernel("k", 0, 50)])) == []


def test_memory_that_every_step_keeps_is_a_leak():
    grows = loop([100] * 3, lambda start, end: [allocation(start + 1, 8, 1, total=8), allocation(start + 2, 8, 1, total=16)])
    (found,) = memory_headroom(make_trace(grows))
    assert (found.id, found.problem.values["growth_bytes"]) == ("memory_grows", 16)


def calling(*names: str, steps: int = 4, first: int = 0):
    def calls(start: float, end: float) -> list:
        return [launch(int(start) + i, start + 10, start + 20, name=n) for i, n in enumerate(names, 1) if start >= 100 * first]

    return make_trace(loop([100] * steps, calls))


def test_calls_for_memory_in_every_step_cost_time():
    (found,) = memory_headroom(calling("cudaMalloc"))
    assert (found.changes, found.problem.values["calls_count"]) == (("host:cudaMalloc x0",), 3)
    assert found.problem.values["calls_ns"] == 30_000


def test_giving_memory_back_is_told_apart():
    assert "gives" not in next(memory_headroom(calling("cudaMalloc"))).problem.template
    assert "given back" in next(memory_headroom(calling("cudaFree"))).problem.template


def test_the_first_step_may_ask_for_memory_and_pinned_memory_is_another_matter():
    assert ids(calling("cudaMalloc", steps=1)) == []
    assert ids(calling("cudaMalloc", steps=4, first=3)) == []
    assert ids(calling("cudaHostAlloc", "cudaMallocAsync")) == []
