"""Which call ends a step, told of calls by letters: a capital is an optimizer's step, b backward, f a module, d a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.capture.running.loop import RARE, StepOn, StepRule


def ends(calls: str, step_on: StepOn = "auto", has_optimizer: bool = True) -> str:
    """The calls with a bar behind each that ends a step; with batches before it, for there the next one begins."""
    rule, told = StepRule(step_on, lambda: has_optimizer), ""
    for call in calls:
        if call == "d":
            told += ("|" if rule.asked_for_batch() else "") + call
            rule.got_batch()
            continue
        ended = rule.went_backward() if call == "b" else rule.called_module() if call == "f" else rule.optimizer_stepped(call)
        told += call + ("|" if ended else "")
    return told


def test_an_optimizers_step_ends_a_step():
    assert ends("dfbAdfbA") == "dfbA|dfbA|"


def test_several_batches_may_go_into_a_step():
    assert ends("dfbdfbAdfbdfbA") == "dfbdfbA|dfbdfbA|"


def test_of_two_optimizers_that_take_turns_the_later_one_ends_it():
    assert ends("fbAfbBfbAfbBfbAfbB") == "fbA|fbB|fbAfbB|fbAfbB|"


def test_of_two_optimizers_the_one_that_steps_less_often_ends_it():
    assert ends("AABAABAAB") == "A|A|B|AAB|AAB|"
    assert ends("ABAABAAB") == "A|B|AAB|AAB|"


def test_an_optimizer_that_hardly_ever_steps_ends_nothing():
    calls = "A" * (2 * RARE) + "B" + "A" * (2 * RARE) + "B"
    assert ends(calls).endswith("A|A|B")


def test_what_was_decided_holds_until_another_optimizer_comes():
    rule = StepRule()
    assert [rule.optimizer_stepped(one) for one in "AA"] == [True, True]
    rule.fix()
    assert rule.optimizer_stepped("A")
    assert rule.optimizer_stepped("B")  # as rare as can be, and new
    assert [rule.optimizer_stepped(one) for one in "AAAB"] == [False, False, False, True]


def test_nobody_looks_for_optimizers_while_a_recording_goes_on():
    asked = []
    rule = StepRule("auto", lambda: bool(asked.append(rule.forwards)))
    for _ in range(99):
        rule.called_module()
    rule.fix()
    for _ in range(100):
        assert rule.called_module()
    assert asked == [1, 10]


def test_modules_that_nobody_trains_end_a_step_each():
    assert ends("fff", has_optimizer=False) == "f|f|f|"
    assert ends("dfdf", has_optimizer=False) == "df|df|"


def test_a_program_that_has_an_optimizer_is_waited_for():
    assert ends("ffffffbAfbA") == "ffffffbA|fbA|"


def test_a_program_without_an_optimizer_that_goes_backward_ends_its_steps_there():
    assert ends("fbfbfbfb", has_optimizer=False).endswith("fb|fb|")


def test_an_optimizer_that_comes_late_takes_over():
    assert ends("fffbAfbA", has_optimizer=False) == "f|f|f|bA|fbA|"


@pytest.mark.parametrize(("step_on", "told"), [("module", "df|bAdf|bA"), ("optimizer", "dfbA|dfbA|"), ("batch", "dfbA|dfbA")])
def test_the_user_has_the_last_word(step_on: StepOn, told: str):
    assert ends("dfbAdfbA", step_on) == told


def test_batches_of_an_evaluation_end_nothing_where_batches_are_asked_for():
    assert ends("dfbAdfbAdfdfdfbA", "batch") == "dfbA|dfbA|dfdfdfbA"


def test_two_batches_for_a_step_end_two_where_batches_are_asked_for():
    assert ends("dfbdfbAdfbdfbA", "batch") == "dfb|dfbA|dfb|dfbA"


@given(st.lists(st.sampled_from("ABC"), max_size=60))
def test_the_closing_optimizer_is_what_counting_says(calls: list[str]):
    rule = StepRule()
    for call in calls:
        rule.optimizer_stepped(call)
    counts = {one: calls.count(one) for one in dict.fromkeys(calls)}
    usual = [one for one in counts if counts[one] * RARE >= max(counts.values())]
    fewest = [one for one in usual if counts[one] == min(counts[o] for o in usual)]
    assert rule.closing == (fewest[-1] if fewest else None)
