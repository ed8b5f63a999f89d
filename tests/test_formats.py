import math

import numpy as np
import pytest

from longpole.reports.formats import Unit, by_suffix, choose_unit, count, number, plain, ratio, share, size, time


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("step_ns", 3_240_000, "3.24 ms"),
        ("step_ns", 412_000_000, "412 ms"),
        ("launch_ns", 18_300, "18.3 µs"),
        ("gap_ns", 412, "0.412 µs"),
        ("run_ns", 1_234_000_000_000, "1,234 s"),
        ("idle_ns", 0, "0 ms"),
        ("change_ns", -3_240_000, "−3.24 ms"),
        ("idle_share", 0.314, "31 %"),
        ("idle_share", 0.0314, "3.1 %"),
        ("idle_share", 0.0996, "10 %"),
        ("peak_bytes", 48 * 2**30, "48.0 GiB"),
        ("peak_bytes", 512, "512 B"),
        ("pinned_gbps", 20.0, "20.0 GB/s"),
        ("kernel_count", 1234, "1,234"),
        ("kernel_count", 12.5, "12.5"),
        ("speedup_ratio", 1.5234, "1.52×"),
        ("name", "aten::mm_ns", "aten::mm_ns"),
        ("rank", 3, "3"),
        ("loss", 0.12345, "0.123"),
        ("compiled", True, "yes"),
        ("idle_ns", None, "–"),
        ("idle_share", math.nan, "–"),
        ("idle_ns", np.int64(3_240_000), "3.24 ms"),
    ],
)
def test_the_suffix_of_a_name_decides_how_its_value_looks(name: str, value: object, text: str):
    assert plain(by_suffix(name, value)) == plain(text)


def test_units_follow_a_narrow_space_and_minus_is_a_real_minus():
    assert time(-3_240_000) == "\u22123.24\u202fms"
    assert share(0.314) == "31\u202f%"


def test_what_would_round_up_to_a_thousand_takes_the_next_unit():
    assert plain(time(999_400)) == "999 us"
    assert plain(time(999_600)) == "1.00 ms"
    assert plain(time(999_600_000)) == "1.00 s"


def test_a_column_has_one_unit_and_one_number_of_decimals():
    unit = choose_unit(3_200_000)
    assert unit == Unit("ms", 1e6, 2)
    assert [plain(time(ns, unit)) for ns in (1_900_000, 60_000, 0)] == ["1.90 ms", "0.06 ms", "0.00 ms"]
    assert choose_unit(98_000_000) == Unit("ms", 1e6, 1)
    assert choose_unit(500).name == "µs"


def test_a_sign_stands_on_every_change_but_not_on_zero():
    assert [plain(number(v, 1, sign=True)) for v in (2, -2, 0.04, -0.04)] == ["+2.0", "-2.0", "0.0", "0.0"]
    assert plain(time(1_900_000, sign=True)) == "+1.90 ms"


def test_sizes_are_binary_and_thousands_have_commas():
    assert plain(size(1536)) == "1.50 KiB"
    assert plain(size(5 * 2**50)) == "5,120 TiB"
    assert count(1_234_567) == "1,234,567"
    assert number(math.inf) == "–"


def test_chances_have_two_digits_that_count():
    assert [by_suffix("p_chance", p) for p in (0.0286, 0.05, 0.0022, 0.0001)] == ["0.029", "0.05", "0.0022", "0.0001"]


def test_plain_text_is_ascii():
    text = plain(f"{time(-18_300)}, {share(0.5)}, {ratio(1.5)}, {by_suffix('x_ns', None)}")
    assert text == "-18.3 us, 50 %, 1.50x, -"
    assert text.isascii()
