"""A trained DQN network plays several CartPoles at once -> the actions it takes.

Both variants answer the same OBSERVATIONS observations in each step, `before` one at a time, `after` as one batch; the
environments are the same code in both, so that a step is the same work.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dqn import ENVIRONMENT, train
from .dqn_after import Batched
from .dqn_before import OneByOne
from .loops import UNWATCHED, Loop, Phase, Setup

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

PARTS: dict[str, type[OneByOne] | type[Batched]] = {"before": OneByOne, "after": Batched}
OBSERVATIONS = 16
TRAINING_UPDATES = 2_000  # a few seconds; the profile does not depend on how well the network plays


class Playing:
    """A network that was trained quickly, and the environments that ask it for actions."""

    title, mode, samples_per_step = "DQN on CartPole, infer", "inference", OBSERVATIONS

    def __init__(self, setup: Setup) -> None:
        how = {"seed": setup.seed, "device": setup.device, "progress": setup.progress}
        self.turns, self.seed = setup.turns, setup.seed
        self.model = train("after", updates=TRAINING_UPDATES, **how).network
        self.parts = PARTS[setup.variant](self.model, setup.device)

    def run(self, loop: Loop = UNWATCHED) -> Sequence[float]:
        """The actions of the last step."""
        import torch

        environments = make_environments()
        observations, actions = environments.reset(seed=self.seed)[0], np.array([])
        with torch.no_grad():
            for _ in range(self.turns):
                observations, actions = play(environments, self.parts, observations, loop.phase)
                loop.step()
        environments.close()
        return actions.tolist()


job = Playing


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
