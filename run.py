"""Sets everything up and runs one task: `python run.py demo | test | check | bench | fuzz`. Standard library only."""

import importlib.util
import os
import secrets
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "installed.txt"  # what the last installation was made from


def run(*command: str | Path, **variables: str) -> None:
    """Print a command and run it; stop with its exit status when it fails."""
    print("$", *[Path(c).name if c == PYTHON else c for c in command], flush=True)
    status = subprocess.run([str(c) for c in command], cwd=HERE, env={**os.environ, **variables}).returncode
    if status:
        sys.exit(status)


def install() -> None:
    """Make .venv and install longpole with all it needs, pinned by constraints.txt; nothing to do when that is done."""
    wanted = (HERE / "pyproject.toml").read_text(encoding="utf-8") + (HERE / "constraints.txt").read_text(encoding="utf-8")
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    if not PYTHON.exists():
        if importlib.util.find_spec("ensurepip") is None:
            sys.exit("This Python cannot make environments; on Debian and Ubuntu `apt install python3-venv` adds what it lacks.")
        print("$ python -m venv .venv", flush=True)
        venv.create(VENV, with_pip=True)
    # torch first and by its exact version: the same wheel then serves every later requirement on it.
    pins = [line for line in (HERE / "constraints.txt").read_text(encoding="utf-8").splitlines() if line.startswith("torch==")]
    run(
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        "constraints.txt",
        *pins,
        "-e",
        ".[demo,dev]",
    )
    STAMP.write_text(wanted, encoding="utf-8")


def demo() -> None:
    """The main job: capture the DQN before and after, report on it, compare."""
    run(PYTHON, "-m", "longpole.reports.cli", "demo", "demo", "--force")


def test() -> None:
    """The tests, as many at once as there are cores; more arguments go to pytest instead."""
    run(PYTHON, "-m", "pytest", *(sys.argv[2:] or ["-n", "auto"]))


def check() -> None:
    """Format, lint, types, tests with coverage, and the built wheel in a fresh environment without torch.

    Without the tests that `test` runs in processes of their own: coverage sees nothing of them.
    """
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "pyright")
    run(PYTHON, "-m", "pytest", "-n", "auto", "-m", "not live", "--cov", "--cov-report=term", "--cov-fail-under=95")


def bench() -> None:
    """A benchmark by its name, `bench load`; more arguments go to it."""
    names = sorted(path.stem.removeprefix("bench_") for path in (HERE / "tests").glob("bench_*.py"))
    if len(sys.argv) < 3 or sys.argv[2] not in names:
        sys.exit(f"usage: python run.py bench {' | '.join(names)}")
    run(PYTHON, Path("tests", f"bench_{sys.argv[2]}.py"), *sys.argv[3:])


def fuzz() -> None:
    """Broken traces at random into the loader, `fuzz --minutes 10`: a seed each round, what fails kept in build/fuzz."""
    minutes = float(sys.argv[3]) if sys.argv[2:3] == ["--minutes"] and len(sys.argv) > 3 else 5
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        seed = f"--hypothesis-seed={secrets.randbelow(2**32)}"
        run(PYTHON, "-m", "pytest", "-q", Path("tests", "test_fuzz_load.py"), seed, LONGPOLE_FUZZ=str(HERE / "build" / "fuzz"))


TASKS = {task.__name__: task for task in (demo, test, check, bench, fuzz)}

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - run.py is what tells people
        sys.exit("longpole needs Python 3.11 or newer.")
    if len(sys.argv) < 2 or sys.argv[1] not in TASKS:
        sys.exit(f"usage: python run.py {' | '.join(TASKS)}")
    install()
    TASKS[sys.argv[1]]()
