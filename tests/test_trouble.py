"""Every kind of trouble in a file: what is read all the same, and what is said of it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from make_trace import Event, kernel, launch, op, step, trace_text

from longpole.analyze.links import launching_call
from longpole.analyze.load import load
from longpole.analyze.step_marks import marked_steps
from longpole.analyze.trace import Trace
from longpole.capture.errors import BundleError
from longpole.reports.cli import cli

STEP = [step(1, 0, 100), op("aten::mm", 10, 40)]
MANY = [op(f"aten::op{i % 50}", i, i + 0.5) for i in range(12_000)]  # more than one chunk of text


def written(folder: Path, content: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def names(trace: Trace) -> list[str]:
    return [trace.names[row] for row in trace.host.name]


def kinds(trace: Trace) -> dict[str, int]:
    return {warning.code: warning.count for warning in trace.warnings}


def with_name(raw: str, *events: list[Event]) -> str:
    """The file's text, with one name as a writer pastes it that escapes nothing."""
    return trace_text(*events, [op("PLACEHOLDER", 50, 60)]).replace("PLACEHOLDER", raw)


# What torch wrote into names until 2.14, which escapes nothing


@pytest.mark.parametrize("around", [STEP, [*STEP, *MANY]], ids=["a small file", "a large file"])
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ('{"device": "cpu", "dtype": "float32"}(12): run', "unescaped_quotes"),
        ('a "quoted" name', "unescaped_quotes"),
        ('"', "unescaped_quotes"),
        ('ends with a quote"', "unescaped_quotes"),
        (r"C:\users\new\x", "raw_backslashes"),
        ("line one\nline two", "control_characters"),
        ("tab\there", "control_characters"),
        ("ctl\x01", "control_characters"),
        ('both "quoted"\tand tabbed', "control_characters"),
    ],
)
def test_a_name_that_was_not_escaped_is_recovered_and_counted(tmp_path: Path, raw: str, code: str, around: list[Event]):
    trace = load(written(tmp_path, with_name(raw, around)))
    assert names(trace)[-1] == raw
    assert len(trace.host) == len(around) + 1
    assert kinds(trace)[code] == 1
    assert trace.coverage.dropped == 0


def test_a_name_that_reads_like_the_border_of_two_events_is_a_counted_loss(tmp_path: Path):
    trace = load(written(tmp_path, with_name('a"}, {"b', STEP)))
    assert names(trace) == ["ProfilerStep#1", "aten::mm"]
    assert kinds(trace)["missing_ts"] == 1
    assert trace.coverage.dropped == 1 + kinds(trace).get("malformed_events", 0)


def test_backslashes_that_decode_silently_follow_the_rule_of_the_whole_file(tmp_path: Path):
    frames = [r"torch\cuda\__init__.py(219): _lazy_init", r"torch\nn\functional.py(5): relu", r"torch\\x.py(1): f"]
    text = trace_text(STEP, [op(f"FRAME{i}", 50 + i, 51 + i) for i in range(3)])
    for i, frame in enumerate(frames):
        text = text.replace(f"FRAME{i}", frame)
    trace = load(written(tmp_path, text))
    assert names(trace)[2:] == frames
    assert kinds(trace) == {"raw_backslashes": 3}


def test_a_frame_with_control_characters_alone_shows_that_nothing_was_escaped(tmp_path: Path):
    trace = load(written(tmp_path, with_name(r"torch\nn\functional.py(5): relu", STEP)))
    assert names(trace)[-1] == r"torch\nn\functional.py(5): relu"


def test_backslashes_late_in_a_long_file_change_how_its_beginning_is_read(tmp_path: Path):
    text = trace_text([op("FIRST", 0, 1)], MANY, [op("LAST", 20_000, 20_001)])
    trace = load(written(tmp_path, text.replace("FIRST", r"a\new").replace("LAST", r"a\cold")))
    assert (names(trace)[0], names(trace)[-1]) == (r"a\new", r"a\cold")
    assert kinds(trace) == {"raw_backslashes": 2}


@pytest.mark.parametrize("name", ["line one\nline two", 'quoted "name"', "back\\slash", "C:\\new", "ünï ✓ 模型", "\x01"])
def test_a_writer_that_escapes_is_taken_at_its_word(tmp_path: Path, name: str):
    trace = load(written(tmp_path, trace_text(STEP, [op(name, 50, 60)])))
    assert names(trace)[-1] == name
    assert trace.warnings == ()


