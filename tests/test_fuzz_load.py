"""Whatever stands in a file, loading gives the right events, a counted loss or a refusal: no crash, no hang, no silent loss.

A longer, random run of the same: `python run.py fuzz`.
"""

import faulthandler
import gzip
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from make_trace import kernel, launch, loop, op, trace_text
from shared_data import SHARED
from text_layouts import (
    AFTER,
    KINETO,
    LAYOUTS,
    PLACES,
    Event,
    escaped,
    escaped_utf8,
    file_text,
    unescaped,
)

from longpole.analyze import trace as t
from longpole.analyze.load import load
from longpole.analyze.loading import reading, streams
from longpole.analyze.trace import Trace
from longpole.capture.errors import BundleError

FUZZ = os.environ.get("LONGPOLE_FUZZ")  # the folder where a long run keeps what fails
HANGS_SECONDS = 60
PACKED = {"plain": bytes, "gzip": lambda text: gzip.compress(text, 1, mtime=0)}


def examples(count: int) -> Callable[[Any], Any]:
    """As many examples, the same ones each time; in a long run many more, at random."""
    return settings(
        max_examples=5 * count if FUZZ else count,
        derandomize=not FUZZ,
        database=None,
        report_multiple_bugs=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


WATCH: list[Any] = []


@pytest.fixture(autouse=True)
def _watch(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Where a hanging load says where it hangs: past what pytest captures."""
    with capsys.disabled(), os.fdopen(os.dup(2), "w") as stream:
        WATCH[:] = [stream]
        yield


def loaded(content: bytes) -> Trace:
    """The file stays in the temporary folder when loading it hangs and the run is ended."""
    path = Path(folder().name, "given.json")
    path.write_bytes(content)
    faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True, file=WATCH[0])
    try:
        return load(path)
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def kept(content: bytes) -> Iterator[None]:
    """The content of a failing test is kept; the last one, which hypothesis made smallest, stays."""
    try:
        yield
    except BaseException:
        if FUZZ:
            test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split()[0]
            Path(FUZZ).mkdir(parents=True, exist_ok=True)
            Path(FUZZ, re.sub(r"\W+", "_", test) + ".json").write_bytes(content)
        raise


@contextmanager
def pieces(block: int, chunk: int, broken: int, cut_within: int) -> Iterator[None]:
    """Small pieces, so that small files are cut in as many places as large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", block)
        patch.setattr(reading, "CHUNK_BYTES", chunk)
        patch.setattr(reading, "BROKEN_BYTES", broken)
        patch.setattr(reading, "CUT_WITHIN", cut_within)
        yield


PIECES = st.sampled_from([
    (streams.BLOCK_BYTES, reading.CHUNK_BYTES, reading.BROKEN_BYTES, reading.CUT_WITHIN),
    (64, 128, 512, 64), (1000, 700, 2800, 300), (333, 2000, 8000, 500),
])  # fmt: skip


# What should be read, from the events themselves

HOST = {
    "cpu_op": t.OP, "user_annotation": t.ANNOTATION, "python_function": t.PYTHON, "cuda_runtime": t.RUNTIME,
    "xpu_driver": t.RUNTIME, "overhead": t.OVERHEAD,
}  # fmt: skip
DEVICE = {"kernel": t.KERNEL, "gpu_memcpy": t.MEMCPY, "gpu_memset": t.MEMSET}
MARKS = {"gpu_user_annotation": t.MARK, "cuda_sync": t.SYNC}
Row = tuple[Any, ...]
OTHER_ID = 2**62


def ns(microseconds: Decimal | int) -> int:
    return int(microseconds * 1000)


def fitting(value: int) -> int:
    """Other ids stand in the tables as other numbers."""
    return value if -1 <= value < 2**62 else OTHER_ID


def name_of(event: Event) -> str:
    return event["name"] or "(no name)"


def thread_of(event: Event) -> tuple[str, str]:
    return str(event["pid"]), str(event["tid"])


def is_op(event: Event) -> bool:
    """Such an event launches nothing itself, so it has no correlation."""
    return event.get("cat") in ("cpu_op", "user_annotation")


def expected_row(event: Event) -> Row | None:
    """Of a complete event or an allocation; None for what is in no table."""
    category, args = event.get("cat"), event.get("args", {})
    times = (ns(event["ts"]), ns(event["ts"] + event.get("dur", 0))) if "ts" in event else ()
    ids = fitting(args.get("External id", -1)), -1 if is_op(event) else fitting(args.get("correlation", -1))
    if event["name"] == "[memory]":
        return "memory", times[0], args["Bytes"]
    if event["ph"] != "X":
        return None
    if category in HOST:
        return "host", name_of(event), HOST[category], thread_of(event), *times, *ids
    if category in DEVICE or category in MARKS:
        table, code = ("device", DEVICE[category]) if category in DEVICE else ("marks", MARKS[category])
        return table, name_of(event), code, args.get("device", event["pid"]), args.get("stream", event["tid"]), *times, *ids
    return None


def expected_pairs(
    events: Sequence[Event], lane: Callable[[Event], Any], begins: str, ends: str
) -> tuple[list[tuple[Event, Event]], int]:
    """(begin and end of each range, how many events have no other)."""
    lanes: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in begins + ends:
            lanes[lane(event)].append(event)
    pairs, alone = [], 0
    for lane_events in lanes.values():
        stack: list[Event] = []
        for event in sorted(lane_events, key=lambda e: e["ts"]):
            if event["ph"] in begins:
                stack.append(event)
            elif stack:
                pairs.append((stack.pop(), event))
            else:
                alone += 1
        alone += len(stack)
    return pairs, alone


def on_thread(event: Event) -> Any:
    return event["pid"], event["tid"]


def by_id(event: Event) -> Any:
    return event["cat"], event["id"]


def host_rows(pairs: Sequence[tuple[Event, Event]]) -> list[Row]:
    return [
        ("host", name_of(b), HOST[b["cat"]], thread_of(b), ns(b["ts"]), ns(e["ts"]), -1, -1) for b, e in pairs if b["cat"] in HOST
    ]


def rows(trace: Trace, base_ns: int = 0) -> Counter[Row]:
    """All rows of all tables, at the times that stood in the file."""
    shift = trace.origin_ns - base_ns
    found: list[Row] = []
    for table, at in (("device", trace.device), ("marks", trace.device_marks)):
        columns = (at.name, at.category, at.device, at.stream, at.start_ns, at.end_ns, at.external_id, at.correlation)
        for name, category, device, stream, start, end, *ids in zip(*(c.tolist() for c in columns), strict=True):
            found.append((table, trace.names[name], category, device, stream, start + shift, end + shift, *map(fitting, ids)))
    at = trace.host
    columns = (at.name, at.category, at.thread, at.start_ns, at.end_ns, at.external_id, at.correlation)
    for name, category, thread, start, end, *ids in zip(*(c.tolist() for c in columns), strict=True):
        found.append(("host", trace.names[name], category, trace.threads[thread], start + shift, end + shift, *map(fitting, ids)))
    memory = trace.allocations
    found += [
        ("memory", start + shift, size) for start, size in zip(memory.time_ns.tolist(), memory.size_bytes.tolist(), strict=True)
    ]
    at = trace.slices
    columns = (at.name, at.kind, at.thread, at.start_ns, at.end_ns)
    for name, kind, thread, start, end in zip(*(c.tolist() for c in columns), strict=True):
        found.append(("slice", trace.names[name], kind, trace.threads[thread], start + shift, end + shift))
    return Counter(found)


def differences(found: Counter[Row], wanted: Counter[Row]) -> tuple[list[Row], list[Row]]:
    """What is too much and what lacks, some of each: pytest takes minutes to compare long ones."""
    return list(found - wanted)[:3], list(wanted - found)[:3]


def warned(trace: Trace) -> dict[str, int]:
    return {warning.code: warning.count for warning in trace.warnings}


def adds_up(trace: Trace) -> bool:
    c = trace.coverage
    return min(c.used, c.repaired, c.ignored, c.dropped) >= 0 and c.used + c.repaired + c.ignored + c.dropped == c.total


# Round trips

NASTY = st.sampled_from([
    '"', "\\", '\\"', "\\\\", "\\n", "\n", "\t", "\x00", "\x7f", "\u2028", "\ufeff", "😀", "\\u0041", "\\ud800", "}", "{", "]",
    "[", ",", ":", "}, {", '}, {"ph":', '},\n  {\n    "ph": "X"', '"traceEvents": [', '{"traceEvents": [{', "}]", "]}",
    ' ]} , "a": ', '", "pid": 1, "tid": "', "C:/temp/new", "é", "日本", "null", "NaN", "//", "/*", "'", " ",
])  # fmt: skip
MISREAD = re.compile(r"\(\d+\): |^[A-Za-z]:")  # with a control character: taken for a path whose backslashes are not escaped


def is_no_misread_path(name: str) -> bool:
    return not (re.search(r"[\x08-\x0d]", name) and MISREAD.search(name))


NAMES = st.lists(NASTY | st.text(max_size=6), max_size=6).map("".join).filter(is_no_misread_path)
IDS = st.sampled_from([0, 7, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**31), -(2**63), -(2**63) - 1])
BASES = st.sampled_from(["0", "5000000", "5199920890490.324", "8796093022207.001", "1796058431594887", "1790000000002501.610"])
THOUSANDTHS = st.integers(0, 10**6).map(lambda thousandths: Decimal(thousandths) / 1000)
DICTS = st.sampled_from(
    [[{"a": 1}, {"name": 2}], [{"ph": "X", "ts": 1}, {"ph": "X"}], [[{"args": {}}]], {"}, {": [{"name": {}}]}]
)


@st.composite
def torch_events(draw: st.DrawFn) -> list[Event]:
    """Events of any kind, as torch.profiler and tools that add to its files write them."""
    base, whole = Decimal(draw(BASES)), draw(st.booleans())
    found = [made for _ in range(draw(st.integers(0, 8))) for made in draw(torch_event(base))]
    sure = {"ph": "X", "cat": "cpu_op", "name": "sure", "pid": 1, "tid": 1, "ts": base + 1, "dur": Decimal(5), "args": {}}
    found.insert(draw(st.integers(0, len(found))), sure)
    return [{k: int(v) if isinstance(v, Decimal) and whole else v for k, v in event.items()} for event in found]


@st.composite
def torch_event(draw: st.DrawFn, base: Decimal) -> list[Event]:
    start, length, name = base + draw(THOUSANDTHS), draw(THOUSANDTHS), draw(NAMES)
    place = {"pid": draw(st.sampled_from([1, 2, "1", "Spans"])), "tid": draw(st.sampled_from([1, 2, "1", 2**40]))}
    ids = {key: draw(IDS) for key in draw(st.sets(st.sampled_from(["External id", "correlation"])))}
    args = ids | draw(st.sampled_from([{}, {"Ev Idx": 3}])) | ({"x": draw(DICTS)} if draw(st.booleans()) else {})
    at_once = {"name": name, **place, "ts": start}
    complete = {"ph": "X", **at_once, "dur": length}
    device = {**complete, "pid": 0, "tid": 7}
    pair = {"cat": draw(st.sampled_from(["cpu_op", "user_annotation", "ac2g"])), **place}
    asynchronous = {"cat": "async", "id": draw(st.integers(0, 1)), **place}
    return draw(st.sampled_from([
        [{**complete, "cat": "cpu_op", "args": args}],
        [{**complete, "cat": "user_annotation", "args": args}],
        [{**complete, "cat": "python_function", "args": {"Python id": 1}}],
        [{**complete, "cat": "cuda_runtime", "args": args}],
        [{**complete, "cat": "xpu_driver"}],
        [{**complete, "cat": "overhead", "args": {}}],
        [{**device, "cat": "kernel", "args": {"device": 3, "stream": 2**31, **args}}],
        [{**device, "cat": "gpu_memcpy", "args": args}],
        [{**device, "cat": "gpu_memset"}],
        [{**device, "cat": "kernel", "ts": Decimal(0), "args": args}],
        [{**device, "cat": "gpu_user_annotation", "args": args}],
        [{**complete, "cat": "brand new", "args": args}],
        [{**at_once, "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "args": {"Bytes": -64}}],
        [{**at_once, "ph": "i", "s": "g"}],
        [{**at_once, "ph": "C", "args": {"power": 0.5}}],
        [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": name}}],
        [{"ph": "s", "id": 5, **place, "ts": start, "cat": "ac2g", "name": name}],
        [{"ph": "f", "id": 5, **place, "ts": start, "cat": "ac2g", "name": name, "bp": "e"}],
        [{"ph": "B", **pair, "name": name, "ts": start}, {"ph": "E", **pair, "name": name, "ts": start + length}],
        [{"ph": draw(st.sampled_from("BE")), **pair, "name": name, "ts": start}],
        [{"ph": "b", **asynchronous, "name": name, "ts": start}, {"ph": "e", **asynchronous, "name": name, "ts": start + length}],
    ]))  # fmt: skip


def is_untimed(event: Event, first_ns: int) -> bool:
    return event["ph"] == "X" and event.get("cat") in DEVICE and event["ts"] == 0 and first_ns >= 10**9


@given(
    torch_events(), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(PLACES), st.sampled_from([escaped, escaped_utf8]), PIECES,
    st.sampled_from(sorted(PACKED)),
)  # fmt: skip
@examples(180)
def test_what_was_written_is_read_in_any_layout(
    events: list[Event], layout: str, place: str, quote: Any, sizes: tuple[int, int, int, int], packed: str
):
    content = PACKED[packed](file_text(events, LAYOUTS[layout], place, quote).encode())
    with kept(content), pieces(*sizes):
        trace = loaded(content)
        ranges, alone = expected_pairs(events, on_thread, "B", "E")
        _, alone_too = expected_pairs(events, by_id, "b", "e")
        wanted = [row for event in events if (row := expected_row(event))] + host_rows(ranges)
        first_ns = min(row[4] for row in wanted if row[0] == "host")
        untimed = [event for event in events if is_untimed(event, first_ns)]
        wanted_rows = Counter(wanted) - Counter(expected_row(event) for event in untimed)
        assert differences(rows(trace, AFTER["baseTimeNanoseconds"] if place in ("after", "both") else 0), wanted_rows) == (
            [],
            [],
        )
        assert adds_up(trace)
        c, dropped = trace.coverage, len(untimed) + alone + alone_too
        used = sum(wanted_rows.values()) + sum(b["cat"] in HOST for b, _ in ranges)
        assert (c.total, c.used, c.repaired, c.dropped) == (len(events), used, 0, dropped)
        assert c.by_category == Counter(e["cat"] if "cat" in e else f"(phase {e['ph']})" for e in events)
        large = {v for e in events if e["ph"] == "X" and e.get("cat") != "brand new" for v in ids_of(e) if fitting(v) != v}
        tables = (trace.host, trace.device, trace.device_marks, trace.untimed)
        kept_ids = np.concatenate([ids for table in tables for ids in (table.external_id, table.correlation)])
        assert len(np.unique(kept_ids[kept_ids >= OTHER_ID])) == len({*large})
        assert not warned(trace).keys() & {
            "truncated_file",
            "malformed_events",
            "broken_metadata",
            "raw_backslashes",
            "lost_arguments",
        }


def ids_of(event: Event) -> list[int]:
    args = event.get("args", {})
    return [args[key] for key in ("External id", "correlation") if key in args and (key == "External id" or not is_op(event))]


@st.composite
def foreign_events(draw: st.DrawFn) -> list[Event]:
    """Ranges as other tools write chrome traces: of any category or none, whole, in pairs, and asynchronous."""
    base = Decimal(draw(BASES))
    events: list[Event] = [{"ph": "X", "name": "sure", "pid": "p", "tid": 0, "ts": base, "dur": Decimal(1)}]
    for _ in range(draw(st.integers(0, 8))):
        start, length, name = base + draw(THOUSANDTHS), draw(THOUSANDTHS), draw(NAMES)
        common = {"name": name, "pid": draw(st.sampled_from([1, "1", "p"])), "tid": draw(st.integers(0, 2))}
        common |= draw(st.sampled_from([{}, {"cat": "function"}, {"cat": "}, {"}]))
        begin, end = draw(st.sampled_from(["BE", "be", "SF"]))
        pair = common if begin == "B" else {**common, "cat": "a", "id": draw(st.sampled_from([0, "0x1", 2**64]))}
        events += draw(st.sampled_from([
            [{"ph": "X", **common, "ts": start, "dur": length, "args": {"x": draw(DICTS)}}],
            [{"ph": begin, **pair, "ts": start}, {"ph": end, **pair, "ts": start + length}],
            [{"ph": draw(st.sampled_from([begin, end])), **pair, "ts": start}],
            [{"ph": "i", **common, "ts": start, "s": "g"}],
        ]))  # fmt: skip
    return events


@given(foreign_events(), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(["none", "bare list"]), PIECES)
@examples(60)
def test_ranges_of_other_tools_are_read_in_any_layout(
    events: list[Event], layout: str, place: str, sizes: tuple[int, int, int, int]
):
    content = file_text(events, LAYOUTS[layout], place).encode()
    with kept(content), pieces(*sizes):
        trace = loaded(content)
        ranges, alone = expected_pairs(events, on_thread, "B", "E")
        asynchronous, alone_too = expected_pairs(events, by_id, "bS", "eF")
        whole = [(e, {"ts": e["ts"] + e["dur"]}, t.HOST_SLICE) for e in events if e["ph"] == "X"]
        pairs = [(*pair, kind) for kind, found in ((t.HOST_SLICE, ranges), (t.ASYNC_SLICE, asynchronous)) for pair in found]
        wanted = [("slice", name_of(b), kind, thread_of(b), ns(b["ts"]), ns(e["ts"])) for b, e, kind in whole + pairs]
        assert differences(rows(trace), Counter(wanted)) == ([], [])
        assert adds_up(trace)
        c = trace.coverage
        assert (c.total, c.used, c.dropped) == (len(events), len(whole) + 2 * len(pairs), alone + alone_too)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_many_events_are_read_in_any_layout(layout: str):
    """Longer than all the pieces that a file is read in."""
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": NASTY_NAMES[i % len(NASTY_NAMES)], "pid": 1, "tid": i % 3, "ts": Decimal(i) / 8,
            "dur": Decimal(i % 7) / 1000, "args": {"External id": i, "x": [{"name": 1}, {"ph": "X", "args": {}}] if i % 5 else 1},
        }
        for i in range(9000)
    ]  # fmt: skip
    content = file_text(events, LAYOUTS[layout], "both").encode()
    assert len(content) > reading.BROKEN_BYTES
    trace = loaded(content)
    assert differences(rows(trace, AFTER["baseTimeNanoseconds"]), Counter(expected_row(event) for event in events)) == ([], [])
    assert trace.coverage.total == trace.coverage.used == len(events)


NASTY_NAMES = ["aten::mm", '}, {"ph": "X"', '"traceEvents": [', "a\\b", 'say "hi"', "}]}", "日本 😀", "},\n  {\n", "void f<g>(h)"]


# A file that was cut off

ON_THREAD = {"cat": "cpu_op", "pid": 1, "tid": 1}
CUT_EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
    {"ph": "X", "name": 'a"}, {"', **ON_THREAD, "ts": Decimal(7), "dur": Decimal(2), "args": {"x": [{}, {"ph": 1}]}},
    {"ph": "X", "name": "b\\", **ON_THREAD, "ts": Decimal(8), "dur": Decimal("0.5")},
    {"ph": "X", "name": "c", **ON_THREAD, "ts": Decimal("9.125"), "dur": Decimal(1), "args": {"y": "z"}},
]
SHORT = {"schemaVersion": 1}


def cut_file(layout: str) -> tuple[bytes, list[int]]:
    """A small file and where each of its events ends."""
    chosen = LAYOUTS[layout]
    text = file_text(CUT_EVENTS, chosen, "both", head=SHORT, after={"n": {"m": [1]}})
    ends, at = [], 0
    for event in CUT_EVENTS:
        one = chosen.event(event, escaped)
        at = text.index(one, at) + len(one)
        ends.append(at)
    return text.encode(), ends


@pytest.mark.parametrize("layout", ["kineto old", "kineto new", "compact"])
def test_a_cut_at_any_byte_keeps_the_whole_events_and_says_so(layout: str):
    text, ends = cut_file(layout)
    names = [event["name"] for event in CUT_EVENTS if event["ph"] == "X"]
    for cut in range(len(text)):
        whole = sum(end <= cut for end in ends)
        with kept(text[:cut]):
            try:
                trace = loaded(text[:cut])
            except BundleError as refusal:
                assert whole < 2, (cut, refusal)  # the first is no range
                assert is_one_line(refusal)
                continue
            assert [trace.names[row] for row in trace.host.name.tolist()] == names[: whole - 1], cut
            assert adds_up(trace)
            c = trace.coverage
            assert (c.used, c.ignored, c.dropped) == (whole - 1, 1, c.total - whole)
            assert c.dropped <= 1
            assert ("truncated_file" in warned(trace)) == (text[cut:].strip() != b""), cut


@pytest.mark.parametrize("layout", sorted(KINETO))
def test_a_packed_file_cut_at_any_byte_keeps_its_first_events_and_says_so(layout: str):
    packed = gzip.compress(cut_file(layout)[0], mtime=0)
    names = [event["name"] for event in CUT_EVENTS if event["ph"] == "X"]
    for cut in range(len(packed)):
        with kept(packed[:cut]):
            if (trace := trace_or_line(packed[:cut])) is None:
                continue
            assert [trace.names[row] for row in trace.host.name.tolist()] == names[: len(trace.host)]
            assert trace.coverage.dropped <= 1
            assert "truncated_file" in warned(trace)


def is_one_line(refusal: BundleError) -> bool:
    return "given.json" in str(refusal) and "\n" not in str(refusal)


def trace_or_line(content: bytes) -> Trace | None:
    """A trace whose events add up, or None where the file is refused in one line that names it."""
    try:
        trace = loaded(content)
    except BundleError as refusal:
        assert is_one_line(refusal)
        return None
    assert adds_up(trace)
    return trace


# Bytes that changed


@cache
def sources() -> dict[str, bytes]:
    """Small files as people have them: made, of torch where it is installed, and the shared ones."""
    events = [
        *loop([100, 100], lambda start, end: [op("aten::mm", start, end - 20, **{"External id": 3, "Input Dims": [[2, 3], []]})]),
        launch(4, 10, 12), kernel("gemm<float, 3>", 20, 60, correlation=4, grid=[1, 2, 3]), kernel("Memcpy é", 70, 80),
    ]  # fmt: skip
    found = {"made": trace_text(events).encode()}
    found |= {f"made, {name}": file_text(CUT_EVENTS * 3, layout, "both").encode() for name, layout in LAYOUTS.items()}
    for name in ("hta_triton", "hta_amd", "torch_compile_triton"):
        if (path := SHARED / "traces" / f"{name}.json.gz").is_file():
            found[name] = gzip.decompress(path.read_bytes())
    return found | torch_file()


def torch_file() -> dict[str, bytes]:
    try:
        import torch
    except ImportError:
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        torch.ones(4).sum()
        profiler.step()
    path = Path(folder().name, "torch.json")
    profiler.export_chrome_trace(str(path))
    return {"torch": path.read_bytes()}


SOURCES = st.deferred(lambda: st.sampled_from(sorted(sources())))
BYTES = st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\n", b"0", b"-", b"e", b".", b" "]
) | st.binary(min_size=1, max_size=1)
EDITS = st.tuples(st.sampled_from(["change", "insert", "delete"]), st.integers(0, 10**9), BYTES)


