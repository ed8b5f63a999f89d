import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from make_trace import (
    Event,
    allocation,
    annotation,
    frame,
    kernel,
    launch,
    make_trace,
    memcpy,
    op,
    step,
    trace_text,
    write_bundle,
    write_trace,
)

from longpole.analyze import trace as t
from longpole.analyze.load import load
from longpole.analyze.trace import Trace
from longpole.capture.bundle import MANIFEST_NAME, read_manifest
from longpole.capture.errors import BundleError

ONE_STEP = [step(1, 0, 100), op("aten::mm", 10, 40)]


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.json"
    path.write_text(text, encoding="utf-8")
    return path


def event_text(ts: str, dur: str, name: str = "aten::mm") -> str:
    """One operator whose numbers stand in the file exactly so."""
    return f'{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}'


def spans(trace: Trace) -> list[tuple[int, int]]:
    return list(zip(trace.host.start_ns.tolist(), trace.host.end_ns.tolist(), strict=True))


# Formats


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_gzip_is_told_by_its_first_bytes_whatever_the_suffix(tmp_path: Path, name: str, pack: Any):
    path = tmp_path / name
    path.write_bytes(pack(trace_text(ONE_STEP).encode()))
    assert spans(load(path)) == [(0, 100_000), (10_000, 40_000)]


def test_whole_microseconds_of_old_torch_are_unix_times(tmp_path: Path):
    trace = load(written(tmp_path, f'{{"traceEvents":[{event_text("1690000000000007", "5")}]}}'))
    assert trace.origin_ns == 1_690_000_000_000_007_000
    assert spans(trace) == [(0, 5000)]


def test_relative_times_are_exact_to_the_nanosecond(tmp_path: Path):
    events = f"{event_text('5199647884228.312', '28.172')},{event_text('5199647884230.001', '0.001')}"
    trace = load(written(tmp_path, f'{{"baseTimeNanoseconds":1000000000,"traceEvents":[{events}]}}'))
    assert trace.origin_ns == 1_000_000_000 + 5_199_647_884_228_312
    assert spans(trace) == [(0, 28_172), (1_689, 1_690)]


def test_absolute_times_with_decimals_keep_the_nanoseconds_that_a_float_loses(tmp_path: Path):
    first, second = "1790000000002501.610", "1790000000002501.615"
    assert float(first) == float(second)
    trace = load(written(tmp_path, f'{{"traceEvents":[{event_text(first, "1")},{event_text(second, "1")}]}}'))
    assert spans(trace) == [(0, 1000), (5, 1005)]


def test_times_may_be_strings(tmp_path: Path):
    trace = load(written(tmp_path, f'{{"traceEvents":[{event_text(chr(34) + "7.5" + chr(34), chr(34) + "2" + chr(34))}]}}'))
    assert spans(trace) == [(0, 2000)]


def test_the_unit_for_display_scales_nothing():
    assert make_trace(ONE_STEP, displayTimeUnit="ns").window_ns == make_trace(ONE_STEP, displayTimeUnit="ms").window_ns == 100_000


def test_a_bare_list_of_events_is_a_trace(tmp_path: Path):
    trace = load(written(tmp_path, f"[{event_text('7', '5')}]"))
    assert (spans(trace), trace.source.producer) == ([(0, 5000)], "unknown")


def test_names_of_kineto_before_2022_mean_the_same():
    old = make_trace([
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 1, "tid": "1", "ts": 0, "dur": 9, "args": {"external id": "3"}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunch", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"correlation": 4}},
        {"ph": "X", "cat": "Kernel", "name": "mm", "pid": 2, "tid": "stream 7", "ts": 3, "dur": 5, "args": {"correlation": "4"}},
        {"ph": "X", "cat": "Memset", "name": "Memset", "pid": 2, "tid": "stream 7", "ts": 8, "dur": 1},
    ])  # fmt: skip
    assert old.host.category.tolist() == [t.OP, t.RUNTIME]
    assert old.host.external_id.tolist() == [3, -1]
    assert old.host.thread.tolist() == [0, 0]
    assert old.device.category.tolist() == [t.KERNEL, t.MEMSET]
    assert (old.device.device.tolist(), old.device.stream.tolist()) == ([2, 2], [7, 7])
    assert old.device.correlation.tolist() == [4, -1]


