"""DQN learns CartPole-v1: a variant and a seed -> returns per episode, losses and a trained network.

The algorithm stands here once. What `before` (written the way tutorials write it) and `after` (its bottlenecks removed)
do differently is in `dqn_before.py` and `dqn_after.py`: the same parts under the same names, to be read side by side.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .dqn_after import After
from .dqn_before import Before
from .loops import UNWATCHED, Loop, Phase, Progress, Setup, Variant, one_thread, seeded
from .script import run_script

if TYPE_CHECKING:
    import torch
    from gymnasium import Env
    from torch import Tensor

PARTS: dict[str, type[Before] | type[After]] = {"before": Before, "after": After}
ENVIRONMENT = "CartPole-v1"
HIDDEN = 128
BATCH = 64
DISCOUNT = 0.99
LEARNING_RATE = 2e-3
TARGET_RATE = 0.01  # share of the online network that moves into the target network at each update
RANDOM_STEPS = 1_000  # played at random before the first update, so that no batch is small
EXPLORE_STEPS = 2_500  # over which the share of random actions falls
EXPLORE_FIRST, EXPLORE_LAST = 1.0, 0.05


@dataclass(frozen=True)
class TrainingResult:
    """Return of each finished episode, loss of each update, and the network that learned."""

    returns: tuple[float, ...]
    losses: tuple[float, ...]
    network: "torch.nn.Sequential"


def train(
    variant: Variant = "after", *, updates: int, seed: int = 0, device: str = "cpu", progress: Progress | None = None
) -> TrainingResult:
    """Play and learn for a number of updates, after RANDOM_STEPS steps at random."""
    with one_thread(), Agent(variant, seed, device) as agent:
        agent.play_at_random()
        for update in range(updates):
            agent.step()
            if progress is not None:
                progress(update + 1, updates)
        return TrainingResult(tuple(agent.returns), tuple(agent.parts.losses()), agent.network)


class Agent:
    """A DQN agent in its environment; each `step` is one step of the environment and one update of the network."""

    def __init__(self, variant: Variant, seed: int, device: str) -> None:
        import gymnasium

        self.network, self.target = network(seed, device), network(seed, device).requires_grad_(False)
        self.parts = PARTS[variant](self.network, self.target, LEARNING_RATE, TARGET_RATE, device)
        self.explore_random, self.batch_random = (np.random.default_rng((seed, stream)) for stream in range(2))
        self.environment: Env = gymnasium.make(ENVIRONMENT)
        self.state: np.ndarray = self.environment.reset(seed=seed)[0]
        self.updates = 0
        self.returns: list[float] = []
        self.return_so_far = 0.0

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *failure: object) -> None:
        self.environment.close()

    def play_at_random(self) -> None:
        """Fill the replay buffer before the first update."""
        for _ in range(RANDOM_STEPS):
            self.parts.remember(*self.play(int(self.explore_random.integers(2))))

    def step(self, phase: Phase = nullcontext) -> None:
        """One step of the environment, one update; `phase` marks the parts of both."""
        with phase("act"):
            action = self.choose_action()
        transition = self.play(action, phase)
        with phase("sampling"):
            self.parts.remember(*transition)
            states, actions, rewards, next_states, final = self.parts.sample(BATCH, self.batch_random)
        with phase("forward"):
            values, next_values = self.network(states), self.target(next_states)
        values = values.gather(1, actions.unsqueeze(1)).squeeze(1)
        targets = rewards + DISCOUNT * next_values.max(1).values * (1 - final)
        with phase("loss"):
            loss = temporal_difference_loss(values, targets)
        self.parts.note_loss(loss)
        self.parts.optimizer.zero_grad()
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            self.parts.optimizer.step()
        self.parts.update_target()
        self.updates += 1

    def choose_action(self) -> int:
        """Epsilon-greedy: at random less and less often, else the action with the highest value."""
        if self.explore_random.random() < explore_share(self.updates):
            return int(self.explore_random.integers(2))
        return self.parts.best_action(self.state)

    def play(self, action: int, phase: Phase = nullcontext) -> tuple[np.ndarray, int, float, np.ndarray, bool]:
        """Do an action, and begin a new episode after the last: state, action, reward, next state, whether that is final."""
        before = self.state
        with phase("environment"):
            after, reward, final, truncated, _ = self.environment.step(action)
            self.state = self.environment.reset()[0] if final or truncated else after
        self.return_so_far += float(reward)
        if final or truncated:
            self.returns.append(self.return_so_far)
            self.return_so_far = 0.0
        return before, action, float(reward), after, bool(final)


class Training:
    """An agent whose replay buffer is filled, so that every step makes an update."""

    title, mode, samples_per_step = "DQN on CartPole, train", "training", BATCH

    def __init__(self, setup: Setup) -> None:
        self.turns, self.agent = setup.turns, Agent(setup.variant, setup.seed, setup.device)
        self.agent.play_at_random()
        self.model = self.agent.network

    def run(self, loop: Loop = UNWATCHED) -> Sequence[float]:
        """Losses of the updates."""
        with self.agent as agent:
            for _ in range(self.turns):
                agent.step(loop.phase)
                loop.step()
            return agent.parts.losses()


def network(seed: int, device: str) -> "torch.nn.Sequential":
    """The value network: 4 numbers of a state -> a value for each of 2 actions."""
    from torch import nn

    with seeded(seed):
        layers = nn.Sequential(nn.Linear(4, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
    return layers.to(device)


def temporal_difference_loss(values: "Tensor", targets: "Tensor") -> "Tensor":
    """Huber loss: a few large errors do not decide the update."""
    from torch.nn import functional

    return functional.smooth_l1_loss(values, targets)


def explore_share(updates: int) -> float:
    """Share of random actions after a number of updates."""
    progress = min(updates / EXPLORE_STEPS, 1.0)
    return EXPLORE_FIRST + progress * (EXPLORE_LAST - EXPLORE_FIRST)


job = Training

if __name__ == "__main__":
    run_script(job, "DQN learns CartPole-v1.", turns="--updates")
