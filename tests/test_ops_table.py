"""The operator table, column for column as torch prints it; tests/test_owner_example.py compares with torch itself."""

from pathlib import Path

import pytest
from make_report import gpu, training, write
from make_trace import allocation, kernel, launch, make_trace, op

from longpole.analyze.analyses.op_table import op_table, op_table_by_shape
from longpole.reports.ops_table import SORT_KEYS, torch_memory, torch_table, torch_time

TIMES = [op("outer", 0, 100), op("inner", 10, 40), op("inner", 50, 60), op("other", 200, 250)]  # self: 60, 40, 50
HEADS = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]


def lines(*events, sort: str | None = None, limit: int = 100) -> list[str]:
    return torch_table(op_table(make_trace(*events)), sort, limit).splitlines()


def names(*events, sort: str | None = None, limit: int = 100) -> list[str]:
    table = lines(*events, sort=sort, limit=limit)
    width = len(table[0].split()[0])
    return [line[:width].strip() for line in table[3:] if line[:1] == " "]


def test_a_small_table_whole():
    rule = "---------  " + "------------  " * 6
    assert lines(TIMES, sort="cpu_time_total") == [
        rule,
        "     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  ",
        rule,
        "    outer        40.00%      60.000us        66.67%     100.000us     100.000us             1  ",
        "    other        33.33%      50.000us        33.33%      50.000us      50.000us             1  ",
        "    inner        26.67%      40.000us        26.67%      40.000us      20.000us             2  ",
        rule,
        "Self CPU time total: 150.000us",
    ]


def test_without_a_key_rows_stand_in_the_order_of_first_start():
    assert names(TIMES) == ["outer", "inner", "other"]


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("count", ["inner", "outer", "other"]),
        ("cpu_time", ["outer", "other", "inner"]),
        ("cpu_time_total", ["outer", "other", "inner"]),
        ("self_cpu_time_total", ["outer", "other", "inner"]),
    ],
)
def test_a_key_sorts_the_largest_first(key: str, order: list[str]):
    assert names(TIMES, sort=key) == order


def test_equal_rows_keep_the_order_of_first_start():
    order = [f"op{i * 37 % 100}" for i in range(100)]
    even_longer = [op(name, 100 * i, 100 * i + (60 if i % 2 else 50)) for i, name in enumerate(order)]
    assert names(even_longer, sort="cpu_time_total") == order[1::2] + order[::2]


def test_the_limit_cuts_rows_but_not_the_totals_and_minus_one_shows_all():
    assert names(TIMES, sort="count", limit=1) == ["inner"]
    assert lines(TIMES, sort="count", limit=1)[-1] == "Self CPU time total: 150.000us"
    assert "26.67%" in lines(TIMES, sort="count", limit=1)[3]
    assert len(names(TIMES, limit=-1)) == 3
    assert names(TIMES, limit=0) == []


def test_device_columns_stand_between_the_cpu_times_and_the_calls():
    table = lines(gpu(), sort="cuda_time_total")
    shown = [head.strip() for head in table[1].split("  ") if head.strip()]
    assert shown == [*HEADS[:6], "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg", "# of Calls"]
    row = next(line.split() for line in table if "aten::mm" in line)
    assert row[-5:] == ["2.400ms", "88.89%", "2.400ms", "400.000us", "6"]  # of 2.7 ms in all: the copy has no operator
    assert table[-1] == "Self CUDA time total: 2.700ms"


def test_cuda_keys_are_the_old_names_of_device_keys():
    for key in [key for key in SORT_KEYS if "device" in key]:
        old = key.replace("device", "cuda")
        assert names(gpu(), sort=old) == names(gpu(), sort=key)
    assert names(gpu(), sort="self_cuda_time_total")[0] == "aten::mm"


def test_memory_columns_appear_with_allocations_and_sort():
    events = [op("small", 0, 10), allocation(5, 512), op("large", 20, 30), allocation(25, 3 << 20), allocation(28, -1024)]
    table = lines(events, sort="self_cpu_memory_usage")
    assert [h.strip() for h in table[1].split("  ") if h.strip()] == [*HEADS[:6], "CPU Mem", "Self CPU Mem", "# of Calls"]
    assert table[3].split()[0] == "large"
    assert "3.00 MB" in table[3]
    assert "512 B" in table[4]


def test_shapes_have_a_column_of_their_own():
    shaped = [
        op("aten::mm", 0, 10, **{"Input Dims": [[2, 3], [3, 4]]}),
        op("aten::mm", 20, 50, **{"Input Dims": [[5, 3], [3, 4]]}),
    ]
    table = torch_table(op_table_by_shape(make_trace(shaped)), "cpu_time_total").splitlines()
    assert table[1].split("  ")[-2].strip() == "Input Shapes"
    assert [line.split("1  ")[-1].strip() for line in table[3:5]] == ["[[5, 3], [3, 4]]", "[[2, 3], [3, 4]]"]


def test_a_long_name_is_cut_where_torch_cuts_it():
    rows = lines([op("x" * 51, 0, 10), op("y" * 52, 20, 25)], sort="cpu_time_total")
    assert rows[0].split()[0] == "-" * 55
    assert rows[3][:55] == " " * 4 + "x" * 51
    assert rows[4][:55] == "y" * 52 + "..."


def test_percentages_of_nothing_are_not_a_number():
    table = lines([kernel("k", 0, 10, correlation=1), launch(1, 0, 0)])
    assert "NaN" in table[3]


def test_control_characters_in_a_name_do_not_reach_the_terminal():
    text = torch_table(op_table(make_trace([op("a\x1b[2Jb\nc", 0, 10)])))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize(
    ("us", "text"), [(0, "0.000us"), (999.9994, "999.999us"), (1000, "1.000ms"), (1_500_000, "1.500s"), (61_000_000, "61.000s")]
)
def test_times_are_printed_as_torch_prints_them(us: float, text: str):
    assert torch_time(us) == text


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (-512, "-512 B"), (1024, "1.00 KB"), (-(3 << 20), "-3.00 MB"), (5 << 30, "5.00 GB")]
)
def test_sizes_are_printed_as_torch_prints_them(n: int, text: str):
    assert torch_memory(n) == text


def test_every_key_sorts_every_trace(tmp_path: Path):
    from longpole.analyze.load import load

    for events in (training(), gpu()):
        table = op_table(load(write(tmp_path / "t.json", events)))
        for key in SORT_KEYS:
            assert len(torch_table(table, key, -1).splitlines()) >= len(table.rows) + 5
