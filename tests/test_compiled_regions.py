from typing import Any

import pytest
from make_trace import Event, annotation, backward, frame, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.compiled_regions import compiled_regions
from longpole.capture.errors import MissingData

REGION, LOOKUP = "Torch-Compiled Region: {}/0", "TorchDynamo Cache Lookup"
GRAPH = "## Call CompiledFxGraph f{} ##"


def launched(number: int, at: float, width: float, tid: int = 1) -> list[Event]:
    """A launch at that time, and a kernel of that width."""
    start = 10_000 + 1_000 * number
    return [launch(number, at, at + 5, tid, "cuLaunchKernel"), kernel("k", start, start + width, correlation=number)]


BROKEN = [
    *[op(REGION.format(0), 100, 300), *launched(1, 120, 80), *launched(2, 200, 40)],
    *[
        op("aten::mul", 320, 330),
        *launched(3, 322, 10),
        op("aten::add", 350, 360),
        op("aten::to", 352, 359),
        *launched(4, 354, 10),
    ],
    *[op(LOOKUP, 380, 390), op(REGION.format(1), 400, 500), *launched(5, 420, 60), op("aten::sum", 520, 530)],
]


def measures(*events: Event) -> dict[str, Any]:
    return dict(compiled_regions(make_trace(list(events))).measures)


def test_two_regions_with_eager_operators_between_them():
    assert measures(step(1, 0, 600), *BROKEN) == {
        "compiled_regions_per_step": 2, "nested_regions_per_step": 0, "eager_ops_between_regions": ["aten::mul", "aten::add"],
        "compiled_gpu_ns": 180_000, "eager_gpu_ns": 20_000, "compiled_share": 0.9,
    }  # fmt: skip


def test_a_region_that_holds_the_next_one_is_compiled_only_where_its_graph_runs():
    graphs = [annotation(GRAPH.format(0), 110, 140), *launched(1, 120, 30), annotation(GRAPH.format(1), 210, 290)]
    broken = [op("aten::mul", 150, 160), *launched(2, 152, 10), op(LOOKUP, 170, 180), op(REGION.format(1), 200, 300)]
    found = measures(step(1, 0, 600), op(REGION.format(0), 100, 310), *graphs, *broken, *launched(3, 220, 60))
    assert (found["compiled_regions_per_step"], found["eager_ops_between_regions"]) == (2, ["aten::mul"])
    assert (found["compiled_gpu_ns"], found["eager_gpu_ns"]) == (90_000, 10_000)


def test_backward_is_compiled_too_and_is_no_region_of_its_own():
    forward = [op("CompiledFunction", 10, 30), *launched(1, 15, 30), op("aten::mse_loss", 40, 45)]
    node = "autograd::engine::evaluate_function: CompiledFunctionBackward"
    back = [backward(node, 50, 90, tid=2), backward("CompiledFunctionBackward", 55, 85, tid=2), *launched(2, 60, 50, tid=2)]
    found = measures(step(1, 0, 100), *forward, *back, *launched(3, 95, 20))
    assert (found["compiled_regions_per_step"], found["eager_ops_between_regions"]) == (1, [])
    assert (found["compiled_gpu_ns"], found["eager_gpu_ns"], found["compiled_share"]) == (80_000, 20_000, 0.8)


def test_operators_between_regions_are_those_of_most_steps():
    def regions(start: float, *names: str) -> list[Event]:
        between = [op(name, start + 30 + n, start + 30.5 + n) for n, name in enumerate(names)]
        return [op(REGION.format(0), start + 10, start + 20), *between, op(REGION.format(1), start + 50, start + 60)]

    steps = [step(n, 100 * n, 100 * n + 100) for n in range(4)]
    found = measures(*steps, *regions(0, "aten::to"), *regions(100, "a", "b"), *regions(200, "a", "b"))
    assert (found["compiled_regions_per_step"], found["eager_ops_between_regions"]) == (2, ["a", "b"])  # the last step is cut off
    assert "compiled_gpu_ns" not in found


