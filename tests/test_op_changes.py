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
    found = op_changes([run(40, "aten::add")], [run(40, "aten::add")])
    assert found.ops["status"].tolist() == ["within_noise"] * 3
    assert found.ops["change_ns"].tolist() == [0, 0, 0]
    assert found.kernels.empty


def test_the_largest_change_comes_first_and_all_add_up_to_that_of_the_step():
    found = op_changes([run(40, "aten::add")], [run(20, "aten::mul")])
    assert list(zip(found.ops["name"], found.ops["change_ns"], found.ops["status"], strict=True)) == [
        (OUTSIDE_LABEL, 20_000, "changed"), ("aten::mm", -20_000, "changed"),
        ("aten::add", -10_000, "removed"), ("aten::mul", 10_000, "added"),
    ]  # fmt: skip
    assert found.ops["change_ns"].sum() == 0


def test_runs_of_different_length_compare_by_step():
    rows = op_changes([run(40, steps=8)], [run(30, steps=4)]).ops.set_index("name")
    assert rows.loc["aten::mm", ["before_ns", "after_ns", "change_ns"]].tolist() == [40_000, 30_000, -10_000]


def test_too_few_steps_say_so():
    assert set(op_changes([run(40, steps=3)], [run(20, steps=4)]).ops["status"]) == {"too_few_steps"}


def test_a_kernel_that_varies_is_within_noise():
    def trace(times: list[float]) -> Trace:
        events = loop([100] * 4, lambda start, end: [op("aten::mm", start, end), launch(int(start) + 1, start, start + 1)])
        work = [kernel("gemm", 100 * i + 2, 100 * i + 2 + us, correlation=100 * i + 1) for i, us in enumerate(times)]
        return make_trace(events, work)

    noisy = op_changes([trace([10, 30, 10, 30])], [trace([30, 10, 30, 10])]).kernels.iloc[0]
    assert (noisy["before_ns"], noisy["after_ns"], noisy["status"]) == (20_000, 20_000, "within_noise")
    real = op_changes([trace([30, 31, 30, 31])], [trace([10, 11, 10, 11])]).kernels.iloc[0]
    assert (real["name"], real["change_ns"], real["status"]) == ("gemm", pytest.approx(-20_000), "changed")


def conv(*kernels: tuple[str, float], op_name: str = "aten::conv2d", inner: str = "aten::cudnn_convolution") -> Trace:
    """Four steps of 100 with a convolution that launches these, one after the other."""

    def host(start: float, end: float) -> list[Event]:
        calls = [launch(int(start) + i, start + 1 + i, start + 2 + i) for i in range(1, len(kernels) + 1)]
        return [op(op_name, start, start + 30), op(inner, start + 1, start + 29), *calls]

    work, step_starts = [], range(0, 400, 100)
    for start in step_starts:
        at = start + 10.0
        for i, (name, us) in enumerate(kernels, 1):
            work.append(kernel(name, at, at + us, correlation=start + i))
            at += us
    return make_trace(loop([100] * 4, host), work)


def test_a_kernel_that_takes_anothers_place_is_a_change_of_their_operator():
    found = op_changes([conv(("implicit_gemm", 40), ("relu", 5))], [conv(("winograd", 25), ("relu", 5))])
    row = found.device.iloc[0]
    assert (row["name"], row["before_ns"], row["after_ns"]) == ("aten::cudnn_convolution", 45_000, 30_000)
    assert (row["kernels_removed"], row["kernels_added"]) == (("implicit_gemm",), ("winograd",))
    assert row["replaced"] == "implicit_gemm → winograd"
    assert found.kernels[["name", "status"]].values.tolist() == [
        ["implicit_gemm", "removed"], ["winograd", "added"], ["relu", "within_noise"],
    ]  # fmt: skip


def test_an_operator_that_only_one_side_has_gives_its_work_to_the_one_around_it_that_both_have():
    found = op_changes([conv(("implicit_gemm", 40))], [conv(("winograd", 25), inner="aten::miopen_convolution")])
    assert found.device[["name", "change_ns", "replaced"]].values.tolist() == [
        ["aten::conv2d", -15_000, "implicit_gemm → winograd"],
    ]  # fmt: skip


def test_kernels_of_other_tiles_share_a_row_and_it_says_how_often_each_side_runs_them():
    found = op_changes([conv(("sgemm_128x64_tn", 20), ("sgemm_64x64_tn", 10))], [conv(("sgemm_32x32_tn", 24))])
    row = found.kernels.iloc[0]
    assert (row["name"], row["was"], row["change_ns"]) == ("sgemm_32x32_tn", "sgemm_128x64_tn and 1 more", -6_000)
    assert row["names_before"] == ("sgemm_128x64_tn", "sgemm_64x64_tn")
    assert (row["before_count"], row["after_count"]) == (2, 1)


def test_work_that_no_step_launched_is_in_no_row_and_is_told():
    stray = make_trace(loop([100] * 4, lambda start, end: [op("a", start, end)]), [kernel("late", 10, 50)])
    found = op_changes([stray], [run(40)])
    assert found.kernels.empty
    assert (found.before_outside_ns, found.after_outside_ns) == (40_000, 0)
