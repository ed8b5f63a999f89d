"""Several ranks, one folder: in any order, over what lay there before, and nothing of another rank is taken away."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from longpole.analyze.loading.sources import Input, inputs
from longpole.capture.bundle import Manifest, RankFiles, described, read_manifest, write_manifest
from longpole.capture.errors import CaptureError, FolderUsedError
from longpole.capture.launch import Launch, this_launch
from longpole.capture.running.session import next_folder
from longpole.capture.staging import Staging, discard, prepared, publish

pytest.importorskip("torch")

EMPTY = {"mode": None, "machine": {}, "versions": {}, "options": {}, "program": {}}
ALONE = Launch()


def ranks_of(token: str, count: int) -> list[Launch]:
    return [Launch(rank, count, token) for rank in range(count)]


def finished(staging: Staging, day: int = 1) -> None:
    """What assemble does at the end, with a trace of a few bytes."""
    launch = staging.launch
    trace = staging.hidden / f"rank{launch.rank}.trace.json.gz"
    trace.write_bytes(f"{launch}".encode())
    manifest = Manifest("made", f"2026-11-{day:02}T18:56:00Z", **EMPTY, ranks=(RankFiles(launch.rank, described(trace)),))
    manifest = replace(manifest, world_size=launch.world_size, launch=launch.token)
    write_manifest(staging.hidden, manifest)
    publish(staging)
    discard(staging)


def recorded(folder: Path, *launches: Launch, day: int = 1, force: bool = False) -> None:
    for staging in [prepared(folder, force=force, launch=launch) for launch in launches]:
        finished(staging, day)


def read(folder: Path) -> dict[int | None, str | None]:
    """Rank -> launch; the bytes of each trace are checked against its manifest."""
    return {found.rank: found.manifest.launch for found in inputs([folder]) if intact(found) and found.manifest}


def intact(found: Input) -> bool:
    path = found.file.path
    return path is not None and described(path).sha256 == found.file.sha256


def noted(folder: Path) -> dict[str, str]:
    (notes,) = {tuple(found.notes.items()) for found in inputs([folder])}
    return {code: detail for code, (_, detail) in notes}


ORDERS = sorted({tuple(turn % 3 for turn in turns) for turns in itertools.permutations(range(6))})


@pytest.mark.parametrize("turns", ORDERS)  # each of three ranks begins at its first turn and ends at its second
def test_ranks_may_begin_and_end_in_any_order(tmp_path: Path, turns: tuple[int, ...]):
    begun: dict[int, Staging] = {}
    for rank in turns:
        if rank in begun:
            finished(begun[rank])
        else:
            begun[rank] = prepared(tmp_path / "run", force=False, launch=ranks_of("a", 3)[rank])
    assert read(tmp_path / "run") == {0: "a", 1: "a", 2: "a"}
    assert noted(tmp_path / "run") == {}
    assert len(list((tmp_path / "run").iterdir())) == 6


def test_ranks_that_begin_and_end_at_the_same_moment_do_not_disturb_each_other(tmp_path: Path):
    with ThreadPoolExecutor(4) as pool:
        for attempt in range(50):
            launches, folder, start = ranks_of("a", 4), tmp_path / str(attempt), Barrier(4)
            list(pool.map(lambda launch, folder=folder, start=start: start.wait() >= 0 and recorded(folder, launch), launches))
            assert read(folder) == dict.fromkeys(range(4), "a")


@pytest.mark.parametrize("done", [[0], [1], [0, 2]])
def test_a_bundle_that_is_still_written_names_who_is_missing(tmp_path: Path, done: list[int]):
    stagings = [prepared(tmp_path / "run", force=False, launch=launch) for launch in ranks_of("a", 3)]
    for rank in done:
        finished(stagings[rank])
    assert read(tmp_path / "run") == dict.fromkeys(done, "a")
    assert noted(tmp_path / "run") == {"missing_ranks": ", ".join(f"rank {rank}" for rank in {0, 1, 2} - set(done))}
    for rank in {0, 1, 2} - set(done):
        discard(stagings[rank])


@pytest.mark.parametrize("old", [[ALONE], ranks_of("a", 2), ranks_of("a", 2)[:1], ranks_of("a", 2)[1:]])
@pytest.mark.parametrize("new", [ALONE, *ranks_of("b", 2)])
def test_a_bundle_of_another_launch_is_refused_and_stays_as_it_is(tmp_path: Path, old: list[Launch], new: Launch):
    recorded(tmp_path / "run", *old)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(FolderUsedError, match="already holds a bundle"):
        prepared(tmp_path / "run", force=False, launch=new)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_rank_that_finds_its_own_files_is_refused_though_the_launch_looks_the_same(tmp_path: Path):
    recorded(tmp_path / "run", *ranks_of("a", 2))
    with pytest.raises(FolderUsedError, match="already holds a bundle"):
        prepared(tmp_path / "run", force=False, launch=ranks_of("a", 2)[1])


def test_a_folder_with_other_files_is_refused_to_the_first_rank(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FolderUsedError, match="is not empty"):
        prepared(tmp_path, force=False, launch=ranks_of("a", 2)[0])


@pytest.mark.parametrize("old", [[ALONE], ranks_of("a", 2), ranks_of("a", 4)])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_by_force_nothing_of_the_older_bundle_stays(tmp_path: Path, old: list[Launch], order: tuple[int, int]):
    recorded(tmp_path / "run", *old)
    recorded(tmp_path / "run", *(ranks_of("b", 2)[rank] for rank in order), day=2, force=True)
    assert (read(tmp_path / "run"), noted(tmp_path / "run")) == ({0: "b", 1: "b"}, {})
    assert len(list((tmp_path / "run").iterdir())) == 4


def test_by_force_a_process_on_its_own_replaces_all_ranks(tmp_path: Path):
    recorded(tmp_path / "run", *ranks_of("a", 3))
    recorded(tmp_path / "run", ALONE, day=2, force=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["manifest.json", "rank0.trace.json.gz"]
    assert read_manifest(tmp_path / "run").launch is None


@pytest.mark.parametrize("old", [[ALONE], ranks_of("a", 2), ranks_of("a", 4)])
@pytest.mark.parametrize("rank", [0, 1])
def test_what_a_rank_that_died_leaves_of_an_older_bundle_is_not_read(tmp_path: Path, old: list[Launch], rank: int):
    recorded(tmp_path / "run", *old)
    recorded(tmp_path / "run", ranks_of("b", 2)[rank], day=2, force=True)
    assert read(tmp_path / "run") == {rank: "b"}
    assert noted(tmp_path / "run")["missing_ranks"] == f"rank {1 - rank}"


def test_by_force_the_older_bundle_stays_until_a_rank_is_done(tmp_path: Path):
    recorded(tmp_path / "run", *ranks_of("a", 2))
    stagings = [prepared(tmp_path / "run", force=True, launch=launch) for launch in ranks_of("b", 2)]
    assert read(tmp_path / "run") == {0: "a", 1: "a"}
    discard(stagings[0])  # it failed
    assert read(tmp_path / "run") == {0: "a", 1: "a"}
    finished(stagings[1], day=2)
    assert read(tmp_path / "run") == {1: "b"}


def test_a_rank_that_fails_takes_nothing_of_the_others_away(tmp_path: Path):
    first, second = (prepared(tmp_path / "run", force=False, launch=launch) for launch in ranks_of("a", 2))
    discard(first)
    finished(second)
    assert read(tmp_path / "run") == {1: "a"}


def test_a_folder_that_cannot_be_made_is_an_error_of_the_capture(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CaptureError, match="cannot be written"):
        prepared(tmp_path / "file" / "run", force=False, launch=ranks_of("a", 2)[0])


def test_the_next_of_several_folders_is_the_one_that_peers_have_begun_and_not_one_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    recorded(tmp_path / "run-2", ALONE)
    this = this_launch()
    peer = prepared(tmp_path / "run-3", force=False, launch=replace(this, rank=1))
    assert next_folder(tmp_path / "run") == tmp_path / "run-3"
    discard(peer)
    recorded(tmp_path / "run-3", this)
    assert next_folder(tmp_path / "run") == tmp_path / "run-4"