@cache
def original(name: str) -> tuple[Trace, Counter[Row]]:
    trace = loaded(sources()[name])
    return trace, rows(trace)


def events_in(content: bytes) -> tuple[int, int]:
    """Where the list of events begins and ends."""
    key = reading.EVENTS_KEY.search(content)
    assert key
    return key.end(), json.JSONDecoder().raw_decode(content.decode("latin-1"), key.end() - 1)[1] - 1


def edited(content: bytes, first: int, last: int, edits: Sequence[tuple[str, int, bytes]]) -> bytes:
    """Bytes changed in a part of the content."""
    for kind, place, new in edits:
        at = first + place % (last - first)
        content = content[:at] + (b"" if kind == "delete" else new) + content[at + (kind != "insert") :]
    return content


def lost(trace: Trace) -> int:
    """Events that are named as lost, or set aside by what their kind says."""
    return trace.coverage.dropped


@given(SOURCES, EDITS)
@examples(350)
def test_a_changed_byte_among_the_events_costs_one_event_or_is_told(name: str, edit: tuple[str, int, bytes]):
    content = sources()[name]
    broken = edited(content, *events_in(content), [edit])
    before, wanted = original(name)
    with kept(broken):
        if (trace := trace_or_line(broken)) is None:
            return
        found = rows(trace)
        changed, missing = (found - wanted).total(), (wanted - found).total()
        named = trace.coverage.dropped - before.coverage.dropped
        assert changed <= 1
        assert missing <= 1 + named
        assert missing <= 2, "only the events at the broken place"
        if not warned(trace).keys() - warned(before).keys():
            assert trace.coverage.total == before.coverage.total
        if "truncated_file" not in warned(trace):
            assert trace.coverage.total >= before.coverage.total


