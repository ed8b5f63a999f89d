from make_trace import Event, loop, make_trace, op, phase

from longpole.analyze.diffs.phase_changes import phase_changes
from longpole.analyze.trace import Trace


def run(durations: list[float], name: str = "sampling") -> Trace:
    """Each step: 40 of forward, then the phase to its end."""

    def parts(start: float, end: float) -> list[Event]:
        return [phase("forward", start, start + 40), op("aten::mm", start, start + 10), phase(name, start + 40, end)]

    return make_trace(loop(durations, parts))


def test_the_phase_that_changed_comes_first_and_the_changes_add_up_to_that_of_the_step():
    rows = phase_changes([run([100] * 4)], [run([70] * 5)]).rows
    assert rows[["name", "before_ns", "after_ns", "change_ns", "status"]].to_numpy().tolist() == [
        ["sampling", 60_000, 30_000, -30_000, "changed"], ["forward", 40_000, 40_000, 0, "within_noise"],
    ]  # fmt: skip


def test_a_new_phase_and_one_that_is_gone_are_named():
    rows = phase_changes([run([100] * 4)], [run([100] * 4, "act")]).rows
    assert rows.set_index("name")["status"].to_dict() == {"act": "added", "sampling": "removed", "forward": "within_noise"}
    assert rows["change_ns"].sum() == 0


def test_a_phase_that_varies_is_within_noise():
    rows = phase_changes([run([90, 110, 90, 110])], [run([110, 90, 110, 90])]).rows
    assert set(rows["status"]) == {"within_noise"}


def test_too_few_steps_have_no_interval():
    row = phase_changes([run([100] * 3)], [run([70] * 4)]).rows.iloc[0]
    assert (row["status"], row["change_ns"]) == ("too_few_steps", -30_000)
    assert row[["low_change_ns", "high_change_ns"]].isna().all()


def test_without_marks_other_is_the_one_phase():
    rows = phase_changes([make_trace([op("a", 0, 10)])], [make_trace([op("a", 0, 30)])]).rows
    assert rows[["name", "change_ns"]].to_numpy().tolist() == [["other", 20_000]]
