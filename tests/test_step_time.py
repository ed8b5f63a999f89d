from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, backward, frame, kernel, launch, loop, make_bundle, make_trace, op, phase, step

from longpole.analyze import step_time as step_time_module
from longpole.analyze.step_time import phase_of, step_time


def self_us(*events: list[Event]) -> dict[tuple[str, str], float]:
    """Microseconds of each (phase, name), over all counted steps."""
    rows = step_time(make_trace(*events)).rows
    sums = rows.groupby(["phase", "name"], observed=True)["self_ns"].sum() / 1000
    return {key: float(us) for key, us in sums.items() if us}  # pyright: ignore[reportReturnType]


def phase_us(*events: list[Event]) -> dict[str, float]:
    found = Counter[str]()
    for (phase_name, _), us in self_us(*events).items():
        found[phase_name] += us
    return dict(found)


def test_time_belongs_to_the_innermost_operator_and_the_rest_is_outside():
    assert self_us([step(1, 0, 100), op("aten::linear", 10, 60), op("aten::mm", 20, 50), launch(1, 30, 35)]) == {
        ("other", ""): 50, ("other", "aten::linear"): 20, ("other", "aten::mm"): 25, ("other", "cudaLaunchKernel"): 5,
    }  # fmt: skip


def test_an_annotation_inside_an_operator_is_outside_of_operators_and_a_frame_is_nothing():
    assert self_us([step(1, 0, 100), op("a", 10, 60), annotation("mine", 20, 30), frame("train.py(3): f", 40, 50)]) == {
        ("other", ""): 60, ("other", "a"): 40,
    }  # fmt: skip


def test_other_threads_and_time_between_steps_are_left_out():
    steps = [step(1, 0, 100), op("a", 0, 40), op("between", 100, 150), step(2, 150, 250), op("a", 150, 190)]
    assert self_us(steps, [op("loader", 0, 250, tid=2)]) == {("other", ""): 120, ("other", "a"): 80}


def test_the_innermost_phase_wins():
    assert phase_us([step(1, 0, 100), phase("forward", 10, 60), phase("loss", 40, 60), op("a", 0, 1)]) == {
        "forward": 30, "loss": 20, "other": 50,
    }  # fmt: skip


def test_an_operator_that_a_later_phase_crosses_counts_until_that_phase_starts():
    assert self_us([step(1, 0, 100), phase("forward", 0, 50), phase("loss", 50, 100), op("a", 40, 70)]) == {
        ("forward", ""): 40, ("forward", "a"): 10, ("loss", ""): 50,
    }  # fmt: skip


def test_a_range_that_crosses_the_border_of_two_steps_is_cut_there():
    table = step_time(make_trace([step(1, 0, 100), step(2, 100, 200), phase("optimizer", 95, 105), op("a", 96, 104)]))
    assert table.per_step("phase")["optimizer"].tolist() == [5000, 5000]
    assert table.per_step("name")["a"].tolist() == [4000, 4000]
    assert table.per_step("name", "calls")["a"].tolist() == [1, 0]


def test_operators_that_cross_each_other_count_once():
    assert self_us([step(1, 0, 100), op("a", 10, 50), op("b", 40, 70)]) == {
        ("other", ""): 40, ("other", "a"): 30, ("other", "b"): 30,
    }  # fmt: skip


def test_backward_nodes_of_another_thread_are_the_backward_phase_and_joined():
    nodes = [backward("MmBackward0", 30, 40, tid=2), backward("AddBackward0", 45, 60, tid=2)]
    assert phase_us([step(1, 0, 100), op("aten::mm", 0, 20)], nodes) == {"backward": 30, "other": 70}


def test_backward_nodes_are_not_joined_over_an_operator_of_the_step():
    nodes = [backward("MmBackward0", 30, 40, tid=2), backward("AddBackward0", 50, 60, tid=2)]
    assert phase_us([step(1, 0, 100), op("aten::item", 42, 48)], nodes) == {"backward": 20, "other": 80}


def test_backward_nodes_are_not_joined_over_the_border_of_a_step():
    nodes = [backward("B", 90, 98, tid=2), backward("B", 102, 110, tid=2)]
    table = step_time(make_trace([step(1, 0, 100), step(2, 100, 200), op("a", 0, 9), op("a", 150, 159)], nodes))
    assert table.per_step("phase")["backward"].tolist() == [8000, 8000]


def test_calls_are_those_of_outermost_operators_in_the_phase_where_they_start():
    rows = step_time(
        make_trace([step(1, 0, 100), phase("forward", 0, 50), op("a", 40, 70), op("b", 45, 60), op("b", 80, 90)])
    ).rows
    calls = rows[rows["calls"] > 0].set_index(["phase", "name"])
    assert calls["calls"].to_dict() == {("forward", "a"): 1, ("other", "b"): 1}
    assert calls["total_ns"].to_dict() == {("forward", "a"): 30_000, ("other", "b"): 10_000}


def test_phases_come_in_the_order_of_a_step_then_the_users_own_then_the_rest():
    marks = [phase("warp", 0, 10), phase("optimizer", 10, 20), phase("act", 20, 30), phase("loss", 30, 40)]
    assert step_time(make_trace([step(1, 0, 100), *marks])).phases == ["act", "loss", "optimizer", "warp", "other"]


