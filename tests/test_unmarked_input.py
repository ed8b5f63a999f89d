import pytest
from make_trace import annotation, frame, kernel, launch, loop, make_trace, memcpy, step

from longpole.analyze.advice.unmarked_input import unmarked_input
from longpole.analyze.gap_causes import INPUT, idle_time

THERE, BACK = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
PREPARE = "train.py(7): get_batch"


def test_what_prepares_the_data_that_is_then_copied_is_named():
    (found,) = unmarked_input(make_trace(*preparing()))
    assert (found.id, found.changes, found.bound) == ("unmarked_input", (f"host:{PREPARE} x0",), "input_pipeline")
    assert {e.name: e.value for e in found.evidence} == {"idle_ns": 7_960_000, "calls_count": 2, "longest_ns": 3_980_000}
    assert found.expected_share == pytest.approx((10_000 - 8_000) / 8_000)  # what the rest of both steps can hide


def test_the_outermost_function_about_the_gaps_speaks():
    calls, work = preparing()
    around, inner = frame("train.py(1): main", 0, 10_000), [frame("decode.py(3): decode", s + 20, s + 3_900) for s in (0, 5_000)]
    (found,) = unmarked_input(make_trace([*calls, around, *inner], work))
    assert found.problem.values["name"] == PREPARE


def test_gaps_that_end_with_other_work_are_not_for_input():
    for name in (BACK, "Memset (Device)"):
        calls, work = preparing(name)
        assert not list(unmarked_input(make_trace(calls, work)))


def test_short_gaps_are_the_way_to_a_copy():
    assert not list(unmarked_input(make_trace(*preparing(wait=900))))


def test_without_a_name_there_is_nothing_to_replay():
    calls, work = preparing()
    assert not list(unmarked_input(make_trace([call for call in calls if call["name"] != PREPARE], work)))


def test_a_marked_loader_has_its_own_advice():
    calls, work = preparing()
    loads = [annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", s, s + 3_900) for s in (0, 5_000)]
    assert not list(unmarked_input(make_trace([*calls, *loads], work)))


def test_preparing_beside_a_busy_gpu_costs_nothing():
    calls, work = preparing()
    assert not list(unmarked_input(make_trace(calls, [*work, kernel("other", 0, 10_000, stream=8)])))


def preparing(copy=THERE, wait=4_000):
    """Two steps of 5 ms: for most of the wait a function prepares data, a copy takes 10 µs, a kernel the rest."""

    def one(start, end):
        number, go = int(start), start + wait
        return [
            frame(PREPARE, start + 10, go - 10), launch(number + 1, go - 5, go - 2, name="cudaMemcpyAsync"),
            launch(number + 2, go - 1, go + 1), annotation("train", start + 1, end - 1),
        ]  # fmt: skip

    work = []
    for start in (0, 5_000):
        go = start + wait
        work.append(memcpy(copy, go, go + 10, correlation=start + 1))
        work.append(kernel("k", go + 10, start + 5_000, correlation=start + 2))
    return loop([5_000, 5_000], one), work


def test_what_waits_on_another_thread_prepares_nothing():
    calls, work = preparing()
    waits = [frame("threading.py(605): wait", s + 10, s + 3_990, tid=2) for s in (0, 5_000)]
    anonymous = [call for call in calls if call["name"] != PREPARE]
    assert not list(unmarked_input(make_trace([*anonymous, *waits], work)))


def test_idle_time_is_blamed_on_input_in_what_prepares_it():
    assert idle_time(make_trace(*preparing())).blamed[INPUT].sum() == 2 * 3_980_000


def test_preparing_between_the_steps_is_hidden_by_the_steps():
    calls, work = preparing()
    marks = [step(i, s + 4_000, s + 5_000) for i, s in enumerate((0, 5_000))]
    (found,) = unmarked_input(make_trace([c for c in calls if not c["name"].startswith("ProfilerStep")], marks, work))
    assert found.expected_share == pytest.approx((1_000 + 1_000) / 4_000)  # before the first step nothing is known
