"""What works on this machine."""

import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from longpole.reports.doctor import checks


def doctor(blocked: Path) -> dict[str, tuple[str, str]]:
    """What `longpole doctor` prints: name -> (ok or missing, detail)."""
    environment = os.environ | {"PYTHONPATH": str(blocked)}
    done = subprocess.run(
        [sys.executable, "-m", "longpole.reports.cli", "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {
        name: (state, detail.strip()) for state, name, detail in (line.split(maxsplit=2) for line in done.stdout.splitlines())
    }


def test_every_package_is_checked_with_its_version():
    found = {check.name: check for check in checks()}
    assert list(found) == [
        "longpole",
        "python",
        "numpy",
        "pandas",
        "msgspec",
        "isal",
        "jinja2",
        "zstandard",
        "fsspec",
        "pdf",
        "torch",
        "cuda",
        "gymnasium",
    ]
    assert found["longpole"].detail == version("longpole")
    assert found["numpy"].works
    assert found["numpy"].detail == version("numpy")
    assert found["torch"].works == (find_spec("torch") is not None)


def test_what_cannot_be_imported_is_said_with_its_reason_and_the_rest_still_works(tmp_path: Path):
    (tmp_path / "weasyprint.py").write_text("raise OSError(\"cannot load library 'libpango-1.0-0'\")", encoding="utf-8")
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')", encoding="utf-8")
    found = doctor(blocked=tmp_path)
    assert found["pdf"][0] == found["cuda"][0] == "missing"
    assert "Pango" in found["pdf"][1]
    assert "install" in found["pdf"][1]
    assert "libcudart.so.12" in found["cuda"][1]
    assert found["numpy"][0] == "ok"
