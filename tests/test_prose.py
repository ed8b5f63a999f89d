"""Sentences print their numbers as the suffix of each slot says."""

import pytest

from longpole.analyze.findings import Text
from longpole.reports.formats import interval, plain, share
from longpole.reports.prose import sentence


@pytest.mark.parametrize(
    ("slot", "value", "text"),
    [
        ("step_ns", 3_240_000, "3.24 ms"),
        ("step_change_ns", 3_240_000, "+3.24 ms"),
        ("low_change_ns", -20_000.0, "-20.0 us"),
        ("step_change_share", 0.5, "+50 %"),
        ("peak_change_bytes", 2048, "+2.00 KiB"),
        ("busy_share", 0.5, "50 %"),
        ("calls_count", 1200, "1,200"),
        ("speedup_ratio", 2.0, "2.00x"),
        ("name", "aten::mm", "aten::mm"),
        ("name", "{oops} {0}", "{oops} {0}"),
        ("change_ns", float("nan"), "-"),
    ],
)
def test_a_slot_is_printed_by_its_suffix_and_a_change_carries_its_sign(slot: str, value, text: str):
    assert plain(sentence(Text("It is {" + slot + "}.", {slot: value}))) == f"It is {text}."


def test_a_name_of_ten_thousand_letters_does_not_fill_the_page():
    assert len(sentence(Text.of("{name} holds {lead_share}", name="x" * 10_000, lead_share=0.4))) < 320


def test_a_slot_without_a_value_is_a_bug_and_raises():
    with pytest.raises(KeyError):
        sentence(Text("{missing}"))


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "1 call to 1 copy."), (3, "3 calls to 3 copies."), (0, "0 calls to 0 copies."), (1.5, "1.5 calls to 1.5 copies.")],
)
def test_what_is_counted_agrees_with_its_number(count: float, text: str):
    assert sentence(Text.of("{n_count:call} to {n_count:copy|copies}.", n_count=count)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0.998, 1.0, "busy 100 %"), (0.5, 0.75, "busy 50 % to 75 %"), (0.0, 0.0, "busy 0.0 %")]
)
def test_an_interval_whose_ends_print_alike_is_one_number(low: float, high: float, text: str):
    assert plain(sentence(Text.of("busy {low_share} to {high_share}", low_share=low, high_share=high))) == text
    assert plain(interval(share(low), share(high))) == text.removeprefix("busy ")