def test_arguments_that_cannot_be_mended_are_lost_alone(tmp_path: Path):
    text = trace_text(STEP, [op("aten::add", 50, 60, **{"External id": 7, "note": "X"})], [op("aten::mul", 70, 80)])
    trace = load(written(tmp_path, text.replace('"note": "X"', '"note": [1, {"a" 2')))
    assert names(trace) == ["ProfilerStep#1", "aten::mm", "aten::add", "aten::mul"]
    assert kinds(trace) == {"lost_arguments": 1}
    assert (trace.coverage.used, trace.coverage.repaired) == (3, 1)


# Text and numbers that JSON does not know


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path):
    text = trace_text(STEP, [op("PLACEHOLDER", 50, 60)]).encode().replace(b"PLACEHOLDER", b"na\xffme")
    trace = load(written(tmp_path, text))
    assert names(trace)[-1] == "na�me"
    assert kinds(trace) == {"bad_utf8": 1}


def test_half_a_character_is_replaced_and_a_whole_pair_is_kept(tmp_path: Path):
    trace = load(written(tmp_path, with_name(r"\ud83d\ude00 and \ud83d", STEP)))
    assert names(trace)[-1] == "😀 and �"
    assert kinds(trace) == {"bad_utf8": 1}


@pytest.mark.parametrize("token", ["inf", "-inf", "nan", "NaN", "-nan(ind)", "Infinity", "1.#INF"])
def test_numbers_that_are_none_are_missing(tmp_path: Path, token: str):
    text = trace_text(STEP, [kernel("k", 10, 20, bandwidth="TOKEN", bytes=7)]).replace('"TOKEN"', token)
    trace = load(written(tmp_path, text))
    assert trace.device.size_bytes.tolist() == [7]
    assert kinds(trace) == {"non_json_number": 1}


def test_a_name_with_inf_in_it_is_left_alone(tmp_path: Path):
    text = trace_text(STEP, [op("a: inf, nan", 50, 60, x="TOKEN")]).replace('"TOKEN"', "inf")
    assert names(load(written(tmp_path, text)))[-1] == "a: inf, nan"


def test_a_comma_too_many_is_no_trouble(tmp_path: Path):
    text = trace_text(STEP).replace('"args": {}', '"args": {"a": [1,],}').replace("}]}", "},]}")
    trace = load(written(tmp_path, text))
    assert names(trace) == ["ProfilerStep#1", "aten::mm"]


def test_ids_of_any_size_link_exactly(tmp_path: Path):
    ids = [2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 10**60, -2, -(2**63)]
    calls = [launch(number, 5, 9, **{"External id": number}) for number in ids]
    for written_as in (int, str, lambda number: hex(number) if number > 0 else str(number)):
        work = [
            kernel("k", 10, 20, correlation=written_as(number), **{"External id": written_as(number)}) for number in ids[::-1]
        ]
        trace = load(written(tmp_path, trace_text(STEP, calls, work)))
        assert launching_call(trace).tolist() == [len(trace.host) - 1 - row for row in range(len(ids))]
        assert trace.device.external_id.tolist() == trace.device.correlation.tolist()
        assert kinds(trace) == {}


def test_an_id_that_was_rounded_links_to_nothing_and_is_counted(tmp_path: Path):
    work = [kernel("a", 10, 20, correlation=7.0), kernel("b", 20, 30, correlation=2.0**60), kernel("c", 30, 40, correlation=1.5)]
    trace = load(written(tmp_path, trace_text(STEP, [launch(7, 0, 5), launch(2**60, 6, 9)], work)))
    assert trace.device.correlation.tolist() == [7, -1, -1]
    assert kinds(trace) == {"inexact_ids": 1}


def test_an_id_of_thousands_of_digits_links_to_nothing(tmp_path: Path):
    text = trace_text(STEP, [kernel("a", 10, 20, correlation="9" * 5000), kernel("b", 20, 30, correlation=77)])
    trace = load(written(tmp_path, text.replace(": 77", ": " + "9" * 5000)))
    assert (trace.device.correlation.tolist(), len(trace.device)) == ([-1, -1], 2)


