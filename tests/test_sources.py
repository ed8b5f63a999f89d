"""What a user may name, and what is read for it."""

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
import zstandard
from make_trace import kernel, op, step, trace_text, write_bundle, write_trace

from longpole.analyze.load import load, load_run
from longpole.analyze.loading.sources import rank_in
from longpole.capture.errors import BundleError

ONE_STEP = [step(1, 0, 100), op("aten::mm", 10, 40)]
TEXT = trace_text(ONE_STEP).encode()


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def op_names(path: Path | str, **options: Any) -> list[str]:
    trace = load(path, **options)
    return [trace.names[row] for row in trace.host.name]


# Packed files


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gzip", "zstd"]
)  # fmt: skip
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.zst", "trace"])
def test_a_packing_is_told_by_the_first_bytes(tmp_path: Path, name: str, pack: Any):
    path = tmp_path / name
    path.write_bytes(pack(TEXT))
    assert op_names(path) == ["ProfilerStep#1", "aten::mm"]


def test_a_name_that_promises_another_packing_is_noted_and_harmless(tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(TEXT))
    (note,) = load(path).warnings
    assert (note.code, note.harmless) == ("wrong_suffix", True)
    assert ".json promises plain text, it is gzip" in note.message


def test_gzip_files_put_one_after_the_other_are_one_text(tmp_path: Path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:]) + bytes(512))
    assert op_names(path) == ["ProfilerStep#1", "aten::mm"]
    assert load(path).warnings == ()


def test_the_one_trace_in_a_zip_is_read(tmp_path: Path):
    path = zipped(tmp_path / "issue.zip", {"run/rank3_trace.json": TEXT, "__MACOSX/run/._trace.json": b"x", "readme.txt": b"x"})
    trace = load(path)
    assert (len(trace.host), trace.source.rank) == (2, 3)
    assert trace.source.files[0].name == "rank3_trace.json"


def test_a_gzip_file_in_a_zip_is_read(tmp_path: Path):
    assert len(load(zipped(tmp_path / "issue.zip", {"trace.json.gz": gzip.compress(TEXT)})).host) == 2


def test_a_zip_with_several_traces_is_refused_and_names_them(tmp_path: Path):
    path = zipped(tmp_path / "issue.zip", {"a.json": TEXT, "b.json": TEXT})
    with pytest.raises(BundleError, match=r"issue\.zip holds 2 traces \(a\.json, b\.json\); unpack it"):
        load(path)


@pytest.mark.parametrize("members", [{}, {"readme.txt": b"hello"}], ids=["empty", "no trace"])
def test_a_zip_without_a_trace_is_refused(tmp_path: Path, members: dict[str, bytes]):
    with pytest.raises(BundleError, match="holds no trace"):
        load(zipped(tmp_path / "issue.zip", members))


def test_a_damaged_zip_is_refused(tmp_path: Path):
    path = zipped(tmp_path / "issue.zip", {"a.json": TEXT})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BundleError, match="damaged zip"):
        load(path)


def test_a_zipped_bundle_with_a_damaged_manifest_is_refused(tmp_path: Path):
    path = zipped(tmp_path / "x.zip", {"manifest.json": bytes(1000)})
    text = bytearray(path.read_bytes())
    text[len("PK") + 41] ^= 255  # in its packed text
    path.write_bytes(text)
    with pytest.raises(BundleError, match=r"x\.zip is a damaged or encrypted zip file"):
        load(path)


def test_an_archive_in_an_archive_is_refused(tmp_path: Path):
    inner = zipped(tmp_path / "inner.zip", {"a.json": TEXT}).read_bytes()
    with pytest.raises(BundleError, match="archive inside an archive"):
        load(zipped(tmp_path / "outer.zip", {"trace.json": inner}))


@pytest.mark.parametrize("suffix", ["json.gz", "zip", "json.zst"])
def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused_and_the_limit_can_be_raised(tmp_path: Path, suffix: str):
    text = TEXT + b" " * 3_000_000
    path = tmp_path / f"trace.{suffix}"
    if suffix == "zip":
        zipped(path, {"a.json": text})
    else:
        path.write_bytes(gzip.compress(text) if suffix == "json.gz" else zstandard.compress(text))
    with pytest.raises(BundleError, match=r"unpacks to more than 0\.001 GB.*--max-gb"):
        load(path, largest_bytes=1_000_000)
    assert len(load(path, largest_bytes=4_000_000).host) == 2


