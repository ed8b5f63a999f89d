import pytest

from longpole.analyze.findings import Finding, Text, notable, ranked


def finding(name: str, saving: float, low: float = 0, high: float = 100) -> Finding:
    empty = Text.of("")
    return Finding(name, empty, empty, empty, saving, low, high, "low", (), bound="host", phase="other")


def test_a_text_keeps_its_numbers_apart_from_its_words():
    text = Text.of("{loop_share} of the step", loop_share=0.6)
    assert (text.template, dict(text.values)) == ("{loop_share} of the step", {"loop_share": 0.6})


@pytest.mark.parametrize(("low", "saving", "high"), [(-1, 0, 1), (2, 1, 3), (0, 4, 3)])
def test_savings_out_of_order_are_a_bug(low: float, saving: float, high: float):
    with pytest.raises(ValueError, match="out of order in wrong"):
        finding("wrong", saving, low, high)


def test_a_saving_below_a_hundredth_of_the_step_is_not_notable():
    assert [f.id for f in notable([finding("small", 9.9), finding("large", 10)], 1000)] == ["large"]


def test_the_largest_saving_comes_first_and_equal_ones_by_id():
    assert [f.id for f in ranked([finding("b", 5), finding("c", 9), finding("a", 5)])] == ["c", "a", "b"]
