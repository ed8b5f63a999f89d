import pytest
from make_trace import Event, frame, kernel, launch, loop, make_trace, op

from longpole.analyze.diffs.module_changes import DEVICE, HOST, module_changes
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData


def run(linear_us: float, name: str = "Linear_0", kernel_us: float = 0) -> Trace:
    """Four steps of 100 with an MLP of 80, in it one module that may launch a kernel."""

    def part(start: float, end: float) -> list[Event]:
        calls = [frame("nn.Module: MLP_0", start, start + 80), frame(f"nn.Module: {name}", start + 10, start + 10 + linear_us)]
        return [*calls, launch(int(start) + 1, start + 11, start + 12)] if kernel_us else calls

    work = [kernel("gemm", at + 20, at + 20 + kernel_us, correlation=at + 1) for at in range(0, 400, 100) if kernel_us]
    return make_trace(loop([100] * 4, part), work)


def test_modules_are_compared_by_step_with_what_is_inside_them():
    found = module_changes([run(40)], [run(30)])
    assert found.time == HOST
    assert found.rows[["name", "before_ns", "after_ns", "change_ns", "status"]].values.tolist() == [
        ["MLP_0.Linear_0", 40_000, 30_000, -10_000, "changed"], ["MLP_0", 80_000, 80_000, 0, "within_noise"],
    ]  # fmt: skip


def test_where_both_have_a_gpu_the_work_that_is_launched_there_is_compared():
    found = module_changes([run(40, kernel_us=50)], [run(40, kernel_us=35)])
    assert found.time == DEVICE
    assert found.rows["change_ns"].tolist() == [-15_000, -15_000]


def test_a_module_that_only_got_another_number_is_the_same():
    rows = module_changes([run(40, "Linear_3")], [run(30, "Linear_0")]).rows
    assert rows.iloc[0][["name", "was", "change_ns"]].tolist() == ["MLP_0.Linear_0", "MLP_0.Linear_3", -10_000]


def test_modules_that_are_in_no_row_are_counted():
    def part(start: float, end: float) -> list[Event]:
        return [
            frame(f"nn.Module: {'ABC'[n % 3]}{'x' * (n // 3)}_0", start + n / 100, start + (n + 1) / 100) for n in range(1_200)
        ]

    many = make_trace(loop([100] * 4, part))
    found = module_changes([many], [many])
    assert (len(found.rows), found.left_out) == (999, 201)


def test_without_frames_of_modules_on_one_side_nothing_is_told():
    with pytest.raises(MissingData, match="with_stack=True"):
        module_changes([run(40)], [make_trace(loop([100] * 4, lambda start, end: [op("a", start, end)]))])
