import math

import pytest
from make_report import report_on
from make_trace import Event, annotation, kernel, launch, loop, make_trace, memcpy, op, step

from longpole.analyze.analyses.buckets import Buckets, buckets
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData
from longpole.reports.figures import figures
from longpole.reports.formats import plain
from longpole.reports.measures import measures_of
from longpole.reports.run_json import summary
from longpole.reports.svg import PDF


def working(start: float, end: float) -> list[Event]:
    """A step whose forward pass launches 40 of work; what is left of it waits for the next batch."""
    number = int(start) + 1
    loader = annotation("enumerate(DataLoader)#x.__next__", start + 60, end)
    return [annotation("forward", start, start + 50), launch(number, start, start + 5), loader]


def gemms(*starts: float, device: int = 0) -> list[Event]:
    return [kernel("gemm", start + 20, start + 60, correlation=int(start) + 1, device=device) for start in starts]


ONE_SLOW = make_trace(loop([100, 100, 100, 300], working), gemms(0, 100, 200, 300))


def means(found: Buckets) -> dict[str, float]:
    return {bucket: ns / 1000 for bucket, ns in zip(found.whole["bucket"], found.whole["mean_ns"], strict=True)}


def captions(trace: Trace) -> dict[str, str]:
    return {name: plain(text) for name, text in figures(report_on(trace), PDF)[1].items()}


def test_the_means_add_up_to_the_mean_step():
    found = buckets(ONE_SLOW)
    assert means(found) == {"compute:forward": 40, "idle:input_pipeline": 90, "idle:launch": 15, "idle:host": 5}
    assert found.step_ns == 150_000
    assert found.rows["p95_ns"].tolist() == [40_000, pytest.approx(210_000, abs=1), 15_000, 5_000]
    assert found.whole["step_share"].sum() == pytest.approx(1)


def test_a_slow_step_is_told_by_what_grew_most_in_it():
    slow = buckets(ONE_SLOW).slow
    assert slow.to_dict("records") == [
        {"name": "ProfilerStep#3", "step_ns": 300_000, "change_ns": 200_000, "label": "idle: waiting for data",
         "lead_change_ns": 200_000},
    ]  # fmt: skip


def test_of_several_gpus_the_whole_is_their_mean():
    found = buckets(make_trace([step(1, 0, 100)], [kernel("a", 0, 100), kernel("b", 0, 50, device=1)]))
    assert means(found) == {"compute:other": 75, "idle:other": 25}
    assert found.measures["step_buckets_ns"] == {
        0: {"compute:other": 100_000, "idle:other": 0}, 1: {"compute:other": 50_000, "idle:other": 50_000},
    }  # fmt: skip


def test_the_measure_of_one_gpu_is_by_bucket():
    parts = {"compute:other": 100_000}
    assert buckets(make_trace([step(1, 0, 100)], [kernel("a", 0, 100)])).measures == {
        "step_buckets_ns": parts, "between_steps_ns": 0, "step_period_ns": 100_000, "period_buckets_ns": parts,
    }  # fmt: skip


def test_the_measure_that_the_verdict_weighs_blames_nobody_for_work_that_is_launched():
    work = [kernel("a", 60, 100, correlation=1)]
    found = buckets(make_trace([step(1, 0, 100)], [launch(1, 0, 10)], work)).measures
    assert found["step_buckets_ns"] == {"compute:other": 40_000, "idle:launch": 20_000, "idle:host": 40_000}
    assert found["period_buckets_ns"] == {"compute:other": 40_000, "idle:launch": 20_000, "idle:other": 40_000}


def test_the_json_tells_the_buckets_in_microseconds_for_each_step_too():
    report = report_on(ONE_SLOW)
    assert measures_of(report)["step_buckets_us"]["compute:forward"] == 40
    assert [row["buckets_us"]["idle:input_pipeline"] for row in summary(report)["steps"]] == [40, 40, 40, 240]


def test_steps_that_may_lack_work_are_left_out_with_the_reason():
    trace = make_trace(loop([100, 100, 100], working), [launch(9000, 30, 35)], gemms(0, 100, 200))
    found = buckets(trace)
    assert (len(found.per_step), found.counted) == (1, 3)
    assert found.gaps == "launch calls without a record of their work: 1 of 4"
    assert [row["buckets_us"] is None for row in summary(report_on(trace))["steps"]] == [True, True, False]


def test_where_no_step_can_be_told_all_is_withheld():
    trace = make_trace(loop([100], working), [kernel("gemm", -3, 40, correlation=1)])
    found = buckets(trace)
    assert not found.told
    assert math.isnan(found.step_ns)
    assert "two clocks disagree" in found.withheld["step_buckets_ns"]
    report = report_on(trace)
    assert "buckets" not in figures(report, PDF)[0]
    assert summary(report)["measures"]["step_buckets_us"] is None


def test_without_gpu_work_there_is_nothing_to_tell():
    with pytest.raises(MissingData, match="no GPU work"):
        buckets(make_trace([step(1, 0, 100), op("aten::mm", 0, 50)]))


def test_the_caption_says_what_the_gpu_does_and_why_it_idles():
    assert captions(ONE_SLOW)["buckets"] == "Of a 150 us step the GPU computes 27 % and idles 73 % (60 % waiting for data)."
    assert captions(ONE_SLOW)["steps"] == (
        "4 steps take 100 us to 300 us; step 3 takes 200 us more than the median; "
        "what grew most is idle: waiting for data, +200 us."
    )


def test_the_caption_names_exposed_work_and_what_runs_after_the_last_step():
    work = [kernel("gemm", 0, 20), kernel("nccl", 20, 90), memcpy("HtoD", 90, 96), kernel("gemm", 96, 140)]
    assert captions(make_trace([step(1, 0, 100), op("a", 0, 150)], work))["buckets"] == (
        "Of a 100 us step the GPU computes 24 %, only communicates 70 %, only copies 6.0 % and never idles; "
        "it works another 40.0 us after the last step ends."
    )


def test_without_steps_the_bar_is_of_the_recording():
    text = captions(make_trace([op("a", 0, 100)], [kernel("gemm", 0, 60), kernel("gemm", 0, 20, device=1)]))["buckets"]
    assert text == "Of a 100 us recording each of 2 GPUs, on average, computes 40 % and idles 60 % (for other reasons)."


def test_what_passes_between_steps_is_a_measure_where_it_is_no_small_part():
    marks = [step(1, 0, 100), step(2, 150, 250)]
    found = buckets(make_trace(marks, [launch(1, 150, 155), kernel("a", 0, 100), kernel("b", 160, 250, correlation=1)])).measures
    assert (found["between_steps_ns"], found["step_period_ns"]) == (50_000, 150_000)
    assert found["period_buckets_ns"] == {"compute:other": 90_000, "idle:launch": 20_000, "idle:other": 40_000}
    close = [step(1, 0, 100), step(2, 104, 204)]
    assert buckets(make_trace(close, [kernel("a", 0, 100)])).measures["between_steps_ns"] == 0


def test_gpus_that_take_turns_are_a_measure():
    work = [kernel("a", 10, 50, correlation=1), kernel("b", 50, 90, device=1, correlation=2)]
    found = buckets(make_trace([step(1, 0, 100)], [launch(1, 0, 5), launch(2, 6, 10)], work)).measures
    assert found["gpu_turns_share"] == {0: 0, 1: 0.3}