def test_only_counted_steps_have_rows():
    table = step_time(make_trace([step(1, 0, 100), step(2, 100, 200), step(3, 200, 220), op("a", 0, 5), op("a", 100, 105)]))
    assert (table.count, table.step_ns) == (2, 100_000)
    assert table.rows["step"].unique().tolist() == [0, 1]


def test_a_trace_of_the_device_alone_is_all_outside_operators():
    assert self_us([kernel("gemm", 0, 40)]) == {("other", ""): 40}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("longpole.phase#warp", "warp"),
        ("forward", "forward"),
        ("## Forward ##", "forward"),
        ("fwd", "forward"),
        ("bwd:", "backward"),
        ("optim", "optimizer"),
        ("zero_grad", "optimizer"),
        ("DataLoader", "data_loading"),
        ("data loading", "data_loading"),
        ("load_batch", "data_loading"),
        ("## get next batch ##", "data_loading"),
        ("batch-generator", "data_loading"),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", "data_loading"),
        ("batch", None),
        ("load_weights", None),
        ("data_parallel", None),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "data_loading"),
        ("Optimizer.step#Adam.step", "optimizer"),
        ("Optimizer.zero_grad#Adam.zero_grad", "optimizer"),
        ("ProfilerStep#3", None),
        ("other", None),
        ("forward_hook", None),
        ("", None),
    ],
)
def test_a_name_marks_a_phase_when_it_is_one_or_an_alias(name: str, expected: str | None):
    assert phase_of(name) == expected


STEPS = [step(1, 0, 20), step(2, 25, 45)]
KINDS = {"aten::a": op, "aten::b": op, "mine": annotation, "forward": annotation, "longpole.phase#x": annotation}
RANGES = st.lists(
    st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 44), st.integers(1, 15)).map(lambda r: (r[0], r[1], r[1] + r[2])),
    max_size=8,
)


def instants(ranges: list[tuple[str, int, int]], begin: int, end: int) -> Counter[tuple[str, str]]:
    """The same decomposition, one microsecond after the other."""
    found = Counter[tuple[str, str]]()
    for instant in range(begin, end):
        around = [r for r in range(len(ranges)) if ranges[r][1] <= instant < ranges[r][2]]
        inner = [ranges[r][0] for r in sorted(around, key=lambda r: (ranges[r][1], -ranges[r][2], r))]
        phases = [p for name in inner if (p := phase_of(name)) and KINDS[name] is annotation]
        name = inner[-1] if inner and KINDS[inner[-1]] is op else ""
        found[phases[-1] if phases else "other", name] += 1
    return found


@given(RANGES)
def test_the_decomposition_agrees_with_a_loop_over_instants_and_adds_up(ranges: list[tuple[str, int, int]]):
    found = step_time(make_trace(STEPS, [KINDS[name](name, start, end) for name, start, end in ranges]))
    assert found.per_step("phase").sum(axis=1).tolist() == found.steps["step_ns"].tolist()
    for row, (begin, end) in enumerate([(0, 20), (25, 45)]):
        if row not in found.steps.index:
            continue
        ours = found.rows[found.rows["step"] == row].groupby(["phase", "name"], observed=True)["self_ns"].sum() // 1000
        assert {key: us for key, us in ours.items() if us} == dict(instants(ranges, begin, end))


def test_a_long_recording_is_cut_in_blocks_and_adds_up_all_the_same(monkeypatch: pytest.MonkeyPatch):
    events = [step(1, 0, 100), step(2, 110, 200), phase("forward", 20, 150), op("a", 10, 60), op("b", 20, 30), op("a", 90, 180)]
    whole = step_time(make_trace(events)).rows
    monkeypatch.setattr(step_time_module, "BLOCK_COUNT", 2)
    assert step_time(make_trace(events)).rows.equals(whole)


def test_backward_nodes_are_not_joined_over_a_phase_or_a_long_pause():
    nodes = [backward("AddmmBackward0", 10, 20, tid=2), backward("AddmmBackward0", 80, 90, tid=2)]
    assert phase_us([step(1, 0, 100)], nodes)["backward"] == 80
    marked = phase_us([step(1, 0, 100), phase("d_step", 5, 50), phase("g_step", 50, 95)], nodes)
    assert marked == {"d_step": 35, "g_step": 35, "backward": 20, "other": 10}
    apart = [backward("AddmmBackward0", 10, 20, tid=2), backward("AddmmBackward0", 2_000, 2_010, tid=2)]
    assert phase_us([step(1, 0, 3_000)], apart)["backward"] == 20


def test_the_forward_pass_of_a_closure_is_not_the_optimizers():
    closure = [annotation("Optimizer.step#SGD.step", 0, 90), op("aten::linear", 5, 30), backward("AddmmBackward0", 40, 70)]
    assert phase_us([step(1, 0, 100)], closure) == {"backward": 30, "optimizer": 20, "other": 50}


def test_a_phase_of_the_recorder_is_known_by_its_aliases_too():
    assert phase_us([step(1, 0, 100), phase("Fwd", 0, 40), phase("Encoder", 40, 70)]) == {
        "forward": 40, "Encoder": 30, "other": 30,
    }  # fmt: skip


def test_unprofiled_steps_compare_by_their_means_without_the_cold_ones():
    events = loop([150, 250], lambda start, end: [op("aten::mm", start, end)])
    assert step_time(make_bundle(events, unprofiled_step_ns=(900_000, 80_000, 120_000))).unprofiled_share == 0.5
    assert step_time(make_trace(events)).unprofiled_share is None