def test_a_plain_file_has_no_limit(tmp_path: Path):
    assert len(load(write_trace(tmp_path / "trace.json", ONE_STEP), largest_bytes=10).host) == 2


# Bundles


def test_a_zipped_bundle_is_a_bundle(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP, snapshot=[], mode="training")
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"run/{file.name}")
    trace = load(path)
    assert (len(trace.host), trace.averages) == (2, {"torch": "2.13.0", "rows": []})
    assert trace.manifest is not None
    assert trace.manifest.mode == "training"
    assert trace.source.files[0].sha256 == trace.manifest.ranks[0].trace.sha256


def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["ranks"][0]["trace"]["name"] = "../secret.json"
    write_trace(tmp_path / "secret.json", ONE_STEP)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="lacks"):
        load(folder)


# Ranks


def rank_text(rank: int | None, duration: float = 100) -> bytes:
    extra = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    return trace_text([step(1, 0, duration)], [kernel("gemm", 10, 20)], **extra).encode()


def windows(traces: tuple[Any, ...]) -> dict[int | None, int]:
    return {trace.source.rank: trace.window_ns for trace in traces}


def test_a_folder_of_torchs_handler_is_a_run_with_a_rank_for_each_worker(tmp_path: Path):
    (tmp_path / "host_77.1700000000001.pt.trace.json").write_bytes(rank_text(1, 300))
    (tmp_path / "host_78.1700000000002.pt.trace.json.gz").write_bytes(gzip.compress(rank_text(0, 200)))
    (tmp_path / "config.json").write_text("{}")
    traces = load_run([tmp_path])
    assert windows(traces) == {0: 200_000, 1: 300_000}
    assert [trace.source.rank for trace in traces] == [0, 1]
    assert [(w.code, w.harmless) for trace in traces for w in trace.warnings] == [("other_files", True)]


def test_of_several_windows_of_a_worker_the_last_is_read_and_the_others_are_named(tmp_path: Path):
    for time, duration in ((1, 100), (10, 200), (9, 300)):
        (tmp_path / f"host_77.{time}.pt.trace.json").write_bytes(rank_text(None, duration))
    trace = load(tmp_path)
    assert trace.window_ns == 200_000
    (warning,) = trace.warnings
    assert (warning.code, warning.count) == ("older_windows", 2)
    assert "host_77.1.pt.trace.json, host_77.9.pt.trace.json" in warning.message


@pytest.mark.parametrize("processes", [1, 2])
def test_several_files_are_ranks_by_their_names_or_their_places(tmp_path: Path, processes: int):
    named = [tmp_path / "profile_3.json", tmp_path / "other.json"]
    for path, duration in zip(named, (300, 100), strict=True):
        path.write_bytes(rank_text(None, duration))
    assert windows(load_run(named, processes=processes)) == {1: 100_000, 3: 300_000}


def test_a_glob_is_the_files_it_matches(tmp_path: Path):
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_bytes(rank_text(None, 100 + rank))
    assert windows(load_run([str(tmp_path / "rank*.json")])) == {0: 100_000, 1: 101_000}
    with pytest.raises(BundleError, match="matches no file"):
        load_run([str(tmp_path / "rank*.gz")])


def test_two_files_of_one_rank_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json", "c.json"):
        Path(name).write_bytes(rank_text(1 if name < "c" else 2))
    with pytest.raises(BundleError, match=r"^a\.json and b\.json are both of rank 1; name one file for each rank\.$"):
        load_run(["a.json", "b.json", "c.json"])


def test_two_runs_given_as_ranks_of_one_are_sent_to_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("before", "after it"):
        write_bundle(Path(name), ONE_STEP)
    with pytest.raises(BundleError, match=r"both of rank 0; .* compare two runs: longpole diff before 'after it'$"):
        load_run(["before", "after it"])


def test_a_single_file_is_its_own_rank(tmp_path: Path):
    assert load(write_trace(tmp_path / "trace.json", ONE_STEP)).source.rank is None


