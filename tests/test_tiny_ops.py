import pytest
from make_trace import Event, annotation, kernel, make_bundle, make_trace, op, step

from longpole.analyze.analyses.tiny_ops import tiny_ops
from longpole.capture.errors import MissingData


def layers(count: int, computing: float) -> list[Event]:
    """One step of 100 a layer; each calls an operator that holds 5 itself, and an inner one that holds 5 and what it computes."""
    return [step(1, 0, 100 * count), *(event for i in range(count) for event in layer(100 * i, computing))]


def layer(at: float, computing: float) -> list[Event]:
    return [op("aten::linear", at, at + 10 + computing), op("aten::mm", at + 4, at + 9 + computing)]


def test_calling_is_all_but_what_operators_compute():
    found = tiny_ops(make_bundle(layers(30, 20), samples_per_step=256))
    assert (found.calls, found.calling_ns, found.computing_ns, found.samples) == (30, 2_400_000, 600_000, 256)
    (finding,) = found.findings
    # four times the batch: a quarter stays
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 1_800_000, 2_400_000)
    assert (finding.id, finding.bound, finding.confidence) == ("tiny_ops", "host", "medium")


def test_without_the_number_of_samples_time_per_sample_cannot_be_told():
    found = tiny_ops(make_trace(layers(30, 20)))
    assert (found.samples, found.findings) == (None, ())


def test_few_calls_are_no_crowd():
    assert tiny_ops(make_bundle(layers(29, 20), samples_per_step=256)).findings == ()


def test_operators_that_compute_most_of_the_step_have_enough_to_do():
    busy = [op("aten::mm", 100 * i, 100 * i + 90) for i in range(30)]
    assert tiny_ops(make_bundle([step(1, 0, 3000), *busy], samples_per_step=256)).findings == ()


def test_long_pauses_between_calls_are_something_else():
    found = tiny_ops(make_trace([step(1, 0, 1000), op("aten::mm", 0, 5)]))
    assert found.calling_ns == 105_000


def test_the_optimizers_calls_do_not_wait_for_a_larger_batch():
    with pytest.raises(MissingData, match="optimizer"):
        tiny_ops(make_trace([step(1, 0, 100), annotation("Optimizer.step#SGD.step", 0, 50), op("aten::add_", 0, 5)]))


def test_a_gpu_run_is_told_where_to_look():
    with pytest.raises(MissingData, match="GPU"):
        tiny_ops(make_trace(layers(30, 20), [kernel("k", 0, 5)]))
