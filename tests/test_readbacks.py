import pytest
from make_trace import Event, annotation, kernel, make_trace, op, phase, step

from longpole.analyze.analyses.readbacks import PRINTING, RESULT, ROUND_TRIP, readbacks
from longpole.capture.errors import MissingData


def as_array(at: float) -> list[Event]:
    """What .numpy() calls, 4 long."""
    names = ("aten::detach", "aten::to", "aten::resolve_conj", "aten::resolve_neg")
    return [op(name, at + i, at + i + 1) for i, name in enumerate(names)]


def printed(at: float) -> list[Event]:
    """What formatting a tensor calls, in short: 10 long, of which 5 in operators."""
    names = ("aten::reshape", "aten::isfinite", "aten::masked_select", "aten::is_nonzero", "aten::item")
    return [op(name, at + 2 * i, at + 2 * i + 1) for i, name in enumerate(names)]


WORK = [op("aten::mm", 0, 100)]


def test_a_round_trip_lasts_from_the_read_to_the_tensor_that_comes_back():
    found = readbacks(make_trace([step(1, 0, 1000)], WORK, as_array(110), [op("aten::lift_fresh", 510, 512)]))
    row = found.rows.iloc[0]
    assert (row["kind"], row["calls_count"], row["ops_ns"], row["region_ns"]) == (ROUND_TRIP, 1, 4_000, 402_000)
    (finding,) = found.findings
    assert (finding.id, finding.bound, finding.confidence) == ("readbacks:round_trip", "host", "medium")
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 201_000, 402_000)


def test_reads_one_after_the_other_are_logging_with_the_numpy_between():
    reads = [event for i in range(12) for event in as_array(110 + 50 * i)]
    (finding,) = readbacks(make_trace([step(1, 0, 1000)], WORK, reads, [op("aten::mm", 700, 1000)])).findings
    # 110 to 700; sure is the way to the last read, which ends at 664
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (554_000, 590_000, 590_000)
    assert (finding.id, finding.confidence) == ("readbacks:logging", "high")


def test_what_a_loop_computes_before_each_read_may_stay():
    reads = [event for i in range(4) for event in [op("aten::norm", 100 + 50 * i, 130 + 50 * i), *as_array(130 + 50 * i)]]
    (finding,) = readbacks(make_trace([step(1, 0, 1000)], WORK, reads, [op("aten::mm", 300, 1000)])).findings
    assert (finding.low_ns, finding.saving_ns) == (64_000, 80_000)  # 100 to 300 without four norms of 30
    assert finding.confidence == "medium"


def test_a_result_that_stays_outside_torch_may_be_needed():
    found = readbacks(make_trace([step(1, 0, 100)], as_array(10)))
    assert (found.rows["kind"].tolist(), found.rows["region_ns"].tolist()) == ([RESULT], [90_000])  # up to the end of the step
    (finding,) = found.findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns, finding.confidence) == (0, 4_000, 90_000, "low")


def test_the_python_after_a_read_ends_with_its_phase():
    found = readbacks(make_trace([step(1, 0, 100), phase("output", 0, 30)], as_array(10)))
    assert found.rows["region_ns"].tolist() == [20_000]
    assert found.rows["phase"].tolist() == ["output"]


def test_printing_a_tensor_is_all_the_operators_that_format_it():
    found = readbacks(make_trace([step(1, 0, 200)], WORK, printed(110)))
    row = found.rows.iloc[0]
    assert (row["kind"], row["calls_count"], row["ops_ns"], row["region_ns"]) == (PRINTING, 1, 5_000, 90_000)
    (finding,) = found.findings
    assert (finding.id, finding.low_ns, finding.saving_ns) == ("readbacks:printing", 9_000, 90_000)


def test_both_calls_of_a_read_inside_another_operator_are_not_the_programs():
    with pytest.raises(MissingData, match="read no tensor"):
        readbacks(make_trace([step(1, 0, 100)], [op("aten::mm", 5, 50)], as_array(10)))


def test_steps_are_told_apart():
    reads = [*as_array(96), *as_array(100)]
    found = readbacks(make_trace([step(1, 0, 100), step(2, 100, 200)], reads))
    assert found.rows[["calls_count", "region_ns"]].to_numpy().tolist() == [[1, 52_000]]  # 4 in the first, 100 in the second


def test_a_gpu_run_is_told_where_to_look():
    with pytest.raises(MissingData, match="GPU"):
        readbacks(make_trace([step(1, 0, 100)], as_array(10), [kernel("k", 0, 5)]))


def test_a_trace_without_operators_has_nothing_to_look_at():
    with pytest.raises(MissingData, match="CPU activity"):
        readbacks(make_trace([step(1, 0, 100), annotation("own", 0, 10)]))