def test_device_time_without_launch_calls_is_withheld():
    found = compiled_regions(make_trace([step(1, 0, 600), *BROKEN], [kernel("k", 20_000, 20_050, correlation=77)]))
    assert set(found.withheld) == {"compiled_gpu_ns", "eager_gpu_ns", "compiled_share"}
    assert found.withheld["compiled_share"] == "20% of device time has no launch call in the file"


def test_names_share_the_time_of_ranges_inside_each_other():
    events = [op(REGION.format(0), 10, 90), annotation(GRAPH.format(0), 20, 80), *launched(1, 30, 50), op(LOOKUP, 0, 5)]
    rows = compiled_regions(make_trace([step(1, 0, 100)], events)).rows
    assert rows[["name", "total_ns", "device_ns"]].to_numpy().tolist() == [
        [REGION.format(0), 80_000, 50_000], [GRAPH.format(0), 60_000, 50_000], [LOOKUP, 5_000, 0],
    ]  # fmt: skip


def test_without_torch_compile_there_are_no_regions():
    with pytest.raises(MissingData, match="no regions of"):
        compiled_regions(make_trace([step(1, 0, 100), op("aten::mm", 10, 40)]))


UNMARKED = [op(REGION.format(0), 100, 300), op("aten::mm", 110, 120), op("aten::mul", 150, 160), op(LOOKUP, 170, 180)]
RESUMED = [op(REGION.format(1), 200, 290), op("aten::sin", 210, 220)]


def test_without_marks_of_graphs_compiled_and_eager_operators_look_alike():
    found = compiled_regions(make_trace([step(1, 0, 600)], UNMARKED, RESUMED))
    assert (found.regions_per_step, found.nested_per_step) == (2, 1)
    assert (found.eager_ops, found.unsure_ops) == ([], ["aten::mm", "aten::mul"])
    assert "does not mark where a graph ends" in found.withheld["eager_ops_between_regions"]


def test_from_the_reading_of_a_number_on_operators_are_eager():
    found = compiled_regions(make_trace([step(1, 0, 600)], UNMARKED, [op("aten::item", 140, 145)], RESUMED))
    assert (found.eager_ops, found.unsure_ops) == (["aten::item", "aten::mul"], ["aten::mm"])
    assert not found.withheld


def test_recorded_stacks_mark_graphs():
    graphs = [frame("<eval_with_key>.1(4): forward", 105, 130), frame("<eval_with_key>.3(4): forward", 205, 230)]
    found = compiled_regions(make_trace([step(1, 0, 600)], UNMARKED, RESUMED, graphs))
    assert (found.eager_ops, found.unsure_ops) == (["aten::mul"], [])


def test_a_graph_that_runs_outside_of_regions_is_not_compiled():
    graphs = [frame("<eval_with_key>.1(4): forward", 105, 130), frame("<eval_with_key>.3(4): forward", 205, 230)]
    lone = [frame("<eval_with_key>.9(4): forward", 10, 50), op("aten::exp", 20, 30)]
    found = compiled_regions(make_trace([step(1, 0, 600)], lone, UNMARKED, RESUMED, graphs))
    assert (found.eager_ops, found.compiled_ns) == (["aten::mul"], None)


def test_operators_that_compiling_runs_are_not_between_regions():
    again = [op("dynamo", 152, 168), op("aten::empty_strided", 155, 160)]
    first = [op(REGION.format(0), 100, 140), op("aten::mm", 110, 120)]
    assert compiled_regions(make_trace([step(1, 0, 600)], first, again, RESUMED)).eager_ops == []


def test_device_time_inside_of_regions_without_marks_is_withheld():
    found = compiled_regions(make_trace([step(1, 0, 600)], UNMARKED, RESUMED, launched(1, 112, 30)))
    assert "does not mark where a graph ends" in found.withheld["compiled_share"]
    assert not found.findings


def test_a_run_without_a_gpu_tells_of_its_graph_breaks():
    (found,) = compiled_regions(make_trace([step(1, 0, 600)], UNMARKED, RESUMED)).findings
    assert (found.id, found.saving_ns, found.confidence) == ("graph_breaks", 0, "high")
    assert found.problem.values["unsure"] == "aten::mm, aten::mul"
