"""The parts of DQN as tutorials write them. Each is a bottleneck; `dqn_after.py` has the same parts without."""

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Sequential

REPLAY_SIZE = 10_000


class Before:
    """Transitions one by one, new tensors at every step, and every result read back at once."""

    def __init__(self, network: "Sequential", target: "Sequential", rate: float, target_rate: float, device: str) -> None:
        from torch.optim import Adam

        self.network, self.target, self.target_rate, self.device = network, target, target_rate, device
        self.optimizer = Adam(network.parameters(), lr=rate, foreach=False)  # several kernels for each parameter
        self.memory: deque = deque(maxlen=REPLAY_SIZE)
        self.noted_losses: list[float] = []

    def best_action(self, state: np.ndarray) -> int:
        """The action with the highest value."""
        import torch

        with torch.no_grad():
            values = self.network(torch.tensor(state, device=self.device).unsqueeze(0))
        return int(values.max(1).indices.item())

    def remember(self, state: np.ndarray, action: int, reward: float, next_state: np.ndarray, final: bool) -> None:
        """Keep a transition, and forget the oldest once the memory is full."""
        self.memory.append((state, action, reward, next_state, final))

    def sample(self, batch: int, random: np.random.Generator) -> "tuple[Tensor, ...]":
        """A random batch of transitions: a tensor of each field of each one, then stacked."""
        import torch

        chosen = [self.memory[index] for index in random.integers(len(self.memory), size=batch)]
        states, actions, rewards, next_states, final = zip(*chosen, strict=True)
        return (
            torch.stack([torch.tensor(state, device=self.device) for state in states]),
            torch.stack([torch.tensor(action, device=self.device) for action in actions]),
            torch.stack([torch.tensor(reward, device=self.device) for reward in rewards]),
            torch.stack([torch.tensor(state, device=self.device) for state in next_states]),
            torch.stack([torch.tensor(float(end), device=self.device) for end in final]),
        )

    def update_target(self) -> None:
        """Move the target network a little towards the online network, name by name."""
        online, target = self.network.state_dict(), self.target.state_dict()
        for name in online:
            target[name] = online[name] * self.target_rate + target[name] * (1 - self.target_rate)
        self.target.load_state_dict(target)

    def note_loss(self, loss: "Tensor") -> None:
        """Keep the loss of this update; reading it waits for everything before it."""
        self.noted_losses.append(loss.item())

    def losses(self) -> list[float]:
        """The loss of each update."""
        return self.noted_losses


class OneByOne:
    """Inference that asks the network about one observation at a time."""

    def __init__(self, network: "Sequential", device: str) -> None:
        self.network, self.device = network, device

    def inputs(self, observations: np.ndarray) -> "list[Tensor]":
        """A new tensor for each observation."""
        import torch

        return [torch.tensor(observation, device=self.device).unsqueeze(0) for observation in observations]

    def values(self, inputs: "list[Tensor]") -> "list[Tensor]":
        """Values of the actions: the network runs once for each observation."""
        return [self.network(observation) for observation in inputs]

    def actions(self, values: "list[Tensor]") -> np.ndarray:
        """The best action for each observation, read back one by one."""
        return np.array([int(value.max(1).indices.item()) for value in values])
