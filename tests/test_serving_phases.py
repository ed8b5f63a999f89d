import math

import pytest
from make_trace import Event, annotation, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.serving_phases import serving_phases
from longpole.analyze.step_marks import tokens_of
from longpole.capture.errors import MissingData

PREFILL = [annotation("step[EXTEND bs=2 toks=2000]", 0, 1000), launch(1, 10, 15)]
DECODE = [annotation("step[DECODE bs=30]", 1000, 1200), launch(2, 1005, 1010)]
MORE = [annotation("step[DECODE bs=20]", 1200, 1500), launch(3, 1205, 1210)]
WORK = [
    kernel("a", 100, 900, correlation=1), kernel("b", 1040, 1140, correlation=2), kernel("b", 1300, 1350, correlation=3),
]  # fmt: skip


def test_prefill_and_decode_are_told_apart():
    found = serving_phases(make_trace(PREFILL, DECODE, MORE, WORK))
    assert found.measures == {
        "steps_by_phase": {"prefill": 1, "decode": 2}, "phase_ns": {"prefill": 1_000_000, "decode": 500_000},
        "tokens_by_phase": {"prefill": 2000, "decode": 50}, "prefill_tokens_per_s": 2e6, "decode_tokens_per_s": 1e5,
        "gpu_busy_ns_by_phase": {"prefill": 800_000, "decode": 150_000},
        "gpu_busy_share_by_phase": {"prefill": 0.8, "decode": 0.3},
    }  # fmt: skip
    assert found.withheld == {}
    assert found.rows[["mean_ns", "median_ns", "max_ns"]].to_numpy().tolist() == [[1e6, 1e6, 1e6], [250_000, 250_000, 300_000]]


def test_gpu_time_belongs_to_the_phase_that_launched_it():
    late = [kernel("a", 100, 1050, correlation=1), kernel("b", 1050, 1150, correlation=2)]
    found = serving_phases(make_trace(PREFILL, DECODE, late))
    assert found.measures["gpu_busy_ns_by_phase"] == {"prefill": 950_000, "decode": 100_000}


def test_steps_that_only_launch_time_no_tokens():
    long = [kernel("a", 100, 900, correlation=1), kernel("b", 1040, 1440, correlation=2)]
    found = serving_phases(make_trace(PREFILL, DECODE, long))
    assert found.behind == ("decode",)
    assert math.isnan(found.measures["gpu_busy_share_by_phase"]["decode"])
    assert found.withheld == {"decode_tokens_per_s": "the GPU works longer on what decode steps launch than they last"}


def test_gpu_time_of_work_without_a_call_is_withheld():
    found = serving_phases(make_trace(DECODE, [kernel("burst", 1500, 1600)]))
    assert set(found.withheld) == {"decode_tokens_per_s", "gpu_busy_ns_by_phase", "gpu_busy_share_by_phase"}
    assert found.measures["tokens_by_phase"] == {"decode": 30}


def test_each_device_has_its_own_busy_time():
    found = serving_phases(make_trace(DECODE, [WORK[1], kernel("b", 1040, 1060, device=1, correlation=2)]))
    assert found.measures["gpu_busy_ns_by_phase"] == {0: {"decode": 100_000}, 1: {"decode": 20_000}}


def test_without_a_gpu_the_marks_still_tell_tokens():
    found = serving_phases(make_trace([annotation("step[DECODE bs=30]", 0, 300), op("aten::mm", 0, 100)]))
    assert found.measures == {
        "steps_by_phase": {"decode": 1}, "phase_ns": {"decode": 300_000}, "tokens_by_phase": {"decode": 30},
        "decode_tokens_per_s": 1e5,
    }  # fmt: skip


def test_one_step_that_does_not_tell_its_tokens_leaves_its_phase_without():
    marks: list[Event] = [annotation("step[EXTEND bs=2 toks=8]", 0, 10), annotation("step[EXTEND bs=2]", 10, 20)]
    found = serving_phases(make_trace(marks))
    assert math.isnan(found.measures["tokens_by_phase"]["prefill"])
    assert found.withheld == {"prefill_tokens_per_s": "the marks of prefill steps do not tell their tokens"}


@pytest.mark.parametrize(
    ("name", "phase", "tokens"),
    [
        ("step[EXTEND bs=2 toks=2048]", "prefill", 2048),
        ("step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]", "prefill", 12),
        ("step[DECODE bs=32 g_sq=32 g_sqsq=32 g_sqsk=50923 g_sk=50923]", "decode", 32),
        ("step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]", "decode", 2),
        ("step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 g_sq=1 g_sk=12]", "mixed", 6),
        ("step[TARGET_VERIFY bs=4]", "target_verify", None),  # the number of drafts is not in the name
    ],
)
def test_tokens_as_the_marks_of_sglang_tell_them(name: str, phase: str, tokens: int | None):
    assert tokens_of(name, phase) == tokens or (tokens is None and math.isnan(tokens_of(name, phase)))


def test_a_training_run_has_no_serving_steps():
    with pytest.raises(MissingData, match="no serving steps"):
        serving_phases(make_trace([step(1, 0, 100)]))