def test_a_size_beyond_64_bits_is_missing_and_counted(tmp_path: Path):
    trace = load(written(tmp_path, trace_text(STEP, [kernel("k", 10, 20, bytes=2**64), kernel("k", 20, 30, bytes=4096.0)])))
    assert trace.device.size_bytes.tolist() == [-1, 4096]
    assert kinds(trace) == {"numbers_beyond_int64": 1}


def test_a_large_argument_that_is_kept_as_text_stays_exact(tmp_path: Path):
    trace = load(written(tmp_path, trace_text(STEP, [kernel("nccl", 10, 20, **{"Comms Id": 17293822569102704641})])))
    rows = trace.device_arguments
    found = {trace.argument_keys[key]: trace.argument_values[value] for key, value in zip(rows.key, rows.value, strict=True)}
    assert (found, rows.row.tolist()) == ({"Comms Id": "17293822569102704641"}, [0])
    assert trace.warnings == ()


# Times


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"dur": None}, "missing_dur"), ({"dur": "soon"}, "missing_dur"), ({"ts": None}, "missing_ts"),
        ({"ts": []}, "missing_ts"), ({"ts": 1e300}, "missing_ts"), ({"dur": -1.0}, "negative_dur"),
        ({"dur": float("inf")}, "missing_dur"),
    ],
)  # fmt: skip
def test_an_event_without_usable_times_is_left_out_and_counted(tmp_path: Path, change: dict[str, Any], code: str):
    events = [*STEP, {**op("bad", 50, 60), **change}]
    trace = load(written(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": events})))
    assert kinds(trace)[code] == 1
    assert (len(trace.host), trace.coverage.dropped) == (2, 1)


def test_times_as_text_are_exact_and_harmless(tmp_path: Path):
    events = [{**event, "ts": str(event["ts"]), "dur": str(event["dur"])} for event in STEP]
    trace = load(written(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": events})))
    assert (trace.host.start_ns.tolist(), trace.host.end_ns.tolist()) == ([0, 10_000], [100_000, 40_000])
    assert [(w.code, w.count, w.harmless) for w in trace.warnings] == [("text_timestamps", 2, True)]


def test_events_out_of_order_are_counted_and_harmless(tmp_path: Path):
    trace = load(written(tmp_path, trace_text([op("b", 50, 60), op("a", 10, 20), op("c", 70, 80)])))
    assert trace.host.start_ns.tolist() == [40_000, 0, 60_000]
    assert [(w.code, w.count, w.harmless) for w in trace.warnings] == [("events_out_of_order", 1, True)]


# Files that end too early, or too late


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_that_was_cut_off_gives_its_whole_events(tmp_path: Path, pack: Any):
    whole = trace_text(STEP, MANY)
    cut = pack(whole.encode())[: -len(pack(whole.encode())) // 3]
    trace = load(written(tmp_path, cut))
    assert [warning.code for warning in trace.warnings if not warning.harmless] == ["truncated_file"]
    assert names(trace) == ["ProfilerStep#1", "aten::mm", *(event["name"] for event in MANY)][: len(trace.host)]
    assert len(MANY) / 2 < len(trace.host) < len(MANY)


def test_a_cut_says_which_steps_are_whole_on_the_host(tmp_path: Path):
    steps = [step(i, 100 * i, 100 * i + 100) for i in range(1, 5)]
    ops = [op("aten::mm", 100 * i + j, 100 * i + j + 5) for i in range(1, 5) for j in range(0, 100, 10)]
    events = sorted([*steps, *ops], key=lambda event: event["ts"])
    text = trace_text(events)
    trace = load(written(tmp_path, text[: text.rindex('"ts": 5000350')]))
    (warning,) = trace.warnings
    assert "2 of 3 steps lack nothing: ProfilerStep#1, ProfilerStep#2." in warning.message


def test_a_cut_says_which_steps_are_whole_on_the_device(tmp_path: Path):
    steps = [step(i, 100 * i, 100 * i + 100) for i in range(1, 4)]
    calls = [launch(i, 100 * i, 100 * i + 5) for i in range(1, 4)]
    kernels = [kernel("k", 100 * i + 10, 100 * i + 20, correlation=i) for i in range(1, 4)]
    text = trace_text(steps, calls, kernels)
    trace = load(written(tmp_path, text[: text.rindex('"name": "k"')]))
    (warning,) = trace.warnings
    assert "2 of 3 steps lack nothing: ProfilerStep#1, ProfilerStep#2." in warning.message


def test_where_only_the_end_of_the_object_is_missing_all_steps_are_whole(tmp_path: Path):
    steps = [step(i, 100 * i, 100 * i + 100) for i in range(1, 4)]
    text = trace_text(steps, [op("aten::mm", 100 * i + 5, 100 * i + 90) for i in range(1, 4)])
    trace = load(written(tmp_path, text.rstrip().removesuffix("}")))
    assert ([w.code for w in trace.warnings], trace.whole_until_ns) == (["truncated_file"], None)
    assert marked_steps(trace)["counted"].all()


def test_text_after_the_end_is_ignored_and_counted(tmp_path: Path):
    trace = load(written(tmp_path, trace_text(STEP) + "\n# copied by hand"))
    assert kinds(trace) == {"trailing_text": 1}


def test_an_empty_element_at_the_end_is_no_event(tmp_path: Path):
    trace = load(written(tmp_path, trace_text(STEP).replace("}]}", "}, {}]}")))
    assert (trace.coverage.total, trace.coverage.used) == (2, 2)
    assert [(w.code, w.harmless) for w in trace.warnings] == [("empty_events", True)]


def test_a_byte_order_mark_is_skipped(tmp_path: Path):
    trace = load(written(tmp_path, b"\xef\xbb\xbf" + trace_text(STEP).encode()))
    assert [(w.code, w.harmless) for w in trace.warnings] == [("byte_order_mark", True)]


@pytest.mark.parametrize("value", ['"say "hi""', '"C:\\new\\x"', "nan", "[1, 2"])
def test_broken_metadata_beside_the_events_loses_no_event(tmp_path: Path, value: str):
    text = trace_text(STEP, note="NOTE", deviceProperties=[{"id": 0, "name": "Demo GPU"}], schemaVersion=1)
    trace = load(written(tmp_path, text.replace('"NOTE"', value)))
    assert kinds(trace) == {"broken_metadata": 1}
    assert (len(trace.host), trace.source.devices, trace.source.producer) == (2, ("Demo GPU",), "PyTorch Profiler")


def test_two_programs_that_wrote_to_one_file_are_refused(tmp_path: Path):
    first = trace_text(STEP, MANY).encode()
    second = trace_text(STEP, [{**event, "pid": 20_000, "name": event["name"] + "_"} for event in MANY]).encode()
    mixed = b"".join((first if i % 2 else second)[i * 4096 : (i + 1) * 4096] for i in range(len(first) // 4096 + 1))
    with pytest.raises(BundleError, match="holds two traces written into one file"):
        load(written(tmp_path, mixed))


def test_a_short_trace_written_over_a_longer_one_is_refused(tmp_path: Path):
    long, short = trace_text(STEP, MANY), trace_text(STEP)
    with pytest.raises(BundleError, match="holds two traces written into one file"):
        load(written(tmp_path, short + long[len(short) :]))


# What it is called on the terminal


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (with_name('a "b" c', STEP), "quotes that were not escaped: 1; repaired"),
        (with_name(r"C:\x", STEP), "backslashes that were not escaped: 1"),
        (with_name("a\tb", STEP), "control characters, which JSON forbids: 1"),
        (trace_text(STEP)[:-40], "The file is cut off"),
        (trace_text(STEP, [{**op("a", 1, 2), "dur": -5}]), "negative duration: 1; left out"),
        (trace_text(STEP, [{**op("a", 1, 2), "ph": "B"}]), "Begin events without an end: 1"),
        (trace_text(STEP, [{**op("a", 1, 2), "ph": "E"}]), "End events without a begin: 1"),
        (trace_text(STEP, [{**op("a", 1, 2), "cat": "brand_new"}]), "does not know: 1 (brand_new); counted, not used"),
        (b"\xef\xbb\xbf" + trace_text(STEP).encode(), "byte order mark"),
    ],
)
def test_summary_names_the_trouble_and_what_it_cost(tmp_path: Path, content: str | bytes, says: str):
    done = CliRunner().invoke(cli, ["summary", str(written(tmp_path, content))])
    assert done.exit_code == 0
    assert says in " ".join(done.output.split())
