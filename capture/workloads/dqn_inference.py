"""A trained DQN network plays several CartPoles at once -> a bundle of its inference.

Both variants answer the same OBSERVATIONS observations in each step, `before` one at a time, `after` as one batch; the
environments are the same code in both, so that a step is the same work.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..recorder import record
from .dqn import ENVIRONMENT, Phase, Progress, Variant, train
from .dqn_after import Batched
from .dqn_before import OneByOne

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

PARTS: dict[str, type[OneByOne] | type[Batched]] = {"before": OneByOne, "after": Batched}
OBSERVATIONS = 16
TRAINING_UPDATES = 2_000  # a few seconds; the profile does not depend on how well the network plays


def record_inference(
    folder: Path, variant: Variant, seed: int, device: str, turns: int, options: dict[str, Any], progress: Progress | None
) -> None:
    """Train a network quickly, then record how it is asked for actions."""
    import torch

    network = train("after", updates=TRAINING_UPDATES, seed=seed, device=device, progress=progress).network
    parts = PARTS[variant](network, device)
    environments = make_environments()
    observations = environments.reset(seed=seed)[0]
    samples = {"mode": "inference", "samples_per_step": OBSERVATIONS, "model": network}
    with torch.no_grad(), record(folder, **samples, **options) as rec:
        for _ in range(turns):
            observations = play(environments, parts, observations, rec.phase)[0]
            rec.step()
    environments.close()


def play(
    environments: "VectorEnv", parts: OneByOne | Batched, observations: np.ndarray, phase: Phase
) -> tuple[np.ndarray, np.ndarray]:
    """Answer every observation and do the actions: the next observations, and the actions."""
    with phase("input"):
        inputs: Any = parts.inputs(observations)
    with phase("forward"):
        values: Any = parts.values(inputs)
    with phase("output"):
        actions = parts.actions(values)
    with phase("environment"):
        observations = environments.step(actions)[0]
    return observations, actions


def make_environments() -> "VectorEnv":
    """As many CartPoles as observations are answered in a step."""
    import gymnasium

    return gymnasium.make_vec(ENVIRONMENT, num_envs=OBSERVATIONS)