@given(SOURCES, st.lists(EDITS, min_size=2, max_size=6))
@examples(150)
def test_changed_bytes_anywhere_give_a_trace_that_adds_up_or_a_line(name: str, edits: list[tuple[str, int, bytes]]):
    content = sources()[name]
    broken = edited(content, 0, len(content), edits)
    with kept(broken):
        if trace := trace_or_line(broken):
            assert rows(trace).total() <= trace.coverage.total


@given(SOURCES, EDITS)
@examples(150)
def test_a_changed_byte_of_a_packed_file_is_noticed(name: str, edit: tuple[str, int, bytes]):
    packed = gzip.compress(sources()[name], 1, mtime=0)
    broken = edited(packed, 0, len(packed), [edit])
    with kept(broken):
        if trace := trace_or_line(broken):
            assert "truncated_file" in warned(trace) or rows(trace) == original(name)[1]


# Names that were not escaped

RAW_PARTS = st.sampled_from([
    '"', '""', "\n", "\t", "\x01", "\x00", "\x7f", "}", "{", "]", "[", ", ", ": ", "}, {", "},\n  {", "}]", "]}", "'", "é",
    "日本", 'f("x", "y")', 'a="b"', '{"k": 1}', '"traceEvents": [', "aten::mm", " ",
])  # fmt: skip
LOOKS_LIKE_THE_END = re.compile(r'"\s*(?:$|[}\]]|:|,\s*"[^"]*"\s*:)')  # no reader can tell the name from what follows it
RAW_NAMES = st.lists(RAW_PARTS, min_size=1, max_size=5).map("".join).filter(lambda name: not LOOKS_LIKE_THE_END.search(name))
PATHS = st.sampled_from(["C:\\users\\me", "\\d+\\w", "a\\ b", "C:\\temp\\new", "\\", "x\\", "\\\\host\\share", "\\u12", "tab\\t"])


