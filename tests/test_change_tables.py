import pandas as pd

from longpole.reports.change_tables import change_view, memory_view

NAN = float("nan")


def rows(low: float, **columns: list) -> pd.DataFrame:
    times = {"before_ns": [2000, 1000], "after_ns": [1000, 1000], "change_ns": [-1000, 0]}
    ends = {"low_change_ns": [low, low], "high_change_ns": [low, low], "status": ["changed", "within_noise"]}
    return pd.DataFrame({"name": ["gemm_64x64", "relu"], "was": ["gemm_32x32", ""], **times, **ends, **columns})


def test_under_a_name_stands_what_it_was_called_and_its_note():
    shown = change_view(rows(-1000, replaced=["a → b", ""]), {"name": "Operator"}, more="replaced")
    assert shown.view.rows[0] == ("gemm_64x64", "2.00", "1.00", "−1.00", "−1.00", "−1.00", "changed")
    assert shown.notes == (("before: gemm_32x32", "a → b"), ())


def test_intervals_have_columns_only_where_they_are_known():
    heads = [head.text for head in change_view(rows(NAN), {"name": "Kernel"}, limit=1).view.heads]
    assert heads == ["Kernel", "Before, µs", "After, µs", "Change, µs", "Verdict"]
    assert change_view(rows(NAN), {"name": "Kernel"}, limit=1).view.more == 1


def test_memory_is_told_in_bytes():
    of_bytes = rows(NAN).rename(columns=lambda name: name.replace("_ns", "_bytes"))
    assert memory_view(of_bytes).rows[0] == ("gemm_64x64", "1.95\u202fKiB", "1,000\u202fB", "−1,000\u202fB", "changed")
