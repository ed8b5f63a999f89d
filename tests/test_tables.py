"""The suffix of a column decides how its cells look: one unit and one number of decimals a column."""

import pandas as pd

from longpole.reports.formats import plain
from longpole.reports.tables import NAME_LENGTH, clipped, table

FRAME = pd.DataFrame({
    "name": ["aten::mm", "aten::add"],
    "self_ns": [1_500_000, 20_000],
    "cpu_ns": [3_000.0, 1_000.0],
    "step_share": [0.75, 0.0149],
    "count": [1200, 3],
    "calls_count": [2.5, 3.0],
    "peak_bytes": [2048, 512],
    "size_bytes": [2048.0, float("nan")],
    "speed_gbps": [12.345, float("nan")],
    "change_ns": [-20_000.0, float("nan")],
    "low_change_ns": [0.0, 40_000.0],
    "status": ["within_noise", "too_few_steps"],
})  # fmt: skip


def column(name: str, **options) -> tuple[str, list[str]]:
    view = table(FRAME, {name: "Head"}, **options)
    return plain(view.heads[0].text), [plain(row[0]) for row in view.rows]


def test_a_column_of_times_has_the_unit_of_its_largest_in_the_head():
    assert column("self_ns") == ("Head, ms", ["1.50", "0.02"])
    assert column("cpu_ns") == ("Head, us", ["3.00", "1.00"])


def test_columns_to_compare_take_the_unit_of_one_of_them():
    assert column("cpu_ns", unit_of="self_ns") == ("Head, ms", ["0.00", "0.00"])


def test_shares_are_per_cent_with_one_decimal():
    assert column("step_share") == ("Head, %", ["75.0", "1.5"])


def test_counts_have_thousands_and_a_decimal_only_where_one_is_not_whole():
    assert column("count") == ("Head", ["1,200", "3"])
    assert column("calls_count") == ("Head", ["2.5", "3.0"])


def test_sizes_carry_their_own_unit():
    assert column("peak_bytes") == ("Head", ["2.00 KiB", "512 B"])


def test_what_is_not_known_is_a_dash():
    assert column("size_bytes") == ("Head", ["2.00 KiB", "-"])
    assert column("speed_gbps") == ("Head, GB/s", ["12.35", "-"])


def test_changes_carry_signs_and_the_unknown_is_a_dash():
    assert column("change_ns") == ("Head, us", ["-20.0", "-"])
    assert column("low_change_ns") == ("Head, us", ["0.0", "+40.0"])


def test_a_status_is_printed_in_words_and_a_name_as_it_is():
    assert column("status") == ("Head", ["within noise", "too few steps"])
    assert column("name") == ("Head", ["aten::mm", "aten::add"])


def test_numbers_stand_right_and_words_left():
    view = table(FRAME, dict.fromkeys(FRAME.columns, "Head"))
    assert [head.numeric for head in view.heads] == [False, *[True] * 10, False]


def test_rows_that_do_not_fit_are_counted():
    view = table(FRAME, {"name": "Name"}, limit=1)
    assert view.rows == (("aten::mm",),)
    assert view.more == 1
    assert table(FRAME, {"name": "Name"}, limit=2).more == 0


def test_an_empty_frame_keeps_its_heads():
    view = table(FRAME.iloc[:0], {"name": "Name", "self_ns": "Self"})
    assert [head.text for head in view.heads] == ["Name", "Self, µs"]
    assert view.rows == ()


def test_the_frame_is_left_as_it_was():
    before = FRAME.copy()
    table(FRAME, dict.fromkeys(FRAME.columns, "Head"), limit=1, unit_of="self_ns")
    pd.testing.assert_frame_equal(FRAME, before)


def test_a_long_name_is_cut_and_a_name_that_just_fits_is_not():
    assert clipped("x" * NAME_LENGTH) == "x" * NAME_LENGTH
    assert clipped("x" * (NAME_LENGTH + 1)) == "x" * (NAME_LENGTH - 1) + "…"


def test_a_name_loses_what_a_page_cannot_show():
    assert clipped("a\nb\u202ec\x1b[31m\ud800") == "a b\ufffdc\ufffd[31m\ufffd"