def raw_event(i: int, name: str) -> Event:
    args = {"External id": i, "x": [{"a": 1}, {"name": 2}]} if i % 3 else {"External id": i}
    times = {"ts": Decimal(5199920890490324 + i) / 1000, "dur": Decimal(3)}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, **times, "args": args}


def raw_text(names: Sequence[str], layout: str) -> bytes:
    return file_text([raw_event(i, name) for i, name in enumerate(names)], LAYOUTS[layout], "both", unescaped).encode()


@given(st.lists(RAW_NAMES | st.just("healthy"), min_size=1, max_size=6), st.sampled_from(sorted(KINETO)), PIECES)
@examples(150)
def test_names_with_quotes_and_control_characters_that_were_not_escaped_are_read_as_they_were(
    names: list[str], layout: str, sizes: tuple[int, int, int, int]
):
    content = raw_text(names, layout)
    with kept(content), pieces(*sizes):
        trace = loaded(content)
        wanted = Counter(expected_row(raw_event(i, name)) for i, name in enumerate(names))
        assert differences(rows(trace, AFTER["baseTimeNanoseconds"]), wanted) == ([], [])
        assert adds_up(trace)
        assert trace.coverage.total == len(names)
        assert trace.coverage.repaired <= sum(name != "healthy" for name in names)


