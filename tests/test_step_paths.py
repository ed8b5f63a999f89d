from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, backward, frame, launch, make_trace, op, step

from longpole.analyze.step_paths import StepPaths, step_paths
from longpole.analyze.trace import Trace

Range = tuple[int, int, int]  # start, end, name
RANGES = st.lists(
    st.tuples(st.integers(0, 45), st.integers(0, 30), st.integers(0, 2)).map(lambda r: (r[0], r[0] + r[1], r[2])), max_size=20
)
STEPS = ((5, 20), (20, 30), (33, 40))


def times(found: StepPaths) -> dict[tuple[str, ...], int]:
    """Self ns over all steps by path, where there is any."""
    return {found.path(node): int(ns) for node, ns in enumerate(found.self_ns) if ns}


def in_step(*events: Event) -> Trace:
    return make_trace([step(1, 0, 100), *events])


def loop_paths(ranges: list[Range]) -> Counter[tuple[int, tuple[str, ...]]]:
    """Of each instant of a step: the last range in order that is open and began in the step, and in turn those around it."""
    ordered = sorted(ranges, key=lambda r: (r[0], -r[1]))

    def holder(moment: int, before: int) -> int:
        return max((p for p, (low, high, _) in enumerate(ordered[:before]) if low <= moment < high), default=-1)

    def path(place: int, begin: int) -> tuple[str, ...]:
        if place < 0 or ordered[place][0] < begin:
            return ()
        start, _, name = ordered[place]
        return (*path(holder(start, place), begin), "abc"[name])

    return Counter(
        (number, path(holder(moment, len(ordered)), begin))
        for number, (begin, end) in enumerate(STEPS)
        for moment in range(begin, end)
    )


@given(RANGES)
def test_paths_agree_with_a_loop_over_instants(ranges: list[Range]):
    ordered = sorted(ranges, key=lambda r: (r[0], -r[1]))
    events = [op("abc"[name], start, end) for start, end, name in ordered]
    trace = make_trace([op("first", 0, 1, tid=9), *(step(n, *borders) for n, borders in enumerate(STEPS))], events)
    found = step_paths(trace)
    counted = {(int(s), found.path(int(n))): int(ns) // 1000 for s, n, ns in zip(found.step, found.node, found.ns, strict=True)}
    steps = found.steps_count  # a last step with little in it is set aside
    assert counted == {key: ticks for key, ticks in loop_paths(ordered).items() if key[0] < steps}


def test_calls_with_one_path_are_one_node_and_frames_and_annotations_are_part_of_it():
    found = step_paths(
        in_step(
            frame("train.py(1): step", 0, 60), annotation("fwd", 5, 50),
            op("aten::mm", 10, 20), op("aten::mm", 30, 45), launch(1, 12, 15), op("aten::mm", 70, 80),
        )
    )  # fmt: skip
    step_frame = "train.py(1): step"
    assert times(found) == {
        (): 30_000, (step_frame,): 15_000, (step_frame, "fwd"): 20_000, (step_frame, "fwd", "aten::mm"): 22_000,
        (step_frame, "fwd", "aten::mm", "cudaLaunchKernel"): 3_000, ("aten::mm",): 10_000,
    }  # fmt: skip
    assert found.total_ns[0] == 100_000


def test_what_began_before_the_step_is_the_step():
    found = step_paths(make_trace([frame("main", 0, 220), step(1, 10, 110), step(2, 110, 210), op("aten::mm", 100, 130)]))
    assert times(found) == {(): 190_000, ("aten::mm",): 10_000}


def test_backward_of_another_thread_stands_in_what_waits_for_it():
    events = [frame("backward", 10, 90), backward("MulBackward0", 20, 40, tid=2), op("aten::mul", 25, 35, tid=2), op("x", 60, 70)]
    found = step_paths(in_step(*events, backward("AddBackward0", 62, 80, tid=2)))
    assert times(found) == {
        (): 20_000, ("backward",): 50_000, ("backward", "x"): 10_000,
        ("backward", "MulBackward0"): 10_000, ("backward", "MulBackward0", "aten::mul"): 10_000,
    }  # fmt: skip


def test_the_time_of_parts_adds_up_to_the_steps():
    calls = [op("a", 0, 60), op("b", 10, 20), op("a", 120, 150), op("a", 200, 240)]
    found = step_paths(make_trace([step(1, 0, 100), step(2, 100, 250)], calls))
    assert found.per_step(np.zeros(len(found.name), int), 1).to_dict("list") == {0: [100_000, 150_000]}
    node = {found.path(node): node for node in range(len(found.name))}
    part = np.full(len(found.name), -1)
    part[[0, node["a", "b"]]] = 0, 1
    assert found.per_step(part, 2).to_dict("list") == {0: [90_000, 150_000], 1: [10_000, 0]}


def test_without_ranges_all_is_the_step():
    assert times(step_paths(in_step(op("a", 200, 201)))) == {(): 100_000}
