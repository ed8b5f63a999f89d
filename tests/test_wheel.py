"""The built wheel, in a fresh environment without torch, writes a report."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from make_trace import op, step, write_trace

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]  # by way of the sdist: no leftovers of build/
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("longpole-*.whl"))


@pytest.mark.wheel
def test_the_wheel_holds_only_the_package(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"longpole", next(n for n in names if n.endswith("/METADATA")).split("/")[0]}
    for folder in ("capture", "analyze", "reports", "templates"):
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if is_shipped(path)}
        assert sources <= {name.removeprefix("longpole/") for name in names}, folder


def is_shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


@pytest.mark.wheel
def test_the_wheel_writes_a_report_in_a_fresh_environment_without_torch(wheel: Path, tmp_path: Path):
    venv.create(tmp_path / "env", with_pip=True)
    python = next(p for p in (tmp_path / "env" / "bin" / "python", tmp_path / "env" / "Scripts" / "python.exe") if p.exists())
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run([str(part) for part in install], check=True, cwd=tmp_path)
    assert subprocess.run([str(python), "-c", "import torch"], cwd=tmp_path, capture_output=True).returncode == 1
    trace = write_trace(tmp_path / "trace.json", [step(i, i * 100, i * 100 + 90) for i in range(6)], [op("aten::mm", 10, 40)])
    command = [
        str(python.parent / "longpole"),
        "report",
        str(trace),
        "-o",
        str(tmp_path / "report.html"),
        "-o",
        str(tmp_path / "report.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<h1" in (tmp_path / "report.html").read_text(encoding="utf-8")