@given(st.lists(PATHS | st.just("healthy") | RAW_NAMES, max_size=5), st.integers(0, 5), st.sampled_from(sorted(KINETO)), PIECES)
@examples(100)
def test_names_with_backslashes_that_were_not_escaped_are_read_as_they_were(
    names: list[str], at: int, layout: str, sizes: tuple[int, int, int, int]
):
    """One name at least shows that its backslash begins no escape."""
    names = [*names[:at], "C:\\me", *names[at:]]
    assume(not any('\\"' in name for name in names))
    content = raw_text(names, layout)
    with kept(content), pieces(*sizes):
        trace = loaded(content)
        wanted = Counter(expected_row(raw_event(i, name)) for i, name in enumerate(names))
        assert differences(rows(trace, AFTER["baseTimeNanoseconds"]), wanted) == ([], [])
        assert trace.coverage.total == len(names)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_a_broken_event_costs_its_neighbours_nothing_in_any_layout(layout: str):
    names = ["one", "two", 'say "hi" to', "three", "four"]
    trace = loaded(raw_text(names, layout))
    assert differences(
        rows(trace, AFTER["baseTimeNanoseconds"]), Counter(expected_row(raw_event(i, name)) for i, name in enumerate(names))
    ) == ([], [])
    assert trace.coverage.repaired == 1


