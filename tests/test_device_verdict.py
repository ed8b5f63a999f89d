from dataclasses import replace
from typing import Any

import pytest
from make_trace import Event, annotation, host, kernel, launch, loop, make_trace, memcpy, op, step
from replay_trace import waiting_events, waiting_trace

from longpole.analyze.contents import ANALYSES
from longpole.analyze.findings import Verdict
from longpole.analyze.joint import Together
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.analyze.verdict import run_verdict
from longpole.reports.formats import plain
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


def steps_of_two(second: float, *more: list[Event], host_until: float = 96) -> Trace:
    """Four steps of 100 ms: GPU 0 computes 96 of each, GPU 1 from 0 for `second`; the host waits for both."""

    def part(start: float, end: float) -> list[Event]:
        number = int(start) + 1
        wait = host("cuda_runtime", "cudaDeviceSynchronize", start + host_until * 1000, end - 3_000)
        return [launch(number, start, start + 1), launch(number + 1, start + 2, start + 3), wait]

    work = []
    for start in range(0, 400_000, 100_000):
        work.append(kernel("some_gemm", start + 3, start + 96_000, correlation=start + 1))
        work.append(kernel("some_gemm", start + 5, start + second * 1000, correlation=start + 2, device=1))
    return make_trace(loop([100_000] * 4, part), work, *more)


def test_of_several_gpus_the_one_that_computes_most_limits_the_step():
    found = verdict(steps_of_two(30))
    assert (found.bound, plain(sentence(found.sentence))) == (
        "compute", "GPU 0 is busy 96 % of the recorded 400 ms, mostly in matrix products; GPU 1 30 %",
    )  # fmt: skip
    assert "GPU 1 idles in 70 % of it, while the host does other work." in plain(sentence(found.lede))


def test_gpus_that_are_equally_busy_are_not_told_apart():
    assert "idles" not in verdict(steps_of_two(94)).lede.template


def test_a_gpu_that_starves_for_data_beside_a_busy_one_is_told():
    loads = [annotation(LOADER, s + 20_000, s + 90_000) for s in range(0, 400_000, 100_000)]
    late = [launch(900_000 + s, s + 90_100, s + 90_110) for s in range(0, 400_000, 100_000)]
    work = [kernel("k", s + 90_115, s + 91_000, correlation=900_000 + s, device=1) for s in range(0, 400_000, 100_000)]
    found = verdict(steps_of_two(20, loads, late, work))
    assert found.bound == "compute"
    assert "GPU 1 idles in 79 % of it, in 70 % while it waits for data." in plain(sentence(found.lede))


def test_gpus_that_take_turns_are_limited_by_computing():
    def part(start: float, end: float) -> list[Event]:
        number = int(start) + 1
        calls = [launch(number + i, start + i, start + i + 0.5) for i in range(2)]
        return [*calls, host("cuda_runtime", "cudaDeviceSynchronize", start + 3, end - 2_000)]

    work = []
    for start in range(0, 400_000, 100_000):
        work.append(kernel("a", start + 2, start + 50_000, correlation=start + 1))
        work.append(kernel("b", start + 50_000, start + 96_000, correlation=start + 2, device=1))
    bound, said = told(make_trace(loop([100_000] * 4, part), work))
    assert bound == "compute"
    assert plain(said) == "The GPUs take turns: GPU 0 computes in 50 % of a step of 100 ms, and waits for others in 46 % of it"


@pytest.mark.parametrize("name", [LOADER, "load_batch", "mine"])
def test_input_between_the_marks_of_steps_is_what_the_step_waits_for(name: str):
    calls, work = [], []
    for start in range(0, 400_000, 100_000):
        calls += [annotation(name, start + 100, start + 60_000), step(start, start + 60_000, start + 100_000)]
        calls += [
            launch(start + 1, start + 60_002, start + 60_005, name="cudaMemcpyAsync"),
            launch(start + 2, start + 60_006, start + 60_009),
        ]
        work.append(memcpy(PINNED, start + 60_010, start + 60_100, correlation=start + 1))
        work.append(kernel("k", start + 60_100, start + 99_000, correlation=start + 2))
    found = verdict(make_trace(calls, work))
    assert (found.bound, found.top) == ("input_pipeline", "unmarked_input" if name == "mine" else "input_pipeline")
    assert (
        plain(sentence(found.sentence))
        == "The GPU waits for data in 60 % of the 100 ms from the end of one step to that of the next"
    )
    assert "and 60.0 ms pass before the next" in plain(sentence(found.lede))


def test_loading_before_a_wait_is_loading_though_the_wait_costs_something():
    def part(start: float, end: float) -> list[Event]:
        number = int(start) + 1
        wait = host("cuda_runtime", "cudaStreamSynchronize", start + 60_020, end - 900)
        return [annotation("load_batch", start + 100, start + 60_000), launch(number, start + 60_005, start + 60_010), wait]

    work = [kernel("k", s + 60_010, s + 99_000, correlation=s + 1) for s in range(0, 400_000, 100_000)]
    found = verdict(make_trace(loop([100_000] * 4, part), work))
    assert (found.bound, found.top) == ("input_pipeline", "input_pipeline")


def test_work_that_was_launched_and_does_not_run_is_no_copy_however_long_the_copy_call_waits():
    calls = [launch(1, 10, 20), launch(2, 30, 960, name="cudaMemcpyAsync")]
    work = [kernel("k", 940, 945, correlation=1), memcpy("Memcpy DtoH (Device -> Pageable)", 945, 950, correlation=2)]
    found = verdict(make_trace([step(1, 0, 1_000)], calls, work))
    assert (found.bound, found.tag) == ("unknown", "Not yet explained")
    assert plain(sentence(found.sentence)) == "The GPU idles in 91 % of a step of 1.00 ms, and the recording does not show why"
    assert "For 910 us of its idle time the next work is launched already" in plain(sentence(found.lede))


def test_launching_and_other_work_of_the_host_are_one_part():
    """Of 1000 the GPU computes 490; the host launches for 240 and does something else for 270."""
    calls = [launch(1, 0, 10), launch(2, 540, 750), op("aten::mm", 0, 1_000)]
    work = [kernel("a", 10, 260, correlation=1), kernel("b", 760, 1_000, correlation=2)]
    bound, said = told(make_trace([step(1, 0, 1_000)], calls, work))
    assert (bound, plain(said)) == ("host", "The GPU idles while the host does other work, 27 % of a step of 1.00 ms")


def test_changes_at_once_are_told_where_the_others_add_something():
    sections = run(ANALYSES, waiting_trace())
    (found,) = (section for section in sections if section.name == "savings")

    def lede(after_ns: float) -> str:
        first = found.result.findings[0]
        both = Together((first.id, "other"), 100_000, after_ns, 70_000, 100_000, alone_ns=83_125)
        findings = (first, replace(first, id="other", saving_ns=1))
        told = replace(found, result=replace(found.result, findings=findings, together=(both,)))
        return plain(sentence(run_verdict(tuple(told if s is found else s for s in sections)).lede))

    assert "the first 2 at once bring it to 80.0 us" in lede(80_000)
    assert "at once" not in lede(83_000)
