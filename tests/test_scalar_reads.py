import pytest
from make_trace import annotation, kernel, make_trace, op, phase, step

from longpole.analyze.analyses.scalar_reads import scalar_reads
from longpole.capture.errors import MissingData

READS = [op("aten::item", 10 * i, 10 * i + 4) for i in range(4)]
STEP = [step(1, 0, 100), phase("loss", 0, 40)]


def test_reads_are_counted_by_phase_with_their_whole_calls():
    found = scalar_reads(make_trace(STEP, READS, [op("aten::_local_scalar_dense", 1, 2), op("aten::item", 50, 60)]))
    assert found.rows["phase"].tolist() == ["loss", "other"]
    assert found.rows["calls_count"].tolist() == [4, 1]
    assert found.rows["step_ns"].tolist() == [16_000, 10_000]


def test_a_loop_of_reads_goes_with_the_python_between():
    (finding,) = scalar_reads(make_trace(STEP, READS)).findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 17_000, 34_000)  # from the first call to the last
    assert (finding.id, finding.bound, finding.phase, finding.confidence) == ("scalar_reads", "host", "loss", "medium")


def test_a_loop_begins_with_what_makes_its_first_number():
    norms = [op("aten::norm", 10 * i + 5, 10 * i + 8) for i in range(-1, 3)]  # 3 each, the first before the first read
    (finding,) = scalar_reads(make_trace([step(1, -10, 100)], READS, norms)).findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 19_500, 39_000)


def test_reads_far_apart_are_no_loop_and_all_but_one_could_go():
    work = [op("aten::mm", 20 * i + 5 + 2 * k, 20 * i + 6 + 2 * k) for i in range(4) for k in range(5)]
    reads = [op("aten::item", 20 * i, 20 * i + 4) for i in range(4)]
    (finding,) = scalar_reads(make_trace([step(1, 0, 100)], work, reads)).findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns, finding.confidence) == (0, 12_000, 16_000, "low")


def test_the_optimizers_own_reads_are_left_out():
    found = scalar_reads(make_trace([step(1, 0, 100), annotation("Optimizer.step#Adam.step", 0, 40)], READS))
    assert found.rows.empty
    assert found.findings == ()


def test_a_read_inside_another_operator_is_not_the_programs():
    assert scalar_reads(make_trace(STEP, [op("aten::equal", 0, 40)], READS)).rows.empty


def test_on_a_gpu_the_time_of_a_read_is_a_wait():
    found = scalar_reads(make_trace(STEP, READS, [kernel("k", 0, 5)]))
    assert found.waits
    assert found.findings == ()


def test_a_trace_without_operators_has_nothing_to_look_at():
    with pytest.raises(MissingData, match="CPU activity"):
        scalar_reads(make_trace([step(1, 0, 100)]))


def test_a_tensor_as_a_condition_is_a_read():
    reads = [op("aten::is_nonzero", 10, 20), op("aten::item", 12, 18)]
    assert scalar_reads(make_trace([step(1, 0, 100)], reads)).rows["calls_count"].tolist() == [1]
