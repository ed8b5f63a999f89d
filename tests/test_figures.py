"""Captions state what the data say, and every chart shows it."""

from dataclasses import replace
from pathlib import Path

import pytest
from make_report import KINDS, diff_report_of, reports, run_report_of, training, training_step, write
from make_trace import op, step

from longpole.reports.figures import figures
from longpole.reports.formats import plain
from longpole.reports.svg import HTML, PDF


def captions(kind: str) -> dict[str, str]:
    return {name: plain(text) for name, text in figures(reports()[kind], HTML)[1].items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_has_a_caption_words_for_those_who_do_not_see_it_and_its_name_as_id(kind: str):
    for medium in (HTML, PDF):
        charts, texts = figures(reports()[kind], medium)
        assert charts.keys() == texts.keys()
        assert all(name == chart.id and chart.alt and chart.svg.startswith("<svg") for name, chart in charts.items())
        assert all(text.endswith(".") for text in texts.values())


def test_the_step_bar_says_which_part_is_largest():
    assert captions("trace")["step"] == "Of a 955 us step, 400 us is sampling."
    assert captions("after")["step"] == "Of a 465 us step, 100 us is act."


def test_without_phases_the_bar_is_made_of_operators():
    assert captions("no steps")["step"] == "Of a 1.00 ms recording, 600 us is aten::mm."
    assert "steps" not in captions("no steps")


def test_on_a_gpu_run_the_step_is_that_of_the_host_and_the_gpu_has_a_bar_of_its_own():
    texts = captions("gpu")
    assert texts["step"] == "Of a 900 us step on the host, 800 us is outside operators."
    assert texts["gpu"].startswith("Of 2.70 ms of kernels and copies, 1.80 ms is gemm<")


def test_the_columns_say_how_far_the_steps_spread():
    assert captions("trace")["steps"] == "12 steps take 940 us to 970 us; none is an outlier."


def test_an_outlier_is_counted_in_the_caption_and_named_in_the_chart(tmp_path: Path):
    slow = [*training(), step(20, 20_000, 22_000), *training_step(21, 22_100)]
    charts, texts = figures(run_report_of(write(tmp_path / "slow.json", slow)), HTML)
    assert plain(texts["steps"]).endswith("2.00 ms; 1 of them takes far longer than the median.")
    assert "step 20: 2.00\u202fms" in charts["steps"].svg


def test_a_diff_says_what_changed_most():
    texts = captions("diff")
    assert texts["water"] == "The largest change is sampling, -340 us; the whole step changes by -490 us."
    assert texts["dots"] == "The two sets of steps do not overlap: the slowest step after is faster than the fastest before."
    assert texts["pair"] == "After the change, act is the largest phase: 22 % of the step."  # 100 of 465
    # less: the reads, both updates, time outside; more: index and the fused update
    assert texts["ops"] == "Operators by their change: less time than before for 4, more for 2 of 9."


def test_a_slower_run_is_said_to_be_slower(tmp_path: Path):
    fast, slow = write(tmp_path / "fast.json", training(after=True)), write(tmp_path / "slow.json", training())
    texts = {name: plain(text) for name, text in figures(diff_report_of(fast, slow), HTML)[1].items()}
    assert "+340 us; the whole step changes by +490 us" in texts["water"]
    assert texts["dots"].endswith("the slowest step before is faster than the fastest after.")


def test_a_run_against_itself_overlaps():
    texts = captions("gpu diff")
    assert texts["dots"] == "The two sets of steps overlap."
    assert texts["ops"] == "GPU work of operators by their change: less time than before for 0, more for 0 of 1."


def test_many_operators_become_a_few_and_the_rest(tmp_path: Path):
    events = [op(f"aten::op{i}", 100 * i, 100 * i + 50 + i) for i in range(9)]
    report = run_report_of(write(tmp_path / "many.json", events))
    chart = figures(report, HTML)[0]["step"]
    assert "other operators" in chart.svg
    assert "aten::op8" in chart.svg
    assert "aten::op0<" not in chart.svg


def test_the_same_report_gives_the_same_charts():
    report = reports()["diff"]
    assert figures(report, PDF) == figures(replace(report), PDF)


def test_times_by_name_make_a_bar_each_and_one_name_alone_makes_none():
    assert captions("jax") == {
        "device": "Of 900 us of device time, 500 us is fusion.1.",
        "host": "Of 950 us of host time, 650 us is block_until_ready.",
    }
    assert captions("pairs") == {"host": "Of 100 us of host time, 50.0 us is inner."}
    assert captions("snapshot") == {"ops": "Of 10.0 ms of self CPU time, 6.00 ms is aten::mm."}
    assert captions("gpu snapshot")["device"] == "Of 5.00 ms of device time, 4.00 ms is gemm<...>."


def test_a_diff_of_totals_shows_the_changes_without_saying_faster():
    chart = figures(reports()["snapshot diff"], HTML)[0]["totals"]
    assert "\u2190 less" in chart.svg
    assert "faster" not in chart.svg
    assert captions("snapshot diff")["totals"] == "The largest change of host time is aten::mm, -200 us."
