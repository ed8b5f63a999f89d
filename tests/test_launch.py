"""Which ranks were started together, by what stands in their environment."""

import hashlib
from multiprocessing import get_context
from typing import Any

import pytest

from longpole.capture.launch import Launch, this_launch, token_of

pytest.importorskip("torch")

TORCHRUN = {
    "MASTER_ADDR": "node-a.internal", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0",
    "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_k3/none_x7/attempt_0/0/error.json",
}  # fmt: skip
OTHER_RANK = TORCHRUN | {"TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_k3/none_x7/attempt_0/1/error.json"}


def test_a_process_on_its_own_is_no_launch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANK", raising=False)
    assert this_launch() == Launch(0, 1, None)


@pytest.mark.parametrize(("rank", "world_size"), [("0", "1"), ("x", "2"), ("2", "2"), ("", "")])
def test_an_environment_that_names_no_rank_of_several_is_a_process_on_its_own(
    monkeypatch: pytest.MonkeyPatch, rank: str, world_size: str
):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world_size)
    assert this_launch() == Launch(0, 1, None)


def test_ranks_that_torchrun_started_together_agree(monkeypatch: pytest.MonkeyPatch):
    for rank, environment in ((0, TORCHRUN), (1, OTHER_RANK)):
        for name, value in (environment | {"RANK": str(rank), "WORLD_SIZE": "2"}).items():
            monkeypatch.setenv(name, value)
        assert this_launch() == Launch(rank, 2, token_of(TORCHRUN, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"MASTER_PORT": "29501"}, {"TORCHELASTIC_RUN_ID": "second"}, {"TORCHELASTIC_RESTART_COUNT": "1"},
        {"TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_m9/none_x8/attempt_0/0/error.json"},
    ],
)  # fmt: skip
def test_another_start_is_another_launch(change: dict[str, str]):
    assert token_of(TORCHRUN | change, 2) != token_of(TORCHRUN, 2)


def test_ranks_on_several_machines_agree_although_their_folders_differ():
    other_machine = TORCHRUN | {"TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_m9/none_x8/attempt_0/0/error.json"}
    assert token_of(other_machine, 4) == token_of(TORCHRUN, 4)


def test_a_token_tells_no_address():
    token = token_of(TORCHRUN, 2)
    assert (len(token), int(token, 16) > 0, "node" in token) == (16, True, False)
    assert token != hashlib.sha256(b"node-a.internal").hexdigest()[:16]


def put_token(queue: Any) -> None:
    queue.put(token_of({"MASTER_ADDR": "localhost", "MASTER_PORT": "12355"}, 2))


def test_processes_of_one_parent_agree_and_those_of_another_do_not():
    spawn = get_context("spawn")
    queue = spawn.SimpleQueue()
    children = [spawn.Process(target=put_token, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    first, second = queue.get(), queue.get()
    for child in children:
        child.join()
    assert first == second
    assert first != token_of({"MASTER_ADDR": "localhost", "MASTER_PORT": "12355"}, 2)
