from longpole.analyze.diffs.fates import fates
from longpole.analyze.findings import Finding, Text


def finding(id: str, saving: float) -> Finding:
    words = Text(id)
    return Finding(id, words, words, words, saving, 0, 2 * saving, "high", (), "host", "other")


def told(before: list[Finding], after: list[Finding]) -> list[tuple[str, str, int | None]]:
    return [(fate.finding.id, fate.status, fate.place) for fate in fates(before, after)]


def test_each_finding_is_gone_smaller_still_there_or_new():
    before = [finding("a", 100), finding("b", 60), finding("c", 50)]
    after = [finding("d", 90), finding("b", 31), finding("c", 25)]
    assert told(before, after) == [("a", "gone", 1), ("b", "still_there", 2), ("c", "smaller", 3), ("d", "new", None)]


def test_one_that_only_was_worth_knowing_is_not_smaller():
    assert told([finding("note", 0)], [finding("note", 0)]) == [("note", "still_there", 1)]


def test_the_same_in_another_phase_is_another_finding():
    found = told([finding("repeated_ops:sampling", 9)], [finding("repeated_ops:act", 9)])
    assert found == [("repeated_ops:sampling", "gone", 1), ("repeated_ops:act", "new", None)]


def test_another_advice_on_the_same_wait_is_another_finding():
    assert [status for _, status, _ in told([finding("data_wait", 9)], [finding("data_wait:workers", 3)])] == ["gone", "new"]


def test_waits_of_several_kinds_include_those_of_one():
    assert told([finding("host_syncs", 9)], [finding("host_syncs:reads", 8)]) == [("host_syncs", "still_there", 1)]
    both = told([finding("host_syncs:reads", 9), finding("host_syncs:explicit", 9)], [finding("host_syncs", 3)])
    assert [status for _, status, _ in both] == ["smaller", "smaller"]
    one = told([finding("host_syncs:reads", 9)], [finding("host_syncs:explicit", 9)])
    assert [status for _, status, _ in one] == ["gone", "new"]
