"""The JSON that tools read: keys, units, denominators, and the difference between null, withheld and absent."""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from make_report import H200, KINDS, STEPS, diff_report_of, gpu, reports, run_report_of, training, without_steps, write
from make_trace import kernel, launch, op, step

from longpole.reports.measures import json_name, pct, told, us
from longpole.reports.render_json import render_json

SUMMARY_KEYS = [
    "schema", "source", "coverage", "warnings", "withheld", "measures", "ops", "kernels", "steps", "devices", "streams", "phases",
    "idle", "ranks", "findings", "verdict",
]  # fmt: skip
ROW_KEYS = {
    "ops": "name device_type is_user_annotation input_shapes count self_cpu_us cpu_us self_device_us device_us cpu_us_per_call "
    "device_us_per_call self_cpu_pct cpu_pct self_device_pct",
    "kernels": "name short_name cat kernel_class tensor_cores device count total_us mean_us min_us max_us share_pct",
    "steps": "index name rank phase start_us step_us partial outlier",
    "devices": "device rank gpu_busy_us gpu_idle_us gpu_busy_pct gpu_span_us kernel_count kernel_sum_us compute_union_us "
    "comm_union_us copy_union_us overlap_us comm_exposed_us copy_exposed_us",
    "streams": "device stream kernel_count sum_us busy_us gap_us",
    "phases": "phase us_per_step share_pct",
    "idle": "cause us share_pct device rank",
    "findings": "id problem advice saving_us_per_step saving_low_us saving_high_us saving_unprofiled_us confidence evidence",
}
RUNS = [kind for kind in KINDS if "diff" not in kind]
DIFFS = [kind for kind in KINDS if "diff" in kind]


