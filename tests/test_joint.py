from dataclasses import replace

from longpole.analyze.analyses.data_wait import DataWait
from longpole.analyze.findings import Finding, Text
from longpole.analyze.joint import Together, together_on_host
from longpole.analyze.loaders import Loader
from longpole.reports.saving_words import no_more


def finding(id: str, phase: str, low: float, expected: float, high: float) -> Finding:
    words = Text(id)
    return Finding(id, words, words, words, expected, low, high, "high", (), "host", phase)


def test_changes_to_different_phases_go_together():
    (both,) = together_on_host([finding("a", "sampling", 1, 30, 40), finding("b", "loss", 0, 20, 30)], 100, None)
    assert (both.ids, both.step_ns, both.after_ns, both.least_ns, both.most_ns) == (("a", "b"), 100, 50, 30, 99)
    assert (both.alone_ns, both.adds) == (70, True)


def test_of_two_changes_to_one_phase_only_the_first_counts():
    found = [finding("a", "loss", 0, 30, 40), finding("b", "loss", 0, 20, 30), finding("c", "optimizer", 0, 10, 10)]
    (both,) = together_on_host(found, 100, None)
    assert (both.ids, both.after_ns) == (("a", "c"), 60)


def test_a_third_one_is_added_and_no_fourth():
    found = [finding(name, name, 0, 10, 10) for name in "abcd"]
    assert [len(t.ids) for t in together_on_host(found, 100, None)] == [2, 3]


def test_what_is_only_worth_knowing_and_a_larger_batch_take_no_part():
    found = [finding("tiny_ops", "forward", 0, 50, 60), finding("a", "loss", 0, 10, 10), finding("note", "other", 0, 0, 0)]
    assert together_on_host(found, 100, None) == ()


def test_a_shorter_rest_hides_less_of_the_loading():
    loader = Loader(40e6, 60e6, False, None, 8, 0.0, None)  # alone: 60 ms of the rest hide all loading, 2 workers take 20
    wait = DataWait(40e6, 60e6, False, loader, (), {}, {})
    some = [finding("data_wait", "data_loading", 0, 39.3e6, 40e6), finding("a", "loss", 0, 50e6, 50e6)]
    (both,) = together_on_host(some, 100e6, wait)
    assert both.after_ns == 20e6  # no longer 10.7: the two workers need 20 for a batch


def test_changes_that_take_out_the_same_time_add_nothing():
    apart = Together(("a", "b"), 100, 50, 30, 99, 70)
    assert apart.adds
    assert not replace(apart, after_ns=69.5).adds  # less than a hundredth of the step
    assert no_more(apart) == ""
    assert no_more(replace(apart, after_ns=70)) == ", which save hardly more than the first alone"
