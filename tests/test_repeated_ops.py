import pytest
from make_trace import Event, kernel, make_trace, op, phase, step

from longpole.analyze.analyses.repeated_ops import MANY_CALLS, repeated_ops
from longpole.capture.errors import MissingData


def turns(count: int, name: str = "aten::select", width: float = 5, phase_name: str = "sampling") -> list[Event]:
    """One step of 100 a call, one call every 10 in the phase."""
    calls = [op(name, 10 * i, 10 * i + width) for i in range(count)]
    return [step(1, 0, 100 * count), phase(phase_name, 0, 10 * count), *calls]


def test_a_loop_of_small_operators_is_found_with_its_python():
    found = repeated_ops(make_trace(turns(20)))
    row = found.rows.iloc[0]
    assert (row["phase"], row["name"], row["calls_count"], row["call_ns"], row["step_ns"]) == (
        "sampling", "aten::select", 20, 5000, 100_000,
    )  # fmt: skip
    (loop,) = found.findings
    assert (loop.id, loop.bound, loop.phase) == ("repeated_ops:sampling", "host", "sampling")
    # 100 us in operators and 100 us of Python; one call of 20 stays
    assert loop.low_ns == pytest.approx(95_000)
    assert loop.saving_ns == pytest.approx(190_000)
    assert loop.high_ns == pytest.approx(200_000)


def test_python_is_shared_with_the_other_operators_of_the_phase():
    others = [op("aten::cat", 10 * i + 6, 10 * i + 8) for i in range(5)]  # 5 of 25 calls, too few to be a loop
    (loop,) = repeated_ops(make_trace(turns(20), others)).findings
    # Python is 200 - 100 - 10 = 90 us, four fifths of it of the loop
    assert loop.saving_ns == pytest.approx((100_000 + 90_000 * 0.8) * 0.95)


def test_fewer_calls_are_lines_of_a_program():
    assert len(repeated_ops(make_trace(turns(MANY_CALLS))).rows) == 1
    assert repeated_ops(make_trace(turns(MANY_CALLS - 1))).rows.empty


def test_operators_of_fifty_microseconds_are_work():
    calls = [op("aten::mm", 50 * i, 50 * i + 50) for i in range(20)]
    assert repeated_ops(make_trace([step(1, 0, 1000)], calls)).rows.empty


@pytest.mark.parametrize("name", ["forward", "backward", "optimizer"])
def test_layers_and_parameters_repeat_operators_without_a_loop(name: str):
    found = repeated_ops(make_trace(turns(20, phase_name=name)))
    assert len(found.rows) == 1
    assert found.findings == ()


def test_what_a_loader_does_between_operators_is_not_theirs():
    (loop,) = repeated_ops(make_trace(turns(20, phase_name="data_loading"))).findings
    assert loop.saving_ns == loop.low_ns == pytest.approx(95_000)


def test_a_gpu_run_gets_no_finding():
    found = repeated_ops(make_trace(turns(20), [kernel("k", 0, 5)]))
    assert len(found.rows) == 1
    assert found.findings == ()


def test_a_loop_of_less_than_a_hundredth_of_the_step_is_not_notable():
    found = repeated_ops(make_trace([*turns(20)[1:], step(1, 0, 30_000)]))
    assert len(found.rows) == 1
    assert found.findings == ()


def test_a_trace_without_operators_has_nothing_to_look_at():
    with pytest.raises(MissingData, match="CPU activity"):
        repeated_ops(make_trace([step(1, 0, 100)]))


def test_without_marked_steps_calls_per_step_cannot_be_counted():
    with pytest.raises(MissingData, match=r"profiler\.step\(\)"):
        repeated_ops(make_trace(turns(20)[1:]))


def test_layers_in_a_phase_of_any_name_are_no_loop():
    layers = [op("aten::linear", 10 * i, 10 * i + 8) for i in range(24)]
    for name in ("encoder", "act", "input"):
        assert repeated_ops(make_trace([step(1, 0, 300), phase(name, 0, 240)], layers)).findings == ()
