import pytest
from make_trace import Event, allocation, loop, make_trace, op

from longpole.analyze.diffs.memory_changes import memory_changes
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData


def run(size_bytes: int, counted: bool = True, device_type: int = 1) -> Trace:
    """Four steps of 100 which each allocate that on top of 1,000 and release it again."""

    def part(start: float, end: float) -> list[Event]:
        totals = (1000 + size_bytes, 1000) if counted else (None, None)
        return [
            op("aten::mm", start, start + 50), allocation(start + 10, size_bytes, device_type, address=1, total=totals[0]),
            allocation(start + 40, -size_bytes, device_type, address=1, total=totals[1]),
        ]  # fmt: skip

    return make_trace(loop([100] * 4, part))


def test_peak_and_allocated_bytes_are_compared_by_step():
    rows = memory_changes([run(5000)], [run(2000)]).rows
    columns = ["name", "before_bytes", "after_bytes", "change_bytes", "low_change_bytes", "high_change_bytes", "status"]
    assert rows[columns].values.tolist() == [
        ["GPU 0: allocated", 5000, 2000, -3000, -3000, -3000, "changed"],
        ["GPU 0: peak", 6000, 3000, -3000, -3000, -3000, "changed"],
    ]  # fmt: skip


def test_a_device_that_only_one_side_uses_comes_or_goes():
    rows = memory_changes([run(5000)], [run(2000, device_type=0)]).rows
    assert rows[["name", "status"]].values.tolist() == [
        ["GPU 0: peak", "removed"], ["GPU 0: allocated", "removed"], ["host: peak", "added"], ["host: allocated", "added"],
    ]  # fmt: skip


def test_a_peak_that_one_side_does_not_tell_is_not_compared():
    found = memory_changes([run(5000)], [run(2000, counted=False)])
    assert found.rows["name"].tolist() == ["GPU 0: allocated"]
    assert found.untold == ("GPU 0: peak",)


def test_without_memory_events_nothing_is_told():
    with pytest.raises(MissingData, match="profile_memory=True"):
        memory_changes([run(5000)], [make_trace(loop([100] * 4, lambda start, end: [op("a", start, end)]))])
