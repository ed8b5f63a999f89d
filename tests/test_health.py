from typing import Any

import pytest
from make_trace import Event, annotation, frame, host, kernel, launch, loop, make_trace, memcpy, op, step

from longpole.analyze.analyses.health import Health, health

GOOD = [step(1, 0, 100), op("aten::mm", 0, 40), launch(1, 10, 15)], [kernel("gemm", 20, 60, correlation=1)]


def found(*events: list[Event], **top_level: Any) -> dict[str, int]:
    return {doubt.code: doubt.count for doubt in health(make_trace(*events, **top_level)).doubts}


def test_nothing_is_an_answer():
    whole = health(make_trace(*GOOD))
    assert list(whole.doubts) == [] and len(whole.rows) == 0
    assert whole.measures == {"ranges_named_unknown": 0}
    assert found([op("aten::mm", 0, 40)]) == {}


def test_two_clocks():
    assert found([*GOOD[0], launch(2, 50, 55)], [kernel("k", 30, 60, correlation=2)], GOOD[1]) == {"kernel_before_launch": 1}
    wait = launch(9, 20, 30, name="cudaDeviceSynchronize")
    assert found([*GOOD[0], wait], GOOD[1]) == {"kernel_after_sync_returned": 1}


def test_work_without_its_launch_and_launches_without_their_work():
    assert found([*GOOD[0], launch(2, 50, 55)], GOOD[1]) == {"launch_without_kernel": 1}
    assert found([*GOOD[0], launch(2, 50, 55, name="cudaGraphLaunch")], GOOD[1]) == {"graph_launch_without_kernels": 1}
    assert found(*GOOD, [kernel("stray", 70, 80), memcpy("HtoD", 80, 90)]) == {"unattributable_kernels": 1}


def test_work_without_a_time_is_not_also_a_launch_without_work():
    lost = {**kernel("lost", 0, 0, correlation=2), "ts": -5_000_000}
    assert found([*GOOD[0], launch(2, 50, 55)], GOOD[1], [lost]) == {"untimed_work": 1}


def test_a_kernel_without_a_duration_has_its_launch_and_no_time():
    calls = [*GOOD[0], launch(2, 50, 55), launch(3, 56, 60)]
    endless, negative = kernel("lost", 60, 70, correlation=2), kernel("lost", 70, 60, correlation=3)
    del endless["dur"]
    made = health(make_trace(calls, GOOD[1], [endless, negative]))
    assert {doubt.code: doubt.count for doubt in made.doubts} == {"untimed_work": 2}


def test_whole_kinds_that_are_missing():
    assert found([op("aten::mm", 0, 40), launch(1, 10, 15), launch(2, 20, 25)]) == {"no_device_work": 2}
    assert found([op("aten::mm", 0, 40)], [kernel("gemm", 20, 60)]) == {"no_runtime_calls": 1}
    assert found([launch(1, 10, 15)], GOOD[1]) == {"no_ops": 1}


@pytest.mark.parametrize(
    ("option", "code"),
    [("with_stack", "no_python_frames"), ("record_shapes", "no_shapes"), ("profile_memory", "no_memory_events")],
)
def test_what_was_asked_for_and_not_recorded(option: str, code: str):
    assert found(*GOOD, **{option: 1}) == {code: 1}


def test_stacks_and_shapes_may_stand_in_the_arguments_of_operators():
    told = op("aten::mm", 40, 60, **{"Input Dims": [[2, 3]], "Call stack": "f;g;"})
    assert found([*GOOD[0], told], GOOD[1], with_stack=1, record_shapes=1) == {}


def test_a_step_that_was_cut_off_is_named():
    trace = make_trace(loop([100, 100, 100, 10], lambda start, end: [op("aten::mm", start, end)]))
    (doubt,) = health(trace).doubts
    assert (doubt.code, doubt.count, doubt.what) == ("partial_steps", 1, "Steps that were cut off (ProfilerStep#3)")
    assert doubt.harmless


def test_a_range_that_was_open_at_the_end():
    assert found([op("aten::mm", 0, 40), annotation("open", 10, 40, finished=False)]) == {"unfinished_ranges": 1}


def test_names_that_became_unknown():
    named = [annotation("unknown", 0, 40), op("<unknown>", 5, 10), op("unknown_op", 15, 20)]
    told = health(make_trace([*GOOD[0], *named], [kernel("unknown", 60, 70, correlation=1)]))
    assert told.measures["ranges_named_unknown"] == 3


def test_frames_that_never_returned():
    stack = [frame("main", 0, 100), frame("caller", 20, 40), frame("lost", 30, 100)]
    told = health(make_trace(stack, [op("aten::mm", 0, 40)]))
    assert (told.measures["clamped_frames"], [d.code for d in told.doubts]) == (1, ["clamped_frames"])


def test_the_profilers_own_work_has_a_length():
    own = [host("overhead", "Buffer Flush", 50, 70), host("overhead", "Buffer Flush", 60, 80)]
    (doubt,) = health(make_trace([*GOOD[0], *own], GOOD[1])).doubts
    assert (doubt.code, doubt.count, doubt.time_ns) == ("profiler_overhead", 2, 30_000)


def test_a_doubt_is_a_sentence_for_tools_too():
    told: Health = health(make_trace([frame("main", 0, 100), frame("lost", 30, 100)], [op("aten::mm", 0, 40)]))
    assert told.warnings[0].message == (
        "Python frames whose return the profiler missed: 1. They last until it stopped: their time, and that of the frames "
        "inside them, is wrong."
    )


def test_what_another_section_warns_of_is_a_row_and_no_second_warning():
    told = health(make_trace([*GOOD[0], launch(2, 50, 55)], GOOD[1]))
    assert ([doubt.code for doubt in told.doubts], told.warnings) == (["launch_without_kernel"], ())
