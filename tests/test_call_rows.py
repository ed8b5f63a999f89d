import pandas as pd
import pytest

from longpole.reports.call_rows import brief, call_table, call_view

NAN = float("nan")
ROWS = pd.DataFrame({
    "name": ["cudaMemcpyAsync", "(in the step itself)"],
    "was": ["hipMemcpyAsync", ""],
    "path": [("longpole.phase#forward", "nn.Module: Net_0", "torch/nn/modules/module.py(1743): _call_impl", "a", "b", "c", "d",
              "cudaMemcpyAsync"), ()],
    "before_ns": [2_000_000, 1_000_000], "after_ns": [5_000_000, 1_000_000], "change_ns": [3_000_000, 0],
    "low_change_ns": [NAN, NAN], "high_change_ns": [NAN, NAN], "self_change_ns": [3_000_000, NAN],
    "status": ["too_few_steps", "too_few_steps"],
    "inside": [(("aten::to", -250_000),), ()],
})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("longpole.phase#sampling", "sampling"),
        ("nn.Module: Linear_0", "Linear_0"),
        ("/home/u/proj/train.py(12): main", "train.py(12): main"),
        ("proj\\train.py(12): main", "train.py(12): main"),
        ("<built-in method run_backward of Engine object at 0x7f4f>", "run_backward (built in)"),
        ("<built-in function linear>", "linear (built in)"),
        ("## forward ##", "forward"),
        ("aten::mm", "aten::mm"),
        ("x" * 100, "x" * 79 + "…"),
    ],
)
def test_names_are_said_in_brief(name: str, shown: str):
    assert brief(name) == shown


def test_under_a_call_stands_what_is_around_it_what_it_was_and_what_changed_inside():
    shown = call_view(ROWS)
    assert [head.text for head in shown.view.heads] == [
        "Call",
        "Before, ms",
        "After, ms",
        "Change, ms",
        "Own time, ms",
        "Verdict",
    ]
    assert shown.view.rows[0] == ("cudaMemcpyAsync", "2.00", "5.00", "+3.00", "+3.00", "too few steps")
    assert shown.notes[0] == ("before: hipMemcpyAsync", "in … › b › c › d", "inside: aten::to −250\u202fµs")
    assert shown.notes[1] == ()


def test_in_one_line_a_call_stands_behind_those_around_it():
    assert [row[0] for row in call_table(ROWS).rows] == ["… › b › c › d › cudaMemcpyAsync", "(in the step itself)"]
