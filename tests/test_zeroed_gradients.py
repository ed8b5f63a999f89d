from make_trace import annotation, kernel, launch, make_trace, op, step

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
