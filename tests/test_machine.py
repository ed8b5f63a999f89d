"""Facts about machine, versions and program: true, flat, and nothing private."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from longpole.capture import machine

torch = pytest.importorskip("torch")


def all_facts() -> dict:
    return machine.machine_facts() | machine.version_facts() | machine.program_facts()


def test_facts_are_flat_and_of_json_types():
    wrong = {name: value for name, value in all_facts().items() if not isinstance(value, str | int | float | None)}
    assert wrong == {}


def test_facts_are_those_of_this_process():
    facts = all_facts()
    assert facts["torch"] == torch.__version__
    assert facts["python"] == platform.python_version()
    assert facts["threads"] == torch.get_num_threads()
    assert facts["cpu_count"] == os.cpu_count()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sysconf")
def test_memory_is_known_in_bytes():
    assert (machine.memory_bytes() or 0) > 2**28


def test_the_host_name_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "private-host")
    monkeypatch.setattr(platform, "node", lambda: "private-host")
    assert not any("private-host" in str(value) for value in all_facts().values())


def test_the_command_shows_a_base_name_and_hides_secrets():
    arguments = ["/home/someone/train.py", "--lr", "0.1", "--api-key", "abc", "--token=def", "--batch=8"]
    assert machine.command_line(arguments) == "train.py --lr 0.1 --api-key '***' '--token=***' --batch=8"


def test_only_variables_of_the_short_list_are_kept():
    environment = {"OMP_NUM_THREADS": "2", "AWS_SECRET_ACCESS_KEY": "abc", "HOME": "/home/someone"}
    assert machine.environment_facts(environment) == {"env.OMP_NUM_THREADS": "2"}


def test_a_model_is_described_by_its_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1).half())
    assert machine.model_facts(model) == {"parameters": 3 * 2 + 2 + 2 * 1 + 1, "parameter_dtypes": "float16, float32"}
    assert machine.model_facts(None) == {}


def test_a_folder_outside_git_has_no_commit(tmp_path: Path):
    assert machine.git_facts(tmp_path) == {"git_commit": None, "git_dirty": None}


def test_a_changed_file_makes_the_commit_dirty(tmp_path: Path):
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True, capture_output=True)

    (tmp_path / "file").write_text("a", encoding="utf-8")
    git("init")
    git("add", "file")
    git("commit", "-m", "first")
    clean = machine.git_facts(tmp_path)
    assert (len(clean["git_commit"]), clean["git_dirty"]) == (40, False)
    (tmp_path / "file").write_text("b", encoding="utf-8")
    assert machine.git_facts(tmp_path) == clean | {"git_dirty": True}


def test_a_command_that_is_missing_or_fails_says_nothing():
    assert machine.output_of("longpole-has-no-such-command") is None
    assert machine.output_of(sys.executable, "-c", "raise SystemExit(3)") is None


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        (["--data", "/home/alice/images"], "--data images"),
        (["--out=/home/alice/runs/b"], "--out=b"),
        (["C:\\\\Users\\\\alice\\\\x.yaml"], "x.yaml"),
        (["wandb.api_key=abc"], "'wandb.api_key=***'"),
        (["--token", "-xyz"], "--token '***'"),
        (["--db=postgres://u:pw@h/d"], "'--db=postgres://***@h/d'"),
        (["lr=0.1", "--epochs", "3"], "lr=0.1 --epochs 3"),
    ],
    ids=str,
)
def test_a_command_shows_no_folders_and_no_secrets(argument: list[str], shown: str):
    assert machine.command_line(["/home/alice/train.py", *argument]) == f"train.py {shown}"
