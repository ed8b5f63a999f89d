from typing import Any

import pytest
from make_trace import Event, annotation, kernel, launch, loop, make_trace, memcpy, op, step
from replay_trace import waiting_events, waiting_trace

from longpole.analyze.contents import ANALYSES
from longpole.analyze.findings import Verdict
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.analyze.verdict import run_verdict
from longpole.reports.prose import sentence

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"


def verdict(trace: Trace) -> Verdict:
    return run_verdict(run(ANALYSES, trace))


def told(trace: Trace) -> tuple[str, str]:
    found = verdict(trace)
    return found.bound, sentence(found.sentence)


def test_a_gpu_that_computes_all_the_time_is_what_limits_the_step():
    trace = make_trace([step(1, 0, 100)], [launch(1, 0, 2)], [kernel("some_gemm", 3, 98, correlation=1)])
    bound, said = told(trace)
    assert (bound, said) == ("compute", "The GPU is busy 95\u202f% of the recorded 100\u202fµs, mostly in matrix products")
    assert verdict(trace).lede.template.count("Nothing stands out") == 1


def test_a_decisive_change_says_what_limits_the_step():
    found = verdict(waiting_trace())
    assert (found.bound, found.top, found.confidence) == ("synchronization", "host_syncs:explicit", "medium")
    assert found.lede.values["saving_ns"] == 0.75 * 22_500


def test_waiting_for_data_is_named_with_its_share_of_the_step():
    def part(start: float, end: float) -> list[Event]:
        return [annotation(LOADER, start, start + 60_000), launch(int(start) + 1, start + 60_100, start + 60_110)]

    work = [kernel("k", 100_000 * i + 60_120, 100_000 * i + 99_000, correlation=100_000 * i + 1) for i in range(3)]
    bound, said = told(make_trace(loop([100_000] * 3, part), work))
    assert (bound, said) == ("input_pipeline", "The GPU waits for data in 60\u202f% of a step of 100\u202fms")


def test_copies_that_hold_up_the_gpu_are_named_and_which_way_they_go():
    work = [memcpy(PAGEABLE, 0, 60, bytes=240_000), memcpy(PINNED, 60, 70, bytes=200_000), kernel("k", 70, 100)]
    found = verdict(make_trace([step(1, 0, 100)], work))
    assert (found.bound, found.top, found.confidence) == ("copy", "pageable_copies", "low")
    assert found.lede.values["high_ns"] == 48_000


def test_an_idle_gpu_beside_a_slow_host_is_the_hosts():
    ops = [op("aten::mm", 10 * i, 10 * i + 9) for i in range(10)]
    bound, said = told(make_trace([step(1, 0, 100)], ops, [launch(1, 95, 96)], [kernel("k", 96, 100, correlation=1)]))
    assert bound == "host"
    assert said.startswith("The GPU idles while the host does other work")


@pytest.mark.parametrize("late_us", [5, 50])
def test_where_clocks_disagree_nothing_is_claimed(late_us: float):
    trace = make_trace([step(1, 0, 100)], [launch(1, 60, 62)], [kernel("k", 60 - late_us, 90, correlation=1)])
    found = verdict(trace)
    assert (found.bound, found.confidence) == ("unknown", "low")


def test_a_first_collective_that_waits_for_a_profiler_is_no_part_of_the_workload():
    def comm(start: float, end: float) -> dict[str, Any]:
        return kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, stream=9)

    work = [comm(0, 1_000), *(comm(1_000 + 100 * i, 1_010 + 100 * i) for i in range(4))]
    work += [kernel("some_gemm", 1_010 + 100 * i, 1_100 + 100 * i) for i in range(4)]
    bound, said = told(make_trace([step(1, 0, 1_400)], work))
    assert bound == "compute"
    assert said == (
        "After a first collective that waits for another rank's profiler, the GPU computes 90\u202f% of the remaining 400\u202fµs"
    )


def test_a_change_that_saves_little_is_not_what_limits_the_step():
    steps, calls, work = waiting_events()
    longer = [dict(k, dur=k["dur"] + 3) if k["name"] == "some_softmax" else k for k in work]
    found = verdict(make_trace(steps, calls, longer))
    assert found.bound in ("compute", "synchronization")
    assert found.confidence != "low"
