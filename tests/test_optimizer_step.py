import pytest
from make_trace import Event, annotation, backward, kernel, make_bundle, make_trace, op, step

from longpole.analyze.analyses.optimizer_step import optimizer_step
from longpole.capture.errors import MissingData


def one_by_one(parameters: int) -> list[Event]:
    """A step of 200; for each parameter mul_ and add_, 5 each, in an optimizer of 10 a parameter."""
    calls = [
        op(name, 10 * i + at, 10 * i + at + 5) for i in range(parameters) for name, at in (("aten::mul_", 0), ("aten::add_", 5))
    ]
    return [step(1, 0, 200), annotation("Optimizer.step#SGD.step", 0, 10 * parameters), *calls]


def test_an_optimizer_that_takes_one_parameter_at_a_time_is_found():
    found = optimizer_step(make_trace(one_by_one(16)))
    assert (found.parameters, found.together, found.optimizer_ns, found.step_ns) == (16, False, 160_000, 200_000)
    assert found.rows["calls_count"].tolist() == [16, 16]
    assert found.rows["ops_ns"].tolist() == [80_000, 80_000]
    (finding,) = found.findings
    # thirty of the 32 calls go, 5 us each, and one of 40 us comes; what comes may also cost all of it
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 110_000, 160_000)
    assert (finding.id, finding.bound, finding.phase) == ("optimizer_step", "host", "optimizer")


def test_few_small_parameters_are_not_worth_it():
    assert optimizer_step(make_trace(one_by_one(4))).findings == ()  # six calls of 5 us against one of 40 us


def test_the_python_around_the_calls_goes_with_them():
    adds = [op("aten::add_", 10 * i, 10 * i + 4) for i in range(16)]
    (finding,) = optimizer_step(make_trace([step(1, 0, 200), annotation("Optimizer.step#SGD.step", 0, 160), *adds])).findings
    assert (finding.low_ns, finding.saving_ns) == (0, 110_000)  # fifteen of sixteen: 6 us of Python, 4 us of dispatch each


def test_long_operators_are_arithmetic_that_stays():
    events = [step(1, 0, 10_000), annotation("Optimizer.step#SGD.step", 0, 8_000)]
    events += [op("aten::add_", 1000 * i, 1000 * i + 1000) for i in range(8)]
    assert optimizer_step(make_trace(events)).findings == ()  # seven dispatches of 10 us are less than a hundredth of the step


def test_the_forward_and_backward_pass_of_a_closure_are_not_the_update():
    events = [
        step(1, 0, 100), annotation("Optimizer.step#SGD.step", 0, 90), op("aten::linear", 5, 30),
        backward("AddmmBackward0", 40, 70),
        op("aten::add_", 70, 80), op("aten::add_", 80, 90),
    ]  # fmt: skip
    found = optimizer_step(make_trace(events))
    assert (found.optimizer_ns, found.rows["name"].tolist()) == (20_000, ["aten::add_"])


def test_foreach_or_fused_operators_need_no_change():
    found = optimizer_step(
        make_trace([step(1, 0, 100), annotation("Optimizer.step#Adam.step", 0, 40), op("aten::_fused_adam_", 0, 30)])
    )
    assert (found.together, found.parameters, found.findings) == (True, 0, ())


def test_a_single_parameter_needs_no_change():
    found = optimizer_step(make_trace(one_by_one(1)))
    assert (found.parameters, found.findings) == (0, ())


def test_operators_outside_the_optimizer_and_inside_others_are_not_its_calls():
    found = optimizer_step(make_trace(one_by_one(2), [op("aten::mul_", 50, 60), op("aten::empty", 1, 2)]))
    assert found.rows.set_index("name")["calls_count"].to_dict() == {"aten::mul_": 2, "aten::add_": 2}


def test_a_gpu_run_gets_no_finding():
    assert optimizer_step(make_trace(one_by_one(4), [kernel("k", 0, 5)])).findings == ()


def test_inference_has_no_optimizer():
    with pytest.raises(MissingData, match="inference"):
        optimizer_step(make_trace([step(1, 0, 100), op("aten::mm", 0, 40)]))


def test_parameters_are_counted_by_update_where_a_step_makes_several():
    second = [{**event, "ts": event["ts"] + 50} for event in one_by_one(2)[1:]]
    found = optimizer_step(make_trace(one_by_one(2), second))
    assert found.rows["calls_count"].tolist() == [4, 4]
    assert found.parameters == 2


def foreach(kind: str, *names: str) -> tuple[list[Event], ...]:
    """A step of 200; an optimizer of 20 for each foreach operator."""
    ops = [op(name if ":" in name else f"aten::_foreach_{name}", 20 * i + 2, 20 * i + 18) for i, name in enumerate(names)]
    return ([step(1, 0, 200), annotation(f"Optimizer.step#{kind}.step", 0, 20 * len(names)), *ops],)


def test_several_passes_over_the_parameters_become_one_where_torch_has_a_fused_form():
    (finding,) = optimizer_step(make_trace(*foreach("Adam", "lerp_", "mul_", "addcmul_", "addcdiv_"))).findings
    assert (finding.id, finding.low_ns, finding.saving_ns, finding.high_ns) == ("optimizer_step:Adam", 0, 52_000, 80_000)
    assert "fused=True" in finding.advice.template
    assert finding.confidence == "medium"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("SGD", ["add_"]),
        ("RMSprop", ["mul_", "addcmul_", "addcdiv_"]),
        ("Adam", ["add_", "sub_", "aten::_fused_adam_"]),
        ("Mine", ["mul_", "add_"]),
    ],
)
def test_a_single_pass_and_optimizers_without_a_fused_form_need_no_change(kind: str, names: list[str]):
    assert optimizer_step(make_trace(*foreach(kind, *names))).findings == ()


@pytest.mark.parametrize(("torch", "count"), [("2.3.1", 0), ("2.4.0", 1), ("2.13.0+cpu", 1), ("", 1)])
def test_versions_without_it_are_not_told_to_use_it(torch: str, count: int):
    events = foreach("AdamW", "lerp_", "mul_", "addcmul_", "addcdiv_")
    assert len(optimizer_step(make_bundle(*events, versions={"torch": torch})).findings) == count


def test_a_small_part_of_the_step_is_not_worth_it():
    events = [*foreach("SGD", "mul_", "add_")[0], op("aten::mm", 200, 2_000)]
    assert optimizer_step(make_trace([step(1, 0, 2_000), *events[1:]])).findings == ()
