import pytest
from make_trace import kernel, loop, make_trace, op, phase

from longpole.analyze.analyses.bottlenecks import bottlenecks


def forward(start: float, end: float) -> list[dict[str, object]]:
    """Of 100: 60 in forward, of it 40 in linear, of them 30 in its mm; 40 outside."""
    return [phase("forward", start, start + 60), op("aten::linear", start, start + 40), op("aten::mm", start + 5, start + 35)]


def test_rows_are_self_time_per_step_the_largest_first():
    found = bottlenecks(make_trace(loop([100, 100], forward)))
    assert [tuple(row) for row in found.rows[["phase", "name", "self_ns"]].to_numpy()] == [
        ("other", "", 40_000), ("forward", "aten::mm", 30_000), ("forward", "", 20_000), ("forward", "aten::linear", 10_000),
    ]  # fmt: skip
    assert found.rows["cumulative_share"].tolist() == pytest.approx([0.4, 0.7, 0.9, 1.0])
    assert (found.outside_ns, found.outside_share) == (60_000, 0.6)


def test_only_outermost_operators_are_calls_of_the_program():
    found = bottlenecks(make_trace(loop([100, 100], forward)))
    assert found.rows.set_index(["phase", "name"])["outer_calls_count"].to_dict() == {
        ("other", ""): 0, ("forward", "aten::mm"): 0, ("forward", ""): 0, ("forward", "aten::linear"): 1,
    }  # fmt: skip
    assert found.ops_count == 1


def test_an_operator_below_ten_microseconds_is_tiny():
    calls = [op("tiny", 10 * i, 10 * i + 9.999) for i in range(3)]
    found = bottlenecks(make_trace([phase("act", 0, 50)], calls, [op("not tiny", 30, 40)]))
    assert (found.ops_count, found.tiny_ops_count) == (4, 3)


def test_a_trace_without_operators_is_all_outside():
    found = bottlenecks(make_trace([kernel("gemm", 0, 40)]))
    assert (found.outside_share, found.ops_count, len(found.rows)) == (1.0, 0, 1)
