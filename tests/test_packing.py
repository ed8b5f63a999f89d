"""`longpole pack` and `unpack`: the same bundle in one file, the same bytes every time, and nothing harmful ever unpacked."""

import json
import os
import shutil
import stat
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from make_trace import op, step, write_bundle

from longpole.analyze.load import load, load_run
from longpole.capture.bundle import RankFiles, described, read_manifest, write_manifest
from longpole.capture.errors import BundleError, CaptureError, LongpoleError
from longpole.capture.packing import pack, unpack
from longpole.reports.cli import cli

ONE_STEP = [step(1, 0, 100), op("aten::mm", 10, 40)]
LARGEST = 10**9
Entries = dict[str | zipfile.ZipInfo, bytes]


def bundle(folder: Path) -> Path:
    return write_bundle(folder, ONE_STEP, snapshot=[{"key": "aten::mm"}] * 100)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def zipped(path: Path, entries: Entries, method: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore")  # of duplicate names
        for name, content in entries.items():
            archive.writestr(name, content, method)
    return path


def longpole(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_bundle_comes_back_as_it_was(tmp_path: Path):
    original = contents(bundle(tmp_path / "run"))
    assert longpole("pack", tmp_path / "run").output == f"Wrote {tmp_path / 'run.zip'}\n"
    shutil.rmtree(tmp_path / "run")
    assert longpole("unpack", tmp_path / "run.zip").output == f"Unpacked {tmp_path / 'run'}\n"
    assert contents(tmp_path / "run") == original


def test_the_zip_is_read_as_the_folder_is(tmp_path: Path):
    pack(bundle(tmp_path / "run"), tmp_path / "packed.zip")
    trace = load(tmp_path / "packed.zip")
    assert (trace.manifest and trace.manifest.title, len(trace.host)) == ("made", 2)
    assert trace.averages is not None


def test_the_same_bundle_makes_the_same_bytes_whatever_its_files_dates_are(tmp_path: Path):
    pack(bundle(tmp_path / "run"), tmp_path / "one.zip")
    for path in (tmp_path / "run").iterdir():
        os.utime(path, (10**9, 10**9))
        path.chmod(0o600)
    pack(tmp_path / "run", tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert [(entry.filename, entry.compress_type) for entry in archive.infolist()] == [
            ("manifest.json", zipfile.ZIP_DEFLATED),
            ("rank0.key_averages.json", zipfile.ZIP_DEFLATED),
            ("rank0.trace.json.gz", zipfile.ZIP_STORED),
        ]


def test_other_files_of_the_folder_are_left_out_and_named(tmp_path: Path):
    (bundle(tmp_path / "run") / "notes.txt").write_text("mine", encoding="utf-8")
    done = longpole("pack", tmp_path / "run", "-o", tmp_path / "run.zip")
    assert (done.exit_code, done.stderr) == (0, "longpole: left out 'notes.txt': no file of a bundle.\n")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert "notes.txt" not in archive.namelist()


def test_an_altered_file_is_not_packed_and_no_file_is_left(tmp_path: Path):
    (bundle(tmp_path / "run") / "rank0.trace.json.gz").write_bytes(b"other")
    with pytest.raises(BundleError, match=r"rank0\.trace\.json\.gz is not the file that was captured"):
        pack(tmp_path / "run", tmp_path / "run.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_missing_file_is_not_packed(tmp_path: Path):
    (bundle(tmp_path / "run") / "rank0.trace.json.gz").unlink()
    with pytest.raises(BundleError, match=r"lacks rank0\.trace\.json\.gz, which its manifest lists"):
        pack(tmp_path / "run", tmp_path / "run.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_manifest_that_names_a_file_elsewhere_is_not_packed(tmp_path: Path):
    path = bundle(tmp_path / "run") / "manifest.json"
    (tmp_path / "secret").write_bytes(b"x")
    path.write_text(path.read_text(encoding="utf-8").replace("rank0.trace.json.gz", "../secret"), encoding="utf-8")
    with pytest.raises(BundleError, match="no file of a bundle"):
        pack(tmp_path / "run", tmp_path / "run.zip")


def test_what_is_no_bundle_is_not_packed(tmp_path: Path):
    with pytest.raises(BundleError, match="is not a bundle"):
        pack(tmp_path, tmp_path / "x.zip")


def test_an_existing_file_is_replaced_with_force_only(tmp_path: Path):
    bundle(tmp_path / "run")
    (tmp_path / "run.zip").write_bytes(b"mine")
    with pytest.raises(CaptureError, match="is there already"):
        pack(tmp_path / "run", tmp_path / "run.zip")
    assert (tmp_path / "run.zip").read_bytes() == b"mine"
    pack(tmp_path / "run", tmp_path / "run.zip", force=True)
    assert zipfile.is_zipfile(tmp_path / "run.zip")


def test_a_file_of_the_bundle_is_not_replaced_even_with_force(tmp_path: Path):
    before = contents(bundle(tmp_path / "run"))
    with pytest.raises(BundleError, match="would be lost"):
        pack(tmp_path / "run", tmp_path / "run" / "manifest.json", force=True)
    assert contents(tmp_path / "run") == before


def test_a_place_that_cannot_be_written_is_refused_in_one_sentence(tmp_path: Path):
    bundle(tmp_path / "run")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BundleError, match="cannot be written"):
        pack(tmp_path / "run", tmp_path / "file" / "x.zip")


# Unpacking


def entries_of(folder: Path) -> Entries:
    return {**contents(bundle(folder))}


def unpacked(path: Path, folder: Path, largest_bytes: int = LARGEST) -> str:
    """Why it was refused; the folder, and what else is beside it, stay as they were."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(LongpoleError) as refused:
        unpack(path, folder, largest_bytes=largest_bytes)
    assert sorted(path.parent.rglob("*")) == before
    assert "\n" not in str(refused.value)
    return str(refused.value)


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"../evil.txt": b"x"}, "leads out of its folder"),
        ({"a/../../evil.txt": b"x"}, "leads out of its folder"),
        ({"/etc/evil": b"x"}, "leads out of its folder"),
        ({"C:/evil": b"x"}, "leads out of its folder"),
        ({"C:evil": b"x"}, "leads out of its folder"),
        ({"..\\evil": b"x"}, "leads out of its folder"),
        ({"\\\\host\\evil": b"x"}, "leads out of its folder"),
        ({"manifest.json\n": b"x"}, "leads out of its folder"),
        ({"../": b""}, "leads out of its folder"),
        ({link("rank1.trace.json.gz"): b"/etc/passwd"}, "holds a link"),
        ({"MANIFEST.json": b"{}"}, "take for one file"),
        ({"Rank0.Trace.JSON.gz": b"x"}, "take for one file"),
        ({"other/manifest.json": b"{}"}, "holds 2 bundles"),
    ],
    ids=str,
)
def test_a_zip_that_could_do_harm_is_refused_as_a_whole(tmp_path: Path, more: Entries, says: str):
    path = zipped(tmp_path / "x.zip", entries_of(tmp_path / "run") | more)
    assert says in unpacked(path, tmp_path / "new")


def test_a_name_that_stands_twice_is_refused(tmp_path: Path):
    path = zipped(tmp_path / "x.zip", entries_of(tmp_path / "run"))
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("manifest.json", b"{}")
    assert "take for one file" in unpacked(path, tmp_path / "new")


def test_an_encrypted_zip_is_refused(tmp_path: Path):
    path = zipped(tmp_path / "x.zip", entries_of(tmp_path / "run"))
    text = bytearray(path.read_bytes())
    text[text.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory
    path.write_bytes(text)
    assert "is encrypted" in unpacked(path, tmp_path / "new")


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path):
    path = zipped(tmp_path / "x.zip", {**entries_of(tmp_path / "run"), "rank1.memory.json": bytes(2 << 20)}, zipfile.ZIP_DEFLATED)
    assert "200 times its size" in unpacked(path, tmp_path / "new")


def test_the_limit_is_counted_while_unpacking_and_not_believed(tmp_path: Path):
    pack(bundle(tmp_path / "run"), tmp_path / "x.zip")
    assert "--max-gb 2e-07" in unpacked(tmp_path / "x.zip", tmp_path / "new", largest_bytes=100)


def test_an_altered_file_is_not_unpacked(tmp_path: Path):
    entries = entries_of(tmp_path / "run") | {"rank0.trace.json.gz": b"other"}
    assert "is not the file that was captured" in unpacked(zipped(tmp_path / "x.zip", entries), tmp_path / "new")


def test_a_missing_file_is_noticed(tmp_path: Path):
    entries = entries_of(tmp_path / "run")
    del entries["rank0.trace.json.gz"]
    assert "lacks rank0.trace.json.gz" in unpacked(zipped(tmp_path / "x.zip", entries), tmp_path / "new")


@pytest.mark.parametrize(
    ("entries", "says"), [({}, "holds no bundle"), ({"a.txt": b""}, "holds no bundle"), ({"manifest.json": b"{"}, "is damaged")]
)
def test_a_zip_without_a_whole_bundle_is_refused(tmp_path: Path, entries: Entries, says: str):
    assert says in unpacked(zipped(tmp_path / "x.zip", entries), tmp_path / "new")


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def damaged(whole: bytes) -> bytes:
    place = whole.index(b"rank0.trace.json.gz") + 60
    return whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]


@pytest.mark.parametrize(
    "change", [cut, damaged, lambda _: b"", lambda _: b"PK\x03\x04"], ids=["cut", "damaged", "empty", "start"]
)
def test_a_damaged_zip_is_refused(tmp_path: Path, change: Callable[[bytes], bytes]):
    path = zipped(tmp_path / "x.zip", entries_of(tmp_path / "run"))
    path.write_bytes(change(path.read_bytes()))
    assert "damaged" in unpacked(path, tmp_path / "new")


def test_a_path_without_a_file_is_refused(tmp_path: Path):
    assert "does not exist" in unpacked(tmp_path / "none.zip", tmp_path / "new")


def test_a_bundle_that_somebody_zipped_with_its_folder_is_unpacked_and_the_rest_is_named(tmp_path: Path):
    entries: Entries = {f"runs/x/{name}": content for name, content in entries_of(tmp_path / "run").items()}
    path = zipped(tmp_path / "x.zip", entries | {"readme.txt": b"", "runs/x/notes.txt": b"", "__MACOSX/runs/._x": b""})
    done = longpole("unpack", path, "-o", tmp_path / "new")
    assert (done.exit_code, contents(tmp_path / "new")) == (0, contents(tmp_path / "run"))
    assert done.stderr == "longpole: left out 'readme.txt', 'runs/x/notes.txt': no file of a bundle.\n"


def test_an_existing_bundle_is_replaced_with_force_only_and_other_files_stay(tmp_path: Path):
    pack(bundle(tmp_path / "run"), tmp_path / "run.zip")
    (tmp_path / "run" / "notes.txt").write_text("mine", encoding="utf-8")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_bytes())
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest | {"title": "other"}), encoding="utf-8")
    (tmp_path / "run" / "rank7.trace.json.gz").write_bytes(b"of the other bundle")
    assert "already holds a bundle" in unpacked(tmp_path / "run.zip", tmp_path / "run")
    unpack(tmp_path / "run.zip", tmp_path / "run", largest_bytes=LARGEST, force=True)
    assert (tmp_path / "run" / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "run" / "rank7.trace.json.gz").exists()
    assert load(tmp_path / "run").manifest.title == "made"  # type: ignore[union-attr]


def test_a_refusal_is_exit_status_1_and_one_sentence(tmp_path: Path):
    done = CliRunner().invoke(cli, ["unpack", str(tmp_path / "none.zip")])
    assert isinstance(done.exception, BundleError)  # which main() prints, with exit status 1
    assert str(done.exception) == f"{tmp_path / 'none.zip'} does not exist; check the path."


# Several ranks


def two_ranks(folder: Path) -> Path:
    """The bundle of a launch of two ranks, each with its manifest, and a memory snapshot of the second."""
    bundle(folder)
    whole = read_manifest(folder)
    trace, averages = folder / "rank1.trace.json.gz", folder / "rank1.key_averages.json"
    shutil.copy(folder / "rank0.trace.json.gz", trace)
    shutil.copy(folder / "rank0.key_averages.json", averages)
    (folder / "rank1.memory.json").write_text('{"held": "/home/ann/x.py"}', encoding="utf-8")
    files = RankFiles(1, described(trace), described(averages), memory=described(folder / "rank1.memory.json"))
    write_manifest(folder, replace(whole, world_size=2, launch="abc"))
    write_manifest(folder, replace(whole, world_size=2, launch="abc", ranks=(files,)))
    return folder


def test_a_bundle_of_several_ranks_comes_back_as_it_was(tmp_path: Path):
    original = contents(two_ranks(tmp_path / "run"))
    pack(tmp_path / "run", tmp_path / "run.zip")
    assert unpack(tmp_path / "run.zip", tmp_path / "new", largest_bytes=LARGEST) == []
    assert contents(tmp_path / "new") == original
    assert [trace.source.rank for trace in load_run([tmp_path / "run.zip"])] == [0, 1]


def test_an_altered_file_of_the_second_rank_is_noticed(tmp_path: Path):
    (two_ranks(tmp_path / "run") / "rank1.memory.json").write_bytes(b"{}")
    with pytest.raises(BundleError, match=r"rank1\.memory\.json is not the file that was captured"):
        pack(tmp_path / "run", tmp_path / "run.zip")


def test_a_bundle_of_several_ranks_is_redacted_without_memory_snapshots(tmp_path: Path):
    done = longpole("pack", "--redact", two_ranks(tmp_path / "run"), "-o", tmp_path / "x.zip")
    assert (done.exit_code, done.stderr) == (0, "longpole: left out 'rank1.memory.json': not known to be free of names.\n")
    traces = load_run([tmp_path / "x.zip"])
    assert [(trace.source.rank, trace.manifest and trace.manifest.launch) for trace in traces] == [(0, "abc"), (1, "abc")]
    assert all(trace.averages is not None for trace in traces)
