from typing import Any

import pytest
from make_trace import Event, backward, frame, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.modules import Modules, modules
from longpole.capture.errors import MissingData

NODE = "autograd::engine::evaluate_function: {}"


def module(name: str, start: float, end: float, tid: int = 1) -> Event:
    return frame(f"nn.Module: {name}", start, end, tid)


def launched(number: int, at: float, width: float, tid: int = 1) -> list[Event]:
    start = 1_000 + 100 * number
    return [launch(number, at, at + 1, tid), kernel("k", start, start + width, correlation=number)]


def forward(name: str, start: float, end: float, sequence: int, tid: int = 1) -> Event:
    return op(name, start, end, tid, **{"Sequence number": sequence})


def node(name: str, start: float, end: float, sequence: int, tid: int = 2) -> list[Event]:
    return [backward(NODE.format(name), start, end, tid, sequence), backward(name, start + 1, end - 1, tid, sequence)]


def times(found: Modules) -> dict[str, list[int]]:
    columns = ["calls_count", "forward_ns", "backward_ns", "forward_gpu_ns", "backward_gpu_ns"]
    return {str(name): row for name, row in zip(found.rows["module"], found.rows[columns].to_numpy().tolist(), strict=True)}


MODEL = [
    *[module("MLP_0", 0, 50), module("Linear_0", 5, 25), module("Linear_1", 30, 45)],
    *[forward("aten::linear", 6, 20, 7), forward("aten::addmm", 10, 19, 7), *launched(1, 12, 40)],
    *[forward("aten::linear", 31, 40, 8), *launched(2, 33, 30)],
    *[forward("aten::mul", 46, 49, 9), *launched(3, 47, 5)],
]
BACKWARD = [
    *[*node("MulBackward0", 60, 64, 9), *launched(4, 62, 6, tid=2)],
    *[*node("AddmmBackward0", 70, 80, 8), *launched(5, 72, 60, tid=2)],
    *[*node("AddmmBackward0", 80, 95, 7), *launched(6, 85, 80, tid=2)],
]


def test_backward_belongs_to_the_module_in_which_the_forward_operator_ran():
    found = modules(make_trace([step(1, 0, 100), *MODEL, *BACKWARD]))
    assert times(found) == {
        "MLP_0": [1, 50_000, 29_000, 75_000, 146_000],
        "MLP_0.Linear_0": [1, 20_000, 15_000, 40_000, 80_000],
        "MLP_0.Linear_1": [1, 15_000, 10_000, 30_000, 60_000],
    }
    assert found.measures["module_gpu_ns"]["MLP_0.Linear_0"] == {"forward": 40_000, "backward": 80_000}
    assert found.measures["module_host_ns"]["MLP_0.Linear_1"] == {"forward": 15_000, "backward": 10_000}


def test_without_backward_and_device_there_is_forward_time_on_the_host():
    found = modules(make_trace([step(1, 0, 100), module("A_0", 0, 20), module("A_0", 30, 40), module("B_0", 31, 39)]))
    assert times(found) == {"A_0": [2, 30_000, 0, 0, 0], "A_0.B_0": [1, 8_000, 0, 0, 0]}
    assert (found.has_device, found.has_backward, set(found.measures)) == (False, False, {"module_host_ns"})


def test_of_operators_with_one_number_the_last_outermost_one_makes_the_node():
    idle = [module("First_0", 0, 10), forward("aten::size", 2, 4, 7)]  # makes no node: the next operator has its number
    makes = [module("Second_0", 20, 40), forward("CheckpointFunction", 22, 38, 7), module("Inner_0", 25, 35)]
    found = modules(make_trace([*idle, *makes, forward("aten::relu", 26, 30, 7)], node("CheckpointFunctionBackward", 50, 60, 7)))
    assert found.rows.set_index("module")["backward_ns"].to_dict() == {
        "First_0": 0, "Second_0": 10_000, "Second_0.Inner_0": 0,
    }  # fmt: skip


def test_a_forward_that_runs_again_in_backward_is_forward():
    again = [module("Block_0", 64, 74, tid=2), forward("aten::mm", 65, 70, 99, tid=2), *launched(2, 66, 11, tid=2)]
    first = [module("Net_0", 0, 30), module("Block_0", 5, 25), forward("aten::mm", 6, 20, 7), *launched(1, 8, 10)]
    found = modules(make_trace([*first, *node("CheckpointBackward", 60, 80, 7), *again, *launched(3, 76, 12, tid=2)]))
    assert times(found) == {
        "Net_0": [1, 30_000, 10_000, 10_000, 12_000], "Net_0.Block_0": [2, 30_000, 10_000, 21_000, 12_000],
    }  # fmt: skip


def test_numbers_of_another_thread_are_not_taken_for_those_of_the_forward():
    other = [module("Other_0", 0, 40, tid=3), forward("aten::mm", 1, 5, 8, tid=3)]
    found = modules(make_trace([step(1, 0, 100), *other, *MODEL, *BACKWARD]))
    assert times(found)["MLP_0.Linear_1"][2] == 10_000
    assert times(found)["Other_0"][2] == 0


def test_a_module_inside_itself_counts_once():
    found = modules(make_trace([module("Tree_0", 0, 50), module("Tree_0", 10, 30), *launched(1, 15, 9)]))
    assert times(found) == {"Tree_0": [2, 50_000, 0, 9_000, 0]}


def test_without_frames_of_modules_nothing_is_told():
    with pytest.raises(MissingData, match="with_stack=True"):
        modules(make_trace([step(1, 0, 100), op("aten::mm", 10, 40)]))


def test_what_is_told_is_bounded():
    events: list[Any] = [module(f"Linear_{n}", n, n + 0.5) for n in range(1_100)]
    assert len(modules(make_trace(events)).measures["module_host_ns"]) == 1_000