def refused(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def read(content: bytes) -> Any:
    return json.loads(content.decode("utf-8"), parse_constant=refused)


@cache
def of(kind: str) -> Any:
    return read(render_json(reports()[kind]))


def of_events(path: Path, events: list[dict[str, Any]], **top_level: Any) -> Any:
    return read(render_json(run_report_of(write(path / "made.json", events, **top_level))))


def row(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (found,) = [r for r in rows if wanted.items() <= r.items()]
    return found


@pytest.mark.parametrize("kind", RUNS)
def test_a_summary_has_the_published_keys_and_every_row_too(kind: str):
    summary = of(kind)
    assert list(summary) == SUMMARY_KEYS
    assert summary["schema"] == "longpole.summary/1"
    for table, keys in ROW_KEYS.items():
        assert all(set(keys.split()) <= set(r) for r in summary[table])
    assert set(summary["source"]) == {"paths", "producer", "torch", "rank_ids", "world_size", "devices", "files", "origin_ns"}
    assert set(summary["verdict"]) == {"bound", "sentence", "confidence", "top"}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_finite_and_no_time_is_finer_than_a_nanosecond(kind: str):
    def check(key: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                check(key if key == "step_self_us" else name, inner)
        elif isinstance(value, list):
            for inner in value:
                check(key, inner)
        elif isinstance(value, float):
            assert math.isfinite(value)
            assert not key.endswith("_us") or round(value, 3) == value

    check("", of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_report_gives_the_same_bytes_and_ends_with_a_line_break(kind: str):
    content = render_json(reports()[kind])
    assert content == render_json(reports()[kind])
    assert content.endswith(b"}\n")


def test_microseconds_keep_the_nanosecond_and_the_unknown_is_null():
    assert us(1_234_567) == 1234.567
    assert us(math.nan) is None
    assert pct(0.123456789) == 12.3457
    assert pct(math.nan) is None


def test_the_source_names_the_file_by_its_base_name_and_digest():
    source = of("gpu")["source"]
    assert source["paths"] == ["gpu.json"]
    assert source["files"][0]["name"] == "gpu.json"
    assert len(source["files"][0]["sha256"]) == 64
    assert source["devices"] == ["NVIDIA H200"]
    assert (source["rank_ids"], source["world_size"], source["torch"]) == ([0], None, None)
    assert source["origin_ns"] == 1_700_000_000_000_000_000 + 5_000_000_000
    assert of("bundle")["source"]["torch"] == "2.13.0+cpu"
    assert of("bundle")["source"]["paths"] == ["before"]


def test_the_fates_of_events_add_up(tmp_path: Path):
    broken = [{**op("aten::mm", 0, 10), "dur": -1}, op("aten::mm", 20, 30), {"ph": "M", "name": "process_name", "pid": 1}, {}]
    summary = of_events(tmp_path, broken)
    coverage = summary["coverage"]
    assert coverage["events_total"] == 3  # {} is none
    assert (coverage["events_used"], coverage["events_ignored"], coverage["events_dropped"]) == (1, 1, 1)
    assert coverage["events_repaired_or_dropped"] == 1
    assert coverage["events_good"] == coverage["events_used"]
    assert sum(coverage["events_by_cat"].values()) == 3
    negative, empty = summary["warnings"]
    message = "Events with a negative duration: 1; left out."
    assert negative == {"code": "negative_dur", "count": 1, "message": message, "harmless": False}
    assert (empty["code"], empty["harmless"]) == ("empty_events", True)


def test_measures_of_a_training_run():
    measures = of("trace")["measures"]
    expected = {
        "window_us": 13_320, "step_count": 12, "step_mean_us": 955, "step_median_us": 955, "step_p95_us": 970, "step_max_us": 970,
        "outlier_steps": [], "mode": "training", "top_bottleneck": "host", "outside_ops_us": 365, "ops_per_step": 72,
        "tiny_ops_per_step": 60, "saving_upper_bound_us": 400,
    }  # fmt: skip
    assert expected.items() <= measures.items()
    assert measures["step_self_us"]["aten::select"] == 12 * 240
    assert measures["step_mean_low_us"] < 955 < measures["step_mean_high_us"]


def test_a_bundle_adds_the_steps_without_the_profiler():
    measures = of("bundle")["measures"]
    assert measures["unprofiled_step_median_us"] == 510
    assert measures["unprofiled_step_count"] == 3
    assert measures["samples_per_s"] == pytest.approx(64 / 510e-6, abs=0.001)
    first = of("bundle")["findings"][0]
    assert first["saving_unprofiled_us"] == pytest.approx(first["saving_us_per_step"] * 510 / 955, abs=0.001)


def test_what_was_not_captured_is_absent_and_not_null():
    summary = of("trace")
    assert not {"unprofiled_step_median_us", "samples_per_s", "gpu_busy_us", "gpu_idle_us"} & set(summary["measures"])
    assert summary["withheld"] == {}
    assert (summary["kernels"], summary["devices"], summary["streams"]) == ([], [], [])
    assert [f["saving_unprofiled_us"] for f in summary["findings"]] == [None, None]


def test_measures_of_a_gpu_run_with_percentages_of_the_window():
    measures = of("gpu")["measures"]
    expected = {
        "window_us": 5900, "gpu_busy_us": 2700, "gpu_idle_us": 3200, "gpu_busy_pct": pct(27 / 59), "gpu_idle_pct": pct(32 / 59),
        "gpu_span_us": 5450, "kernel_count": 12, "kernel_sum_us": 2400, "memcpy_count": 6, "memcpy_sum_us": 300,
    }  # fmt: skip
    assert expected.items() <= measures.items()
    device = row(of("gpu")["devices"], device=0)
    assert (device["gpu_busy_us"], device["gpu_idle_us"], device["rank"]) == (2700, 3200, 0)
    assert (device["compute_union_us"], device["comm_exposed_us"], device["copy_exposed_us"]) == (2400, 0, 300)
    stream = {"device": 0, "stream": 7, "kernel_count": 12, "sum_us": 2700, "busy_us": 2700, "gap_us": 2750}
    assert row(of("gpu")["streams"], stream=7) == stream


def test_several_devices_make_an_object_by_device(tmp_path: Path):
    second = [
        {**e, "args": {**e["args"], "device": 1}} if e["cat"] in ("kernel", "gpu_memcpy") and e["ts"] > 3000 else e for e in gpu()
    ]
    summary = of_events(tmp_path, second)
    assert summary["measures"]["gpu_busy_us"] == {"0": 1350, "1": 1350}
    assert [d["device"] for d in summary["devices"]] == [0, 1]


def test_what_cannot_be_trusted_is_null_with_its_reason_wherever_it_stands(tmp_path: Path):
    early = [{**e, "ts": e["ts"] - 200} if e["name"].startswith("void gemm") else e for e in gpu()]
    summary = of_events(tmp_path, early, **H200)
    for measure in ("gpu_busy_pct", "gpu_idle_us", "gpu_idle_pct"):
        assert summary["measures"][measure] is None
        assert "clocks disagree" in summary["withheld"][measure]
    assert summary["devices"][0]["gpu_busy_pct"] is None
    assert summary["devices"][0]["gpu_idle_us"] is None
    assert summary["measures"]["gpu_busy_us"] == 2700


def test_a_lower_bound_stays_a_number_and_idle_time_is_withheld(tmp_path: Path):
    lost = [e for e in gpu() if not (e["cat"] == "kernel" and e["args"]["correlation"] == 51)]
    summary = of_events(tmp_path, lost, **H200)
    assert summary["measures"]["gpu_busy_pct"] == pct(2400 / 5900)
    assert summary["measures"]["gpu_idle_us"] is None
    assert "launch calls without a record of their work: 1 of 12" in summary["withheld"]["gpu_idle_us"]
    assert "gpu_busy_pct" not in summary["withheld"]


@pytest.mark.parametrize("kind", RUNS)
def test_every_withheld_measure_is_null_and_every_null_is_withheld(kind: str):
    summary = of(kind)
    nulls = {name for name, value in summary["measures"].items() if value is None} - {"top_bottleneck"}
    assert nulls == set(summary["withheld"])


def test_operators_are_those_of_key_averages_by_self_time():
    ops = of("trace")["ops"]
    assert [r["self_cpu_us"] for r in ops] == sorted((r["self_cpu_us"] for r in ops), reverse=True)
    reads = row(ops, name="aten::select")
    assert (reads["count"], reads["cpu_us"], reads["cpu_us_per_call"]) == (720, 2880, 4)
    assert reads["self_cpu_pct"] == pct(2880 / sum(r["self_cpu_us"] for r in ops))
    assert reads["input_shapes"] is None
    assert sum(r["self_cpu_pct"] for r in ops) == pytest.approx(100, abs=0.01)
    assert row(ops, name="ProfilerStep*")["is_user_annotation"] is True
    keys = [(r["name"], r["device_type"], r["is_user_annotation"], r["input_shapes"]) for r in ops]
    assert len(set(keys)) == len(keys)


def test_device_time_of_operators_and_kernels():
    summary = of("gpu")
    assert row(summary["ops"], name="aten::mm")["self_device_us"] == 2400
    assert row(summary["ops"], name="aten::mm")["self_device_pct"] == pct(24 / 27)
    kernels = summary["kernels"]
    assert [(k["total_us"], k["count"], k["mean_us"], k["share_pct"]) for k in kernels] == [
        (1800, 6, 300, pct(18 / 27)), (600, 6, 100, pct(6 / 27)), (300, 6, 50, pct(3 / 27)),
    ]  # fmt: skip
    assert [(k["cat"], k["kernel_class"]) for k in kernels] == [
        ("kernel", "gemm"),
        ("kernel", "other"),
        ("gpu_memcpy", "copy"),
    ]
    assert kernels[0]["name"] == "void gemm<float, 128>(float*)"
    assert kernels[0]["short_name"] == "gemm<…>"


def test_steps_are_numbered_by_start_and_positions_are_relative_to_the_window():
    steps = of("trace")["steps"]
    assert len(steps) == STEPS + 1
    assert [s["index"] for s in steps] == list(range(STEPS + 1))
    assert (steps[2]["name"], steps[2]["start_us"], steps[2]["step_us"]) == ("ProfilerStep#2", 2200, 960)
    assert [s["partial"] for s in steps] == [False] * STEPS + [True]
    assert of("trace")["coverage"]["steps_partial"] == 1
    assert of("trace")["coverage"]["window"] == "steps"


def test_outliers_are_named_by_the_number_in_the_name_of_the_step(tmp_path: Path):
    events = [step(i, 1000 * i, 1000 * i + (900 if i == 4 else 300)) for i in range(3, 9)] + [op("aten::mm", 3010, 3020)]
    summary = of_events(tmp_path, events)
    assert summary["measures"]["outlier_steps"] == [4]
    assert [s["index"] for s in summary["steps"] if s["outlier"]] == [1]


def test_a_recording_without_steps_is_one_window(tmp_path: Path):
    summary = of("no steps")
    assert summary["coverage"]["window"] == "trace"
    assert [(s["start_us"], s["step_us"]) for s in summary["steps"]] == [(0, 1000)]


def test_on_a_gpu_each_step_has_its_device_time():
    steps = of("gpu")["steps"]
    keys = "gpu_busy_us gpu_idle_us compute_us comm_exposed_us copy_exposed_us kernel_count"
    assert [steps[1][key] for key in keys.split()] == [450, 450, 400, 0, 50, 2]
    assert of("gpu")["measures"]["per_step_gpu_us"] == [450] * 6
    assert "gpu_busy_us" not in of("trace")["steps"][0]


def test_with_two_gpus_a_step_tells_each_by_its_id(tmp_path: Path):
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 20, 30, device=1, correlation=1)]
    summary = of_events(tmp_path, [step(1, 0, 100), launch(1, 10, 15), *work])
    assert summary["steps"][0]["gpu_busy_us"] == {"0": 40, "1": 10}
    assert summary["steps"][0]["kernel_count"] == {"0": 1, "1": 1}
    assert {(r["device"], r["rank"]) for r in summary["idle"]} == {(0, 0), (1, 0)}


def test_the_causes_of_idle_time_add_up_to_it():
    summary = of("gpu")
    assert sum(r["us"] for r in summary["idle"]) == summary["measures"]["gpu_idle_us"] == 5900 - 2700
    assert sum(r["share_pct"] for r in summary["idle"]) == pytest.approx(100)
    assert of("trace")["idle"] == []


def test_phases_add_up_to_the_step():
    phases = {p["phase"]: p for p in of("trace")["phases"]}
    assert {name: p["us_per_step"] for name, p in phases.items()} == {
        "act": 100, "environment": 50, "sampling": 400, "forward": 70, "loss": 15, "backward": 80, "optimizer": 200, "other": 40,
    }  # fmt: skip
    assert phases["sampling"]["share_pct"] == pct(400 / 955)


def test_findings_are_ranked_and_carry_their_evidence():
    findings = of("trace")["findings"]
    savings = [f["saving_us_per_step"] for f in findings]
    assert savings == sorted(savings, reverse=True)
    assert all(f["saving_low_us"] <= f["saving_us_per_step"] <= f["saving_high_us"] for f in findings)
    assert of("trace")["verdict"]["top"] == findings[0]["id"] == "repeated_ops:sampling"
    first = findings[0]
    assert (first["saving_us_per_step"], first["saving_low_us"], first["saving_high_us"]) == (393.333, 236, 400)
    assert row(first["evidence"], label="operator calls per step in the loop") == {
        "label": "operator calls per step in the loop", "value": 60, "unit": "count", "rank": 0, "start_us": None, "end_us": None,
    }  # fmt: skip
    assert row(first["evidence"], unit="us", value=240)
    assert "60 times a step" in first["problem"]


@pytest.mark.parametrize("kind", DIFFS)
def test_a_diff_has_the_published_keys(kind: str):
    diff = of(kind)
    assert diff["schema"] == "longpole.diff/1"
    keys = [
        "schema",
        "sources",
        "comparable",
        "compared_anyway",
        "runs",
        "steps",
        "left_out",
        "step",
        "unprofiled",
        "rows",
        "device_time_by_op",
        "calls",
        "findings",
        "outcome",
        "withheld",
        "verdict",
        "now",
    ]
    assert list(diff) == keys
    keys = {"before_us", "after_us", "change_us", "change_pct", "ci_low_us", "ci_high_us", "speedup", "verdict"}
    assert keys <= set(diff["step"])
    assert diff["step"]["verdict"] in ("faster", "slower", "within_noise", "too_few_steps", None)
    told = diff["comparable"]["comparable"] and not diff["withheld"]
    assert (diff["step"]["verdict"] is None) is not told
    change = {"before_us", "after_us", "change_us", "ci_low_us", "ci_high_us", "status"}
    more = {"kernel": {"before_count", "after_count"}, "module": {"time"}}
    named = {"name", "names_before", "names_after"}
    for r in diff["rows"]:
        if r["kind"] == "memory":
            assert set(r) == {"kind", "name", "status", *(key.replace("_us", "_bytes") for key in change)}
        elif r["status"] == "totals_only":
            assert set(r) == {"kind", *named, *change}
        else:
            assert set(r) - more.get(r["kind"], set()) == {"kind", *named, *change}
        assert r["kind"] in ("phase", "op", "kernel", "module", "memory")
        assert r["status"] in ("changed", "within_noise", "added", "removed", "too_few_steps", "totals_only")
    assert all(set(r) == {*named, *change, "kernels_removed", "kernels_added"} for r in diff["device_time_by_op"])
    selves = {"before_self_us", "after_self_us", "self_change_us"}
    assert all(set(call) == {"name", "path", "was", "inside", *change, *selves} for call in diff["calls"])
    changes = [abs(r["change_us"]) for r in diff["rows"] if r["kind"] != "memory"]
    assert changes == sorted(changes, reverse=True)
    predicted = {"predicted_us", "predicted_low_us", "predicted_high_us"}
    for finding in diff["findings"]:
        assert set(finding) == {"id", "status", *predicted, "predicted_unprofiled_us", "saving_now_us"}
        assert finding["status"] in ("gone", "smaller", "still_there", "new")
    if diff["outcome"]:
        assert set(diff["outcome"]) == {"ids", "word", "sentence", "profiled", "unprofiled", "phase_change_us"}
        assert set(diff["outcome"]["profiled"] or ()) <= {*predicted, "measured_us", "ci_low_us", "ci_high_us", "word"}


def test_a_diff_tells_what_was_predicted_beside_what_was_measured():
    diff = of("diff")
    assert [(f["id"], f["status"]) for f in diff["findings"]] == [("repeated_ops:sampling", "gone"), ("optimizer_step", "gone")]
    profiled, unprofiled = diff["outcome"]["profiled"], diff["outcome"]["unprofiled"]
    assert (profiled["measured_us"], profiled["word"], diff["outcome"]["word"]) == (490.0, "as_predicted", "as_predicted")
    joint = of("bundle")["measures"]["together"][0]
    assert profiled["predicted_us"] == pytest.approx(joint["step_us"] - joint["step_after_us"], abs=0.001)
    assert (unprofiled["measured_us"], unprofiled["ci_low_us"], unprofiled["word"]) == (255.0, None, "cannot_be_told")


def test_a_diff_without_findings_has_no_outcome():
    assert (of("snapshot diff")["findings"], of("snapshot diff")["outcome"]) == ([], None)


def test_a_diff_is_per_step_and_says_what_came_and_went():
    diff = of("diff")
    assert diff["steps"] == {"base": 12, "new": 12}
    expected = {"before_us": 955, "after_us": 465, "change_us": -490, "change_pct": pct(-490 / 955), "verdict": "faster"}
    assert expected.items() <= diff["step"].items()
    assert diff["step"]["speedup"] == round(955 / 465, 4)
    assert diff["step"]["ci_low_us"] < -490 < diff["step"]["ci_high_us"] < 0
    assert diff["unprofiled"]["change_us"] == -255
    assert diff["unprofiled"]["ci_low_us"] is None  # three steps a side
    assert row(diff["rows"], kind="phase", name="sampling")["change_us"] == -340
    assert row(diff["rows"], kind="op", name="aten::select")["status"] == "removed"
    assert row(diff["rows"], kind="op", name="aten::index")["status"] == "added"
    assert row(diff["rows"], kind="op", name="aten::linear")["status"] == "within_noise"
    for kind in ("phase", "op"):
        assert sum(r["change_us"] for r in diff["rows"] if r["kind"] == kind) == pytest.approx(-490, abs=0.01)
    assert of("bare diff")["unprofiled"] is None


def test_a_run_against_itself_has_no_changed_row():
    assert {r["status"] for r in of("gpu diff")["rows"]} == {"within_noise"}
    assert of("gpu diff")["step"]["change_us"] == 0
    assert of("gpu diff")["step"]["speedup"] == 1


def test_runs_that_cannot_be_compared_say_why(tmp_path: Path):
    inference, on_gpu = write(tmp_path / "a.json", without_steps()), write(tmp_path / "b.json", gpu(), **H200)
    diff = read(render_json(diff_report_of(inference, on_gpu)))
    assert diff["comparable"]["comparable"] is False
    assert any("GPU" in reason for reason in diff["comparable"]["reasons"])
    same = read(render_json(diff_report_of(on_gpu, on_gpu)))
    assert same["comparable"] == {"comparable": True, "reasons": []}


def test_too_few_steps_claim_nothing(tmp_path: Path):
    a, b = (write(tmp_path / name, training()[:200]) for name in ("a.json", "b.json"))
    diff = read(render_json(diff_report_of(a, b)))
    assert diff["step"]["verdict"] == "too_few_steps"
    assert diff["step"]["ci_low_us"] is None
    assert "speedup_low" not in diff["step"]


@pytest.mark.parametrize(
    ("name", "value", "wanted_name", "wanted"),
    [
        ("gpu_busy_ns", 1234, "gpu_busy_us", 1.234),
        ("overlap_share_of_comm", 0.25, "overlap_pct_of_comm", 25.0),
        ("gpu_busy_share_lower_bound", float("nan"), "gpu_busy_pct_lower_bound", None),
        ("wait_ns", {0: 800_000, 1: 0}, "wait_us", {"0": 800.0, "1": 0.0}),
        ("queue_delay_ns", [1000, 2500], "queue_delay_us", [1.0, 2.5]),
        ("sync_count", 3, "sync_count", 3),
        ("comms_id", "17293822569102704641", "comms_id", "17293822569102704641"),
        ("pageable_h2d_gbps", 4.0, "pageable_h2d_gbps", 4.0),
        ("nested", True, "nested", True),
        ("transfer", 3, "transfer", 3),
    ],
)
def test_a_measure_of_an_analysis_is_told_in_the_unit_of_the_json(name: str, value: object, wanted_name: str, wanted: object):
    assert (json_name(name), told(name, value)) == (wanted_name, wanted)
