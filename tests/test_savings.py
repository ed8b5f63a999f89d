import pytest
from make_trace import make_trace, op, step
from replay_trace import waiting_trace

from longpole.analyze.analyses.savings import savings
from longpole.capture.errors import MissingData


def test_each_proposal_is_replayed_and_becomes_a_finding():
    found = savings(waiting_trace("ampere_sgemm_128x64_nn"))
    assert (found.step_ns, found.steps_count, found.quality.reason) == (100_000, 4, None)
    assert found.findings[0].id == "host_syncs:explicit"
    assert found.findings[0].saving_ns == 0.75 * 22_500  # what the GPU leaves of four steps, the first launches apart
    assert found.rows["saving_ns"].is_monotonic_decreasing


def test_what_saves_less_than_a_hundredth_of_the_step_is_no_finding():
    assert not [f for f in savings(waiting_trace("some_gemm", "some_softmax")).findings if f.saves and f.saving_ns < 1_000]


def test_without_gpu_work_there_is_nothing_to_replay():
    with pytest.raises(MissingData, match="no GPU work"):
        savings(make_trace([step(1, 0, 100), op("aten::mm", 0, 50)]))