def test_ids_that_are_odd_are_unknown_and_lose_nothing_else():
    trace = make_trace([op("a", 0, 1, **{"External id": value}) for value in (7, "8", None, 1.5, [], 2**70, "x")])
    assert trace.host.external_id.tolist() == [7, 8, -1, -1, -1, 2**62, -1]  # 2**70 in other words


def test_device_annotations_and_synchronisations_are_no_device_work():
    trace = make_trace(
        [step(1, 0, 100)],
        [kernel("gemm", 10, 20), memcpy("Memcpy HtoD", 20, 30, bytes=64)],
        [kernel("ProfilerStep#1", 0, 150, category="gpu_user_annotation"), kernel("Stream Sync", 0, 160, category="cuda_sync")],
    )
    assert trace.device.category.tolist() == [t.KERNEL, t.MEMCPY]
    assert trace.device.size_bytes.tolist() == [-1, 64]
    assert trace.device_marks.category.tolist() == [t.MARK, t.SYNC]
    assert trace.window_ns == 100_000


def test_runtime_and_driver_calls_of_any_vendor_are_runtime_calls():
    calls = [launch(1, 0, 1), *({**launch(1, 2, 3), "cat": cat} for cat in ("cuda_driver", "xpu_runtime", "privateuse1_driver"))]
    assert make_trace(calls).host.category.tolist() == [t.RUNTIME] * 4


def test_the_profilers_overhead_does_not_stretch_the_window():
    overhead = {**op("Buffer Flush", -50, 500), "cat": "overhead"}
    trace = make_trace([*ONE_STEP, overhead])
    assert trace.window_ns == 100_000
    assert spans(trace)[2] == (-50_000, 500_000)


def test_an_open_range_is_marked_unfinished():
    assert make_trace([op("a", 0, 1), op("b", 2, 3, finished=False)]).host.finished.tolist() == [True, False]


def test_shapes_are_printed_as_torch_prints_them():
    dims = [[[64], [32, 64]], [[[4], [4]], []], "odd"]
    trace = make_trace([op("a", 0, 1, **{"Input Dims": d}) for d in dims], [op("b", 2, 3)], record_shapes=1)
    assert [trace.shapes[i] for i in trace.host.shapes[:3]] == ["[[64], [32, 64]]", "[[], []]", "[]"]
    assert trace.host.shapes[3] == -1
    assert trace.source.with_shapes


def test_allocations_are_read_from_instants_and_from_the_python_exporters_ranges():
    as_range = {**allocation(20, -64), "ph": "X", "dur": 0}
    trace = make_trace(ONE_STEP, [allocation(10, 64), as_range, allocation(30, 8, device_type=1)])
    assert trace.allocations.time_ns.tolist() == [10_000, 20_000, 30_000]
    assert trace.allocations.size_bytes.tolist() == [64, -64, 8]
    assert trace.allocations.device_type.tolist() == [0, 0, 1]


def test_the_source_says_what_the_file_says():
    trace = make_trace(
        ONE_STEP, deviceProperties=[{"id": 0, "name": "Demo GPU"}], distributedInfo={"rank": 3, "world_size": 8},
        cuda_runtime_version=12040, with_stack=1,
    )  # fmt: skip
    source = trace.source
    assert (source.producer, source.rank, source.world_size, source.devices) == ("PyTorch Profiler", 3, 8, ("Demo GPU",))
    assert (source.runtime, source.with_stacks, source.with_memory) == ("CUDA 12.4", True, False)
    assert make_trace(ONE_STEP, hip_runtime_version=60342133).source.runtime == "ROCm 6.3"


# What becomes of each event


def test_events_without_a_usable_duration_are_counted_and_left_out():
    no_dur, no_ts = op("a", 50, 60), op("b", 50, 60)
    del no_dur["dur"], no_ts["ts"]
    trace = make_trace(ONE_STEP, [no_dur, no_ts, op("c", 60, 50), {**op("d", 0, 1), "dur": "NaN"}])
    assert {w.code: w.count for w in trace.warnings if not w.harmless} == {"missing_dur": 2, "missing_ts": 1, "negative_dur": 1}
    assert len(trace.host) == 2
    assert (trace.coverage.total, trace.coverage.used, trace.coverage.dropped) == (6, 2, 4)


