from make_trace import annotation, frame, kernel, launch, make_trace, op, step

from longpole.analyze.advice.zeroed_gradients import zeroed_gradients

ZERO_GRAD = "Optimizer.zero_grad#SGD.zero_grad"


def test_zeros_written_into_gradients_are_to_be_dropped():
    (found,) = zeroed_gradients(make_trace(*zeroing(1000)))
    assert (found.id, found.changes) == ("zeroed_gradients", (f"op:{ZERO_GRAD} x0",))
    assert {e.name: e.value for e in found.evidence} == {"launched_count": 2, "host_ns": 40_000, "device_ns": 10_000}
    assert "set_to_none=True" in found.advice.template


def test_gradients_set_to_none_launch_nothing():
    calls, _ = zeroing(1000)
    assert not list(zeroed_gradients(make_trace([call for call in calls if call["cat"] != "cuda_runtime"])))


def test_zeros_written_elsewhere_are_wanted():
    calls, work = zeroing(1000)
    assert not list(zeroed_gradients(make_trace([call for call in calls if call["name"] != ZERO_GRAD], work)))


def test_below_a_hundredth_of_the_recording_it_is_not_worth_a_change():
    assert list(zeroed_gradients(make_trace(*zeroing(4000))))
    assert not list(zeroed_gradients(make_trace(*zeroing(4100))))


def zeroing(step_us):
    calls = [step(1, 0, step_us), annotation(ZERO_GRAD, 0, 40)]
    calls += [op("aten::zero_", 2, 18), launch(1, 4, 8), op("aten::zero_", 20, 38), launch(2, 22, 26)]
    return calls, [kernel("fill", 10, 15, correlation=1), kernel("fill", 30, 35, correlation=2)]


def test_zeros_that_a_module_writes_are_seen_by_what_the_backward_pass_adds_to_them():
    (found,) = zeroed_gradients(make_trace(*of_module()))
    assert (found.id, found.changes) == ("zeroed_gradients:module", ("op:aten::zero_ x0",))
    assert {e.name: e.value for e in found.evidence} == {"launched_count": 3, "host_ns": 30_000, "device_ns": 15_000}
    assert found.problem.values["who"] == "The program, outside of its optimizer,"


def test_with_stacks_the_line_is_named():
    calls, work = of_module()
    (found,) = zeroed_gradients(make_trace(calls, [frame("train.py(7): step", 0, 90)], work))
    assert found.problem.values["who"] == "train.py(7): step, outside of the optimizer,"


def test_zeros_of_new_tensors_stay():
    calls, work = of_module()
    (found,) = zeroed_gradients(make_trace(calls, [op("aten::zeros", 60, 80), op("aten::zero_", 65, 75)], work))
    assert found.changes == ("op:aten::zero_ x0.25",)


def test_gradients_that_are_assigned_were_not_zeroed():
    calls, work = of_module(added=2)
    assert not list(zeroed_gradients(make_trace(calls, work)))


def test_a_few_zeros_between_other_operators_are_other_tensors():
    calls, work = of_module()
    between = [op("aten::mm", 10.5, 11.5), op("aten::mm", 22.5, 23.5)]
    assert not list(zeroed_gradients(make_trace(calls, between, work)))


def test_zeros_written_at_once_count_as_well():
    calls, work = of_module()
    at_once = [dict(call, name="aten::_foreach_zero_", dur=35) if call["name"] == "aten::zero_" else call for call in calls[:2]]
    (found,) = zeroed_gradients(make_trace(at_once, [c for c in calls if c["name"] != "aten::zero_"], work))
    assert found.changes == ("op:aten::_foreach_zero_ x0",)


def of_module(added=3):
    """A step of 1000: three gradients are set to zero, each in 10; the backward pass adds to `added` of three."""
    calls = [step(1, 0, 1000), *(op("aten::zero_", 12 * i, 12 * i + 10) for i in range(3))]
    calls += [launch(i + 1, 12 * i + 1, 12 * i + 4) for i in range(3)]
    for i in range(3):
        calls.append(op("torch::autograd::AccumulateGrad", 200 + 20 * i, 215 + 20 * i, tid=2))
        calls += [op("aten::add_", 202 + 20 * i, 212 + 20 * i, tid=2)] if i < added else []
    return calls, [kernel("fill", 12 * i + 5, 12 * i + 10, correlation=i + 1) for i in range(3)]