# What was found this way


def one_op(**fields: Any) -> Event:
    return {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1, **fields}


@pytest.mark.parametrize("dims", ['["\xff"]', f"[{'1' * 5000}]"], ids=["no UTF-8", "5,000 digits"])
def test_shapes_that_cannot_be_read_are_counted(dims: str):
    text = json.dumps({"traceEvents": [one_op(args={"Input Dims": "DIMS"}), one_op()]}).replace('"DIMS"', dims)
    trace = loaded(text.encode("latin-1"))
    assert (trace.coverage.used, warned(trace)["lost_arguments"]) == (2, 1)


def test_a_category_for_each_of_many_events_is_no_trouble():
    trace = loaded(json.dumps([{**one_op(), "cat": f"own {i}"} for i in range(33_000)]).encode())
    assert len(trace.slices) == 33_000


def test_times_that_no_recording_can_hold_are_refused():
    content = json.dumps([one_op(ts=-4 * 10**15), one_op(ts=4 * 10**15, dur=4 * 10**15)]).encode()
    with pytest.raises(BundleError, match="292 years apart"):
        loaded(content)


@pytest.mark.parametrize("junk", [bytes(512), b"junk"], ids=["zeros", "text"])
def test_what_follows_a_packed_file_is_ignored_wherever_the_file_ends(junk: bytes):
    packed = gzip.compress(json.dumps([one_op()]).encode())
    longer = bytes([4]) + packed[4:10] + (streams.INPUT_BYTES - len(packed) - 2).to_bytes(2, "little")  # with an extra field
    whole = packed[:3] + longer + bytes(streams.INPUT_BYTES - len(packed) - 2) + packed[10:]
    assert len(whole) == streams.INPUT_BYTES
    assert warned(loaded(whole + junk)).keys() == warned(loaded(whole)).keys() == {"wrong_suffix"}