def test_device_work_without_usable_times_is_set_aside_and_keeps_its_correlation():
    no_dur, no_ts = kernel("a", 50, 60, correlation=4), kernel("b", 50, 60, device=1, correlation=5)
    del no_dur["dur"], no_ts["ts"]
    trace = make_trace(ONE_STEP, [no_dur, no_ts, memcpy("c", 60, 50, correlation=6), kernel("d", 0, 9, correlation=7)])
    assert {w.code: w.count for w in trace.warnings} == {"missing_dur": 1, "missing_ts": 1, "negative_dur": 1}
    assert (trace.untimed.correlation.tolist(), trace.device.correlation.tolist()) == ([4, 5, 6], [7])
    assert trace.untimed_kernels == {0: 1, 1: 1}
    assert (trace.coverage.total, trace.coverage.used, trace.coverage.dropped) == (6, 3, 3)


def test_an_empty_event_at_the_end_is_no_event(tmp_path: Path):
    trace = load(written(tmp_path, f'{{"traceEvents":[{event_text("7", "5")},{{}}]}}'))
    assert trace.coverage.total == 1


def test_kernels_at_time_zero_are_set_aside():
    untimed = [{**kernel("lost", 0, 0, device=1), "ts": -5_000_000}, {**memcpy("lost", 0, 0), "ts": -5_000_000}]
    trace = make_trace(ONE_STEP, [kernel("gemm", 20, 60)], untimed)
    assert (trace.window_ns, len(trace.device)) == (100_000, 1)
    assert [(w.code, w.count) for w in trace.warnings] == [("zero_timestamp_events", 2)]
    assert trace.untimed_kernels == {1: 1}


DAY_US = 86_400 * 10**6


def test_of_a_recording_long_after_zero_nothing_that_starts_at_zero_has_a_time():
    at_zero = {"ts": -5_000_000}
    lost = [{**launch(1, 0, 5), **at_zero}, {**kernel("k", 0, 5), **at_zero}]
    later = {"ts": 2 * DAY_US}
    arguments = {"External id": 7, "Input type": ["float"]}
    trace = make_trace(lost, [{**step(1, 0, 100), **later}, {**op("aten::mm", 0, 50, **arguments), **later}])
    assert (trace.window_ns, len(trace.host), len(trace.device), len(trace.untimed)) == (100_000, 2, 0, 1)
    assert [(w.code, w.count) for w in trace.warnings if not w.harmless] == [("zero_timestamp_events", 2)]
    assert trace.names[trace.host.name[trace.host_arguments.row[0]]] == "aten::mm"


def test_kernels_at_zero_are_set_aside_also_without_host_ranges():
    trace = make_trace([{**kernel("lost", 0, 0), "ts": -5_000_000}, {**kernel("k", 0, 30), "ts": 2 * DAY_US}])
    assert (trace.window_ns, len(trace.device), trace.untimed_kernels) == (30_000, 1, {0: 1})


def test_a_recording_that_starts_at_zero_keeps_its_first_kernel(tmp_path: Path):
    events = [{**step(1, 0, 100)}, kernel("gemm", 0, 40)]
    trace = load(written(tmp_path, json.dumps({"traceEvents": events})))
    assert (len(trace.device), trace.warnings) == (1, ())


def test_unknown_categories_metadata_and_flows_are_ignored_and_counted():
    odd = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 1, "id": 4},
        {"ph": "X", "cat": "brand_new", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"device": "left", "bytes": []}},
        {"ph": "C", "cat": "hardware_counters", "name": "power", "pid": 1, "ts": 1, "args": {"device": 0.5}},
    ]  # fmt: skip
    coverage = make_trace(ONE_STEP, odd).coverage
    assert (coverage.total, coverage.used, coverage.ignored, coverage.dropped) == (6, 2, 4, 0)
    assert coverage.by_category == {
        "user_annotation": 1, "cpu_op": 1, "(phase M)": 1, "ac2g": 1, "brand_new": 1, "hardware_counters": 1,
    }  # fmt: skip


