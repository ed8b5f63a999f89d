import math

import pytest
from make_trace import annotation, loop, make_trace, op, phase

from longpole.analyze.analyses.phases import phases


def half_and_half(start: float, end: float) -> list[dict[str, object]]:
    middle = (start + end) / 2
    return [phase("forward", start, middle), op("aten::mm", start, middle), annotation("Optimizer.step#SGD.step", middle, end)]


def test_phases_add_up_to_each_step_exactly():
    found = phases(make_trace(loop([100, 120, 140, 160], half_and_half)))
    assert found.per_step.sum(axis=1).tolist() == [100_000, 120_000, 140_000, 160_000]
    assert found.rows["phase"].tolist() == ["forward", "optimizer"]
    assert found.rows["mean_ns"].tolist() == [65_000, 65_000]
    assert found.rows["phase_share"].tolist() == [0.5, 0.5]
    assert found.marked


def test_the_interval_of_a_phase_holds_its_mean():
    row = phases(make_trace(loop([100, 120, 140, 160], half_and_half))).rows.iloc[0]
    assert row["low_ns"] == pytest.approx(65_000 - 20_543, abs=10)  # 3.182 times 6,455
    assert row["high_ns"] == pytest.approx(65_000 + 20_543, abs=10)


def test_too_few_steps_have_no_interval():
    row = phases(make_trace(loop([100, 100], half_and_half))).rows.iloc[0]
    assert math.isnan(row["low_ns"])
    assert math.isnan(row["high_ns"])


def test_a_phase_that_one_step_lacks_counts_as_zero_there():
    events = loop([100, 100], lambda start, end: [op("aten::mm", start, end)])
    found = phases(make_trace(events, [phase("evaluation", 150, 200)]))
    assert found.per_step["evaluation"].tolist() == [0, 50_000]
    assert found.rows.set_index("phase")["mean_ns"].to_dict() == {"evaluation": 25_000, "other": 75_000}


def test_without_marks_all_time_is_other():
    found = phases(make_trace([op("aten::mm", 0, 100)]))
    assert (found.rows["phase"].tolist(), found.marked) == (["other"], False)