@pytest.mark.parametrize(
    ("broken", "codes"),
    [
        ("{EVENT}", set()), ("[{EVENT}", {"broken_borders"}), ("EVENT}", {"broken_borders"}),
        ('{EVENT,"args":{}', {"broken_borders"}), ('{EVENT,"args":{"x":]}}', {"lost_arguments"}),
        ('{EVENT,"args":{"x":[{"name":1},{"id":2}],"y":"a"b"}}', {"unescaped_quotes"}), ("{,EVENT,,}", {"stray_commas"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_broken_event_is_mended_and_its_neighbours_stay(broken: str, codes: set[str], place: str):
    around = [json.dumps(one_op(name=name, args={"x": [{"name": 1}, {"name": 2}]})) for name in ("before", "after")]
    broken = broken.replace("EVENT", json.dumps(one_op())[1:-1])
    at = {"first": 0, "middle": 1, "last": 2}[place]
    trace = loaded(f'{{"schemaVersion":1,"traceEvents":[{",".join([*around[:at], broken, *around[at:]])}]}}'.encode())
    assert sorted(trace.names) == ["a", "after", "before"]
    assert warned(trace).keys() == codes
    assert trace.coverage.total == 3


# Large files


def large(count: int, pid: int = 1, base: int = 10**6) -> list[Event]:
    own = {"ph": "X", "cat": "cpu_op", "pid": pid, "tid": pid, "dur": Decimal(1)}
    return [
        {"name": f"aten::op{i % 50}", **own, "ts": Decimal(base + i), "args": {"External id": i, "Ev Idx": i}}
        for i in range(count)
    ]


@given(
    st.sampled_from(sorted(KINETO)),
    st.sets(st.integers(0, 7999), min_size=1, max_size=6),
    st.sampled_from(['x"y', "a\nb", "\\d"]),
)
@examples(4)
def test_broken_events_in_a_large_file_cost_nothing(layout: str, places: set[int], name: str):
    events = [{**event, "name": name} if i in places else event for i, event in enumerate(large(8000))]
    content = file_text(events, LAYOUTS[layout], "before", unescaped).encode()
    assert len(content) > 10**6
    with kept(content):
        trace = loaded(content)
        assert differences(rows(trace), Counter(expected_row(event) for event in events)) == ([], [])
        repaired = 0 if "\\" in name else len(places)  # backslashes are read by another rule, and nothing else was wrong
        assert (trace.coverage.total, trace.coverage.repaired) == (8000, repaired)


@given(st.sampled_from(sorted(LAYOUTS)), st.integers(0, 1000))
@examples(15)
def test_two_traces_in_blocks_of_one_file_are_refused(layout: str, more: int):
    one, two = (file_text(large(1500 + n, pid, 10**6 + 7 * n), LAYOUTS[layout]).encode() for pid, n in ((1, 0), (2, more)))
    blocks = [text[at : at + 4096] for at in range(0, max(len(one), len(two)), 4096) for text in (one, two)]
    content = b"".join(blocks)
    with kept(content), pytest.raises(BundleError) as refusal:
        loaded(content)
    assert is_one_line(refusal.value)


@given(st.sampled_from(sorted(LAYOUTS)), st.integers(1, 2000), st.sampled_from(PLACES))
@examples(12)
def test_a_trace_written_over_a_longer_one_is_refused(layout: str, count: int, place: str):
    longer = file_text(large(2500), LAYOUTS[layout], place).encode()
    shorter = file_text(large(count, 2), LAYOUTS[layout], place).encode()
    content = shorter + longer[len(shorter) :]
    with kept(content), pytest.raises(BundleError) as refusal:
        loaded(content)
    assert is_one_line(refusal.value)


@given(st.sampled_from(sorted(KINETO)), st.integers(0, 10**6), st.integers(1, 9000))
@examples(8)
def test_zero_bytes_in_the_middle_cost_the_events_below_them(layout: str, place: int, length: int):
    events = large(6000)
    content = bytearray(file_text(events, LAYOUTS[layout], "both").encode())
    at = 2000 + place % (len(content) - length - 4000)
    content[at : at + length] = bytes(length)
    with kept(bytes(content)):
        trace = loaded(bytes(content))
        wanted, found = Counter(expected_row(event) for event in events), rows(trace, AFTER["baseTimeNanoseconds"])
        below = length // 80 + 2
        assert (found - wanted).total() <= 1
        assert (wanted - found).total() <= below
        assert warned(trace)


EVENT = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
PARTS = [
    b"\0", b"[", b"{", b'{"a":', b'"', b"]", b"}]", b"[{", b"},{", b'{"name":"', b'"},{"ph":"', b'\\"', b",", b"}]}", b" ", b"\n",
    b'{"traceEvents":[', b'"traceEvents":[', b'{"ph":"X","args":', b',"args":', b"[[],", b"{},", b"0", b'}],"a":[{', b'"a":',
    b'{"ph":1},',
]  # fmt: skip
AROUND = [
    (b"", b""), (b"[", b""), (b'{"traceEvents":[' + EVENT + b",", b'"},' + EVENT + b"]}"),
    (b'{"traceEvents":[' + EVENT + b',{"name":"', b'"},' + EVENT + b"]}"),
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=repr)
@pytest.mark.parametrize("around", AROUND, ids=["alone", "in a list", "between events", "in a name"])
def test_megabytes_of_nothing_are_dealt_with_quickly(part: bytes, around: tuple[bytes, bytes]):
    length = 5 * 10**6 if FUZZ or not around[0] else 2 * 10**5
    content = around[0] + part * (length // len(part)) + around[1]
    with kept(content):
        trace_or_line(content)