# What is no trace


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello", "it holds no JSON"),
        (b"PK\x03\x04", "damaged zip"),
        (b'{"traceEvents":[{"name":"a "quoted" name"}]}', "no timed events"),
        (b'[{"args":{"Input Dims":' + b"[" * 100_000, "no timed events"),
        (b"\x1f\x8bgarbage", "damaged archive"),
        (b"BZh91AY", r"\.bz2 file; unpack it"),
        (b"\x80\x04\x95", "opens no pickles"),
        ("[]".encode("utf-16"), "UTF-16"),
        (b'{"nodes": [], "schema": "1.1"}', "execution trace"),
        (b'{"format_version": 1, "ranks": []}', "manifest of a bundle"),
        (b"{}", "is not a trace"),
        (b'"text"', "is not a trace"),
        (b'{"traceEvents": 7}', "is not a trace"),
        (b"[]", "no timed events"),
        (b'[{"ph":"M","name":"process_name"},{}]', "no timed events"),
        (b'[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":0}]', "no timed events"),
    ],
    ids=[
        "empty", "text", "zip", "quotes", "deep", "bad gzip", "bzip2", "pickle", "utf-16", "execution trace", "manifest",
        "object", "string", "number", "no events", "metadata only", "no duration",
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_in_one_line_that_names_the_file(tmp_path: Path, content: bytes, says: str):
    path = tmp_path / "given.json"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=says) as refusal:
        load(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(BundleError, match=r"nowhere\.json does not exist"):
        load(tmp_path / "nowhere.json")


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path):
    with pytest.raises(BundleError, match=r"without a manifest\.json and without traces"):
        load(tmp_path)


ODD_VALUES = st.sampled_from(
    [None, -1, 1.5, "x", "NaN", "1e400", 2**70, -(2**70), [], [1], [[1]], {}, {"a": 1}, True, "7", 1e308]
)
FIELDS = st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
ARGS = st.sampled_from([
    "External id", "correlation", "device", "stream", "bytes", "Sequence number", "Fwd thread id", "Input Dims", "finished",
    "Bytes", "Device Type", "Device Id",
])  # fmt: skip
SAMPLE: list[Event] = [step(1, 0, 100), op("a", 0, 9), launch(1, 1, 2), kernel("k", 3, 5, correlation=1), allocation(4, 64)]


