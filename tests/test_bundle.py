"""The bundle's manifest and files: written whole, read back the same, refused when they are not what they should be."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from longpole.capture.bundle import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    BundleFile,
    HealthNote,
    Manifest,
    RankFiles,
    described,
    is_bundle,
    read_manifest,
    verified,
    write_atomically,
    write_manifest,
)
from longpole.capture.errors import BundleError

TRACE = BundleFile("rank0.trace.json.gz", "0" * 64, 12)
MANIFEST = Manifest(
    title="Größe",
    captured_at="2026-11-30T18:56:00Z",
    mode="training",
    machine={"cpu": "some CPU", "memory_bytes": 2**34},
    versions={"torch": "2.13.0", "cuda": None},
    options={"steps": 2, "shapes": False},
    program={"seed": 1},
    ranks=(RankFiles(0, TRACE, key_averages=BundleFile("rank0.key_averages.json", "1" * 64, 3)),),
    unprofiled_step_ns=(1_000, 2_000),
    samples_per_step=64,
    complete=False,
    health=(HealthNote("loop_ended", "The loop ended."),),
)


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path):
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_a_manifest_is_utf_8_whatever_the_system_prefers(tmp_path: Path):
    write_manifest(tmp_path, MANIFEST)
    assert "Größe".encode() in (tmp_path / MANIFEST_NAME).read_bytes()


def test_writing_leaves_no_temporary_file(tmp_path: Path):
    write_manifest(tmp_path, MANIFEST)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]


def test_a_number_that_json_lacks_is_refused_and_the_old_manifest_stays(tmp_path: Path):
    write_manifest(tmp_path, MANIFEST)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_manifest(tmp_path, replace(MANIFEST, program={"loss": float("nan")}))
    assert read_manifest(tmp_path) == MANIFEST


def test_a_file_is_replaced_as_a_whole(tmp_path: Path):
    path = tmp_path / "file"
    write_atomically(path, b"long old content")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_newer_format_is_refused_and_says_what_to_do(tmp_path: Path):
    write_manifest(tmp_path, replace(MANIFEST, format_version=FORMAT_VERSION + 1))
    with pytest.raises(BundleError, match="install a newer longpole"):
        read_manifest(tmp_path)


def test_a_manifest_of_the_first_format_is_read(tmp_path: Path):
    path = write_manifest(tmp_path, replace(MANIFEST, format_version=1))
    fields = json.loads(path.read_bytes())
    del fields["launch"]
    path.write_text(json.dumps(fields), encoding="utf-8")
    assert read_manifest(tmp_path) == replace(MANIFEST, format_version=1)


def test_a_folder_without_a_manifest_is_not_a_bundle(tmp_path: Path):
    assert not is_bundle(tmp_path)
    with pytest.raises(BundleError, match="is not a bundle"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"format_version": 1}', b"\xff\xfe", b'{"format_version": "x"}']
)
def test_a_damaged_manifest_is_named_as_damaged(tmp_path: Path, content: bytes):
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(BundleError, match="is damaged"):
        read_manifest(tmp_path)


def test_an_unknown_field_is_damage(tmp_path: Path):
    path = write_manifest(tmp_path, MANIFEST)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"surprise": 1}), encoding="utf-8")
    with pytest.raises(BundleError, match="surprise"):
        read_manifest(tmp_path)


def test_a_file_with_the_bytes_of_the_manifest_is_accepted(tmp_path: Path):
    path = tmp_path / "rank0.trace.json.gz"
    path.write_bytes(b"content")
    assert verified(tmp_path, described(path)) == path


def test_a_file_that_was_changed_is_refused(tmp_path: Path):
    path = tmp_path / "rank0.trace.json.gz"
    path.write_bytes(b"content")
    file = described(path)
    path.write_bytes(b"CONTENT")
    with pytest.raises(BundleError, match="SHA-256 differs"):
        verified(tmp_path, file)


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(BundleError, match=r"lacks rank0\.trace\.json\.gz"):
        verified(tmp_path, TRACE)


def test_a_file_outside_the_bundle_is_refused(tmp_path: Path):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "bundle").mkdir()
    outside = replace(described(tmp_path / "secret"), name="../secret")
    with pytest.raises(BundleError):
        verified(tmp_path / "bundle", outside)


def test_importing_the_bundle_imports_neither_torch_nor_numpy():
    code = "import sys, longpole.capture.bundle; print([m for m in ('torch', 'gymnasium', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "change",
    [
        {"captured_at": "yesterday"}, {"title": 5}, {"machine": []}, {"versions": None}, {"samples_per_step": "x"},
        {"unprofiled_step_ns": ["a"]}, {"unprofiled_step_ns": [0]}, {"program": {"git_commit": [5]}},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_of_another_type_is_damage(tmp_path: Path, change: dict):
    path = write_manifest(tmp_path, MANIFEST)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(BundleError, match="is damaged"):
        read_manifest(tmp_path)
