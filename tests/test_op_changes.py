import pytest
from make_trace import Event, kernel, launch, loop, make_trace, op

from longpole.analyze.diffs.op_changes import op_changes
from longpole.analyze.step_time import OUTSIDE_LABEL
from longpole.analyze.trace import Trace


def run(mm_us: float, *extra: str, steps: int = 4) -> Trace:
    """Steps of 100 with one mm and 10 of each extra operator."""

    def ops(start: float, end: float) -> list[Event]:
        more = [op(name, start + mm_us + 10 * i, start + mm_us + 10 * i + 10) for i, name in enumerate(extra)]
        return [op("aten::mm", start, start + mm_us), *more]

    return make_trace(loop([100] * steps, ops))


def test_a_run_against_itself_has_no_changed_row():
    found = op_changes(run(40, "aten::add"), run(40, "aten::add"))
    assert found.ops["status"].tolist() == ["within_noise"] * 3
    assert found.ops["change_ns"].tolist() == [0, 0, 0]
    assert found.kernels.empty


def test_the_largest_change_comes_first_and_all_add_up_to_that_of_the_step():
    found = op_changes(run(40, "aten::add"), run(20, "aten::mul"))
    assert list(zip(found.ops["name"], found.ops["change_ns"], found.ops["status"], strict=True)) == [
        (OUTSIDE_LABEL, 20_000, "changed"), ("aten::mm", -20_000, "changed"),
        ("aten::add", -10_000, "removed"), ("aten::mul", 10_000, "added"),
    ]  # fmt: skip
    assert found.ops["change_ns"].sum() == 0


def test_runs_of_different_length_compare_by_step():
    rows = op_changes(run(40, steps=8), run(30, steps=4)).ops.set_index("name")
    assert rows.loc["aten::mm", ["before_ns", "after_ns", "change_ns"]].tolist() == [40_000, 30_000, -10_000]


def test_too_few_steps_say_so():
    assert set(op_changes(run(40, steps=3), run(20, steps=4)).ops["status"]) == {"too_few_steps"}


def test_a_kernel_that_varies_is_within_noise():
    def trace(times: list[float]) -> Trace:
        events = loop([100] * 4, lambda start, end: [op("aten::mm", start, end), launch(int(start) + 1, start, start + 1)])
        work = [kernel("gemm", 100 * i + 2, 100 * i + 2 + us, correlation=100 * i + 1) for i, us in enumerate(times)]
        return make_trace(events, work)

    noisy = op_changes(trace([10, 30, 10, 30]), trace([30, 10, 30, 10])).kernels.iloc[0]
    assert (noisy["before_ns"], noisy["after_ns"], noisy["status"]) == (20_000, 20_000, "within_noise")
    real = op_changes(trace([30, 31, 30, 31]), trace([10, 11, 10, 11])).kernels.iloc[0]
    assert (real["name"], real["change_ns"], real["status"]) == ("gemm", pytest.approx(-20_000), "changed")