def test_all_ranks_of_a_bundle_are_read(tmp_path: Path):
    folder = write_bundle(tmp_path / "run", ONE_STEP)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["ranks"] = [{**manifest["ranks"][0], "rank": rank} for rank in (0, 1)]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert windows(load_run([folder])) == {0: 100_000, 1: 100_000}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.trace.json", 3), ("trace_rank_12.json.gz", 12), ("profile_0.json", 0), ("trace_rank-7.json", 7), ("r1.json", 1),
        ("frank3.json", None), ("trace.json", None), ("resnet50.json", None), ("/runs/rank5/trace.json", None),
        ("worker-1_5678.17.pt.trace.json", None), ("node-r7_5678.17.pt.trace.json.gz", None), ("worker0.17.pt.trace.json", 0),
        ("rank3_5678.17.pt.trace.json", 3), ("worker_3.17.pt.trace.json", 3),
    ],
)  # fmt: skip
def test_the_rank_stands_in_the_file_name(name: str, rank: int | None):
    assert rank_in(name) == rank


@pytest.mark.parametrize("content", [None, "config.json"])
def test_a_folder_without_traces_is_refused(tmp_path: Path, content: str | None):
    if content:
        (tmp_path / content).write_text('{"layers": 3}')
    with pytest.raises(BundleError, match=r"without a manifest\.json and without traces"):
        load(tmp_path)


# Snapshots


def test_a_snapshot_alone_is_a_trace_without_a_timeline(tmp_path: Path):
    path = tmp_path / "averages.json"
    path.write_text(json.dumps({"torch": "2.13.0", "rows": [{"key": "aten::mm", "count": 3}]}))
    trace = load(path)
    assert (trace.source.producer, trace.window_ns, len(trace.host)) == ("key_averages snapshot", 0, 0)
    assert trace.snapshot is not None
    assert trace.snapshot["rows"][0]["count"] == 3


# Standard input and URLs


def test_standard_input_is_read_also_where_the_file_must_be_read_twice(monkeypatch: pytest.MonkeyPatch):
    text = trace_text([step(1, 0, 100), op(r"C:\cuda\new", 10, 40)]).replace("\\\\", "\\")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(text.encode()))))
    trace = load("-")
    assert trace.names == ("ProfilerStep#1", r"C:\cuda\new")
    assert trace.source.files[0].name == "standard input"


def test_a_url_is_streamed(tmp_path: Path):
    with fsspec.open("memory://traces/rank2.json.gz", "wb") as file:
        file.write(gzip.compress(TEXT))  # type: ignore[union-attr]
    trace = load("memory://traces/rank2.json.gz")
    assert (len(trace.host), trace.source.rank) == (2, 2)


def test_a_url_that_leads_nowhere_is_refused():
    with pytest.raises(BundleError, match=r"memory://nowhere\.json does not exist"):
        load("memory://nowhere.json")
    with pytest.raises(BundleError, match="cannot be opened"):
        load("nosuchprotocol://nowhere.json")


@pytest.mark.parametrize(
    ("package", "name", "says"),
    [("zstandard", "trace.zst", r'"longpole\[zst\]"'), ("fsspec.core", "memory://a.json", r'"longpole\[remote\]"')],
)
def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, says: str):
    (tmp_path / "trace.zst").write_bytes(zstandard.compress(TEXT))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BundleError, match=says):
        load(name if "://" in name else tmp_path / name)


# Trouble with the file itself


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="file permissions of this kind are POSIX's")
def test_a_file_without_permission_is_refused(tmp_path: Path):
    path = write_trace(tmp_path / "secret.json", ONE_STEP)
    path.chmod(0)
    code = (
        "import os, sys; from longpole.analyze.load import load; from longpole.capture.errors import BundleError\n"
        "if os.getuid() == 0: os.seteuid(65534)\n"
        "try: load(sys.argv[1])\n"
        "except BundleError as refusal: print(refusal)"
    )
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert f"{path} cannot be read: Permission denied." in done.stdout


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path):
    path = write_trace(tmp_path / "trace.json", [op("aten::mm", i, i + 1) for i in range(60_000)])  # more than is read ahead
    grown = []

    def grow(read: int, total: int | None, events: int) -> None:
        if not grown:
            with path.open("ab") as file:
                file.write(b" ")
            grown.append(read)

    with pytest.raises(BundleError, match="changed while it was read; wait until the capture has written it"):
        load(path, progress=grow)


def test_progress_tells_bytes_and_events(tmp_path: Path):
    path = write_trace(tmp_path / "trace.json", [op("aten::mm", i, i + 1) for i in range(20_000)])
    told: list[tuple[int, int | None, int]] = []
    load(path, progress=lambda *now: told.append(now))
    assert told[-1] == (path.stat().st_size, path.stat().st_size, 20_000)
    assert len(told) > 3
    assert told == sorted(told)