@given(st.integers(0, 4), st.tuples(FIELDS, st.just("")) | st.tuples(st.just("args"), ARGS), ODD_VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_odd_value_gives_a_trace_or_a_line(tmp_path: Path, row: int, place: tuple[str, str], value: Any):
    field, arg = place
    events = [{**event, "args": dict(event["args"])} for event in SAMPLE]
    if arg:
        events[row]["args"][arg] = value
    else:
        events[row][field] = value
    path = written(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": events}))
    try:
        coverage = load(path).coverage
    except BundleError as refusal:
        assert not arg, "an odd argument must not lose the file"
        assert "\n" not in str(refusal)
    else:
        assert coverage.used + coverage.repaired + coverage.ignored + coverage.dropped == coverage.total == len(SAMPLE)


# Bundles


def test_a_bundle_gives_its_trace_and_its_manifest(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP, mode="training", versions={"torch": "2.13.0"}, unprofiled_step_ns=(90, 110))
    trace = load(folder)
    assert spans(trace) == [(0, 100_000), (10_000, 40_000)]
    assert trace.manifest is not None
    assert trace.manifest == read_manifest(folder)
    assert (trace.manifest.mode, trace.manifest.unprofiled_step_ns) == ("training", (90, 110))
    assert trace.source.path == str(folder)
    assert trace.source.files[0].name == "rank0.trace.json.gz"
    assert trace.source.files[0].sha256 == trace.manifest.ranks[0].trace.sha256


def test_an_altered_trace_file_is_refused(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP)
    write_trace(folder / "rank0.trace.json.gz", [step(1, 0, 50)])
    with pytest.raises(BundleError, match="SHA-256 is not"):
        load(folder)


def test_a_lost_trace_file_is_refused(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP)
    (folder / "rank0.trace.json.gz").unlink()
    with pytest.raises(BundleError, match=r"lacks rank0\.trace\.json\.gz"):
        load(folder)


def test_a_bundle_of_several_ranks_is_refused(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP)
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    manifest["ranks"] *= 2
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="holds 2 ranks"):
        load(folder)


def test_snapshots_are_read_with_their_bundle_and_a_damaged_one_is_refused(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", [annotation("a", 0, 1)], snapshot=[])
    assert load(folder).averages == {"torch": "2.13.0", "rows": []}
    assert load(folder).averages_by_shape is None
    (folder / "rank0.key_averages.json").write_text("{")
    with pytest.raises(BundleError, match="SHA-256 is not"):
        load(folder)


@pytest.mark.parametrize(
    "odd",
    [
        {"with_stack": True}, {"deviceProperties": None}, {"distributedInfo": None}, {"schemaVersion": "1"},
        {"deviceProperties": [7]}, {"baseTimeNanoseconds": 10**30}, {"cuda_runtime_version": "12"},
    ],
    ids=str,
)  # fmt: skip
def test_one_odd_value_beside_the_events_loses_nothing(odd: dict[str, Any]):
    assert make_trace(ONE_STEP, **odd).coverage.used == len(ONE_STEP)


def test_elements_that_are_no_events_are_dropped_and_counted(tmp_path: Path):
    text = trace_text(ONE_STEP).replace(
        '"traceEvents": [',
        '"traceEvents": [7, {"ph": "X", "cat": "cpu_op", "ts": 5000050, "dur": 1, "args": []}, {"ph": "X", "pid": 1.5}, ',
    )
    trace = load(written(tmp_path, text))
    coverage = trace.coverage
    assert (coverage.used, coverage.dropped, coverage.ignored) == (len(ONE_STEP) + 1, 1, 1)
    assert {warning.code: warning.count for warning in trace.warnings} == {"lost_arguments": 1, "malformed_events": 1}


def test_a_path_that_is_too_long_is_refused_in_one_line():
    with pytest.raises(BundleError, match="cannot be"):
        load("x" * 5000)


def test_frames_are_read_the_same_alone_and_among_others():
    frames = [frame(f"file{i % 70}.py({i % 9}): f", i, i + 0.125 * (i % 7), tid=i % 3) for i in range(9000)]
    among = [event for i, one in enumerate(frames) for event in ([one, op("aten::mm", i, i + 1)] if i % 100 == 0 else [one])]
    alone, mixed = make_trace(ONE_STEP, frames), make_trace(ONE_STEP, among)

    def rows(trace: Trace) -> list[tuple[str, int, int, tuple[str, str], int]]:
        host = trace.host[trace.host.category == t.PYTHON]
        columns = zip(host.name, host.start_ns, host.end_ns, host.thread, host.external_id, strict=True)
        return [(trace.names[n], int(s), int(e), trace.threads[thread], int(i)) for n, s, e, thread, i in columns]

    assert len(rows(alone)) == 9000
    assert rows(alone) == rows(mixed)
    assert alone.coverage.by_category["python_function"] == 9000
    assert alone.host.finished.all()


@pytest.mark.parametrize("odd", [{"dur": -1}, {"dur": None}, {"cat": "cpu_op"}, {"name": 7}, {"ph": "i"}, {"tid": 1.5}])
def test_one_odd_event_among_frames_is_treated_as_anywhere(odd: dict[str, Any]):
    frames = [frame("f.py(1): f", i, i + 1) for i in range(9000)]
    among = [*frames[:8000], {**frame("odd", 5, 6), **odd}, *frames[8000:]]
    coverage, alone = make_trace(ONE_STEP, among).coverage, make_trace(ONE_STEP, [{**frame("odd", 5, 6), **odd}]).coverage
    assert coverage.total == alone.total + 9000
    assert (coverage.dropped, coverage.ignored, coverage.used) == (alone.dropped, alone.ignored, alone.used + 9000)


def test_memory_and_capability_of_each_gpu_are_told_where_the_file_has_them():
    one = {"name": "A", "totalGlobalMem": 1000, "computeMajor": 8, "computeMinor": 6}
    source = make_trace([step(1, 0, 100)], deviceProperties=[one, {"name": "B"}, 7]).source
    assert (source.device_bytes, source.capabilities) == ((1000, 0, 0), ("8.6", "", ""))
