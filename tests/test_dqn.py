"""The DQN workload learns, `after` is the same algorithm as `before`, and both leave a whole bundle."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longpole.capture.bundle import read_manifest
from longpole.capture.workloads import WORKLOADS
from longpole.capture.workloads.dqn import BATCH, RANDOM_STEPS, Agent, one_thread, train
from longpole.capture.workloads.dqn_after import REPLAY_SIZE, Batched
from longpole.capture.workloads.dqn_before import OneByOne
from longpole.capture.workloads.dqn_inference import OBSERVATIONS, make_environments, play

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")

capture_dqn = WORKLOADS["dqn"].capture
SHORT: dict[str, Any] = {"steps": 3, "wait": 4, "warmup": 1, "device": "cpu"}
TRAINING_PHASES = {"act", "environment", "sampling", "forward", "loss", "backward", "optimizer"}
INFERENCE_PHASES = {"input", "forward", "output", "environment"}


def phases(folder: Path) -> Counter[str]:
    events = json.loads(gzip.decompress((folder / "rank0.trace.json.gz").read_bytes()))["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    return Counter(name.removeprefix("longpole.phase#") for name in names if name.startswith("longpole.phase#"))


def test_the_agent_learns_to_balance_the_pole():
    # At random an episode lasts about 22 steps; the last 20 of five seeds lasted 167 to 203.
    returns = train("after", updates=5_000, seed=0).returns
    assert np.mean(returns[:20]) < 40
    assert np.mean(returns[-20:]) > 80


def test_both_variants_make_the_same_updates():
    before, after = (train(variant, updates=40, seed=3) for variant in ("before", "after"))
    assert len(before.losses) == 40
    assert after.losses == pytest.approx(before.losses, rel=1e-3)
    assert after.returns == before.returns
    for ours, theirs in zip(after.network.parameters(), before.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_another_seed_makes_other_updates():
    assert train("after", updates=3, seed=3).losses != train("after", updates=3, seed=4).losses


def test_both_replay_memories_draw_the_same_batch_even_when_they_are_full():
    with Agent("before", 0, "cpu") as before, Agent("after", 0, "cpu") as after:
        for turn in range(REPLAY_SIZE + 1_234):
            state = np.full(4, turn, np.float32)
            for agent in (before, after):
                agent.parts.remember(state, turn % 2, float(turn), state + 1, turn % 7 == 0)
        batches = [agent.parts.sample(BATCH, np.random.default_rng(1)) for agent in (before, after)]
    for ours, theirs in zip(*batches, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert batches[0][2].min() >= 1_234  # what came first is forgotten


def test_every_step_of_training_makes_one_update():
    with one_thread(), Agent("after", 0, "cpu") as agent:
        agent.play_at_random()
        assert agent.parts.losses() == []
        for _ in range(5):
            agent.step()
        assert (agent.updates, len(agent.parts.losses())) == (5, 5)
        assert RANDOM_STEPS >= BATCH


def test_both_inference_variants_answer_the_same_actions():
    network = train("after", updates=200, seed=0).network
    actions = {}
    with torch.no_grad():
        for parts in (OneByOne(network, "cpu"), Batched(network, "cpu")):
            environments = make_environments()
            observations, taken = environments.reset(seed=0)[0], []
            for _ in range(30):
                observations, chosen = play(environments, parts, observations, lambda _: torch.no_grad())
                taken.append(chosen.tolist())
            environments.close()
            actions[type(parts)] = taken
    assert np.shape(actions[Batched]) == (30, OBSERVATIONS)
    assert actions[OneByOne] == actions[Batched]


@pytest.mark.parametrize("variant", ["before", "after"])
def test_a_capture_of_training_holds_its_phases_in_every_step(tmp_path: Path, variant: Any):
    assert capture_dqn(tmp_path / "run", variant=variant, seed=5, **SHORT) == tmp_path / "run"
    assert phases(tmp_path / "run") == dict.fromkeys(TRAINING_PHASES, 3)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.mode, manifest.samples_per_step, manifest.complete) == ("training", BATCH, True)
    assert (manifest.program["variant"], manifest.program["seed"], manifest.program["threads"]) == (variant, 5, 1)
    assert len(manifest.unprofiled_step_ns) == 4


@pytest.mark.parametrize("variant", ["before", "after"])
def test_a_capture_of_inference_holds_its_phases_in_every_step(tmp_path: Path, variant: Any):
    calls: list[tuple[int, int]] = []
    capture_dqn(tmp_path / "run", variant=variant, mode="infer", progress=lambda *call: calls.append(call), **SHORT)
    assert phases(tmp_path / "run") == dict.fromkeys(INFERENCE_PHASES, 3)
    manifest = read_manifest(tmp_path / "run")
    assert (manifest.mode, manifest.samples_per_step, manifest.complete) == ("inference", OBSERVATIONS, True)
    assert calls[-1][0] == calls[-1][1]


def test_a_capture_leaves_threads_and_random_numbers_of_the_caller_alone(tmp_path: Path):
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    capture_dqn(tmp_path / "run", variant="after", **SHORT)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
