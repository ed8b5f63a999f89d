import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_trace import allocation, kernel, launch, make_trace, op, step, write_bundle, write_trace
from same_trace import differences

from longpole.analyze.load import load
from longpole.analyze.loading.cached import clear, kept
from longpole.reports.cli import cli

EVENTS = [
    [step(1, 0, 100), op("aten::mm", 10, 40, **{"External id": 7, "Input Dims": [[2, 3]]})],
    [launch(1, 20, 25), kernel("gemm", 30, 60, correlation=1, grid=[1, 2, 3], bytes=5), allocation(50, 64)],
    [{"ph": "X", "cat": "new", "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}, {**op("bad", 1, 2), "dur": -1}],
]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_what_the_cache_gives_back_is_what_was_parsed(tmp_path: Path, cache: Path):
    path = write_trace(tmp_path / "trace.json", *EVENTS)
    parsed = load(path)
    assert differences(load(path, cache=cache), parsed) == []
    assert kept(cache)[0] == 1
    assert differences(load(path, cache=cache), parsed) == []
    assert make_trace(*EVENTS).warnings == parsed.warnings


def test_what_was_kept_is_used(tmp_path: Path, cache: Path):
    path = write_trace(tmp_path / "trace.json", *EVENTS)
    load(path, cache=cache)
    told: list[int] = []
    load(path, cache=cache, progress=lambda read, total, events: told.append(events))
    assert told == []


def test_a_file_that_changed_is_parsed_again_also_with_the_same_size_and_time(tmp_path: Path, cache: Path):
    path = write_trace(tmp_path / "trace.json", [op("first", 0, 100)])
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    load(path, cache=cache)
    write_trace(path, [op("other", 0, 100)])
    os.utime(path, ns=times)
    assert load(path, cache=cache).names == ("other",)


def test_what_is_damaged_in_the_cache_is_parsed_again(tmp_path: Path, cache: Path):
    path = write_trace(tmp_path / "trace.json", *EVENTS)
    parsed = load(path, cache=cache)
    for file in cache.glob("*/host.*.npy"):
        file.write_bytes(b"\x93NUMPY damaged")
    assert differences(load(path, cache=cache), parsed) == []
    told: list[int] = []
    load(path, cache=cache, progress=lambda read, total, events: told.append(events))
    assert told == [], "what was damaged was not kept anew"


def test_a_bundle_keeps_its_manifest_and_its_snapshot(tmp_path: Path, cache: Path):
    folder = write_bundle(tmp_path / "run", *EVENTS, snapshot=[], mode="training")
    parsed = load(folder, cache=cache)
    again = load(folder, cache=cache)
    assert differences(again, parsed) == []
    assert again.manifest is not None
    assert again.averages is not None


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path: Path):
    path = write_trace(tmp_path / "trace.json", *EVENTS)
    (tmp_path / "file").write_text("")
    assert len(load(path, cache=tmp_path / "file" / "cache").host) == 3


def test_clearing_removes_what_was_kept_and_nothing_else(tmp_path: Path, cache: Path):
    load(write_trace(tmp_path / "trace.json", *EVENTS), cache=cache)
    (cache / "mine.txt").write_text("keep")
    count, size_bytes = clear(cache)
    assert count == 1
    assert size_bytes > 1000
    assert [path.name for path in cache.iterdir()] == ["mine.txt"]


def test_the_command_shows_and_clears_the_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LONGPOLE_CACHE", str(cache))
    path = str(write_trace(tmp_path / "trace.json", *EVENTS))
    first, second = (CliRunner().invoke(cli, ["summary", path, "--json", "--cache"]).output for _ in range(2))
    assert first == second
    assert CliRunner().invoke(cli, ["cache"]).output.startswith("Kept 1 parsed trace,")
    assert CliRunner().invoke(cli, ["cache", "clear"]).output.startswith("Removed 1 parsed trace,")
    assert CliRunner().invoke(cli, ["cache"]).output.startswith("Kept 0 parsed traces")
