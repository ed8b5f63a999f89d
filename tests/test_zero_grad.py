import pytest
from make_trace import Event, annotation, kernel, make_trace, op, step

from longpole.analyze.analyses.zero_grad import zero_grad
from longpole.capture.errors import MissingData


def accumulation(at: float, *inside: Event) -> list[Event]:
    return [op("torch::autograd::AccumulateGrad", at, at + 10), *inside]


STEP = [step(1, 0, 200), op("aten::mm", 20, 50)]
ADDS = [event for at in (60, 80) for event in accumulation(at, op("aten::add_", at + 2, at + 8))]


def test_zeros_and_the_additions_to_them_could_go():
    zeros = [annotation("Optimizer.zero_grad#SGD.zero_grad", 0, 18), op("aten::_foreach_zero_", 2, 12), op("aten::zero_", 3, 6)]
    found = zero_grad(make_trace(STEP, zeros, ADDS))
    assert (found.calls, found.zeros_ns, found.adds, found.adds_ns) == (1, 10_000, 2, 12_000)
    (finding,) = found.findings
    assert (finding.id, finding.low_ns, finding.saving_ns, finding.high_ns) == ("zero_grad", 0, 22_000, 22_000)


def test_additions_elsewhere_are_arithmetic():
    found = zero_grad(make_trace(STEP, [op("aten::zero_", 2, 12)], ADDS, [op("aten::add_", 100, 150)]))
    assert found.adds_ns == 12_000


def test_gradients_that_are_dropped_need_no_zeros():
    with pytest.raises(MissingData, match="no zeros"):
        zero_grad(make_trace(STEP, accumulation(60, op("aten::detach", 62, 64))))


def test_zeros_of_another_tensor_are_not_a_gradients():
    with pytest.raises(MissingData, match="no zeros"):
        zero_grad(make_trace(STEP, [op("aten::zero_", 2, 12)]))


def test_a_gpu_run_is_told_where_to_look():
    with pytest.raises(MissingData, match="GPU"):
        zero_grad(make_trace(STEP, ADDS, [kernel("k", 0, 5)]))
