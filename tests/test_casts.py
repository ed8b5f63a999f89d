import pytest
from make_trace import Event, kernel, make_trace, op, phase, step

from longpole.analyze.analyses.casts import casts
from longpole.capture.errors import MissingData


def cast(at: float, width: float = 10) -> list[Event]:
    return [op("aten::to", at, at + width), op("aten::_to_copy", at + 1, at + width)]


def test_conversions_that_copy_are_counted_by_phase():
    events = [step(1, 0, 100), phase("forward", 0, 60), op("aten::mm", 10, 20), op("aten::to", 50, 51)]
    found = casts(make_trace(events, cast(0), cast(30), cast(70)))
    assert found.rows["phase"].tolist() == ["forward", "other"]
    assert found.rows[["calls_count", "copies_ns"]].to_numpy().tolist() == [[2, 20_000], [1, 10_000]]
    (finding,) = found.findings  # the one outside forward may be the batch's
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 15_000, 30_000)  # 10 of the second are Python
    assert (finding.id, finding.phase, finding.confidence) == ("casts", "forward", "low")


@pytest.mark.parametrize("name", ["data_loading", "input", "optimizer"])
def test_new_batches_and_libraries_may_convert(name: str):
    found = casts(make_trace([step(1, 0, 100), phase(name, 0, 100)], cast(0), cast(20)))
    assert (len(found.rows), found.findings) == (1, ())


def test_making_a_tensor_from_numbers_is_no_conversion():
    made = [*cast(0), op("aten::lift_fresh", 10, 11), *cast(20), op("aten::detach_", 30, 31)]  # from a list, from an array
    assert casts(make_trace([step(1, 0, 100)], made)).rows.empty


def test_a_conversion_inside_another_operator_is_not_the_programs():
    assert casts(make_trace([step(1, 0, 100), op("aten::mean", 0, 60)], cast(0), cast(20))).rows.empty


def test_a_gpu_run_is_told_where_to_look():
    with pytest.raises(MissingData, match="GPU"):
        casts(make_trace([step(1, 0, 100)], cast(0), [kernel("k", 0, 5)]))
