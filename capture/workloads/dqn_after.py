"""The parts of DQN with the bottlenecks of `dqn_before.py` removed; the algorithm and its numbers are the same."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Sequential
    from torch.optim import Adam

REPLAY_SIZE = 10_000
STATE, ACTION, REWARD, NEXT_STATE, FINAL = slice(0, 4), 4, 5, slice(6, 10), 10  # columns of a transition
COLUMNS = 11


class After:
    """Transitions as rows of one table, a batch as one lookup, and results left where they are until someone asks."""

    def __init__(self, network: "Sequential", target: "Sequential", rate: float, target_rate: float, device: str) -> None:
        import torch
        from torch.optim.swa_utils import get_ema_multi_avg_fn

        self.network, self.target, self.device = network, target, device
        self.optimizer = fused_adam(network, rate)
        self.online_weights = [weight.detach() for weight in network.parameters()]
        self.target_weights = [weight.detach() for weight in target.parameters()]
        self.average = get_ema_multi_avg_fn(1 - target_rate)
        self.table = torch.zeros(REPLAY_SIZE, COLUMNS)
        self.rows = self.table.numpy()  # the same memory: a row is written without making a tensor
        self.remembered = 0
        self.noted_losses: list[Tensor] = []

    def best_action(self, state: np.ndarray) -> int:
        """The action with the highest value."""
        import torch

        with torch.no_grad():
            return int(self.network(torch.from_numpy(state).to(self.device)).argmax())

    def remember(self, state: np.ndarray, action: int, reward: float, next_state: np.ndarray, final: bool) -> None:
        """Keep a transition in the place of the oldest."""
        row = self.rows[self.remembered % REPLAY_SIZE]
        row[STATE], row[ACTION], row[REWARD], row[NEXT_STATE], row[FINAL] = state, action, reward, next_state, final
        self.remembered += 1

    def sample(self, batch: int, random: np.random.Generator) -> "tuple[Tensor, ...]":
        """A random batch of transitions: one lookup, one copy to the device, and views of its columns."""
        import torch

        size = min(self.remembered, REPLAY_SIZE)
        oldest = self.remembered - size
        indices = (oldest + random.integers(size, size=batch)) % REPLAY_SIZE
        rows = self.table.index_select(0, torch.from_numpy(indices)).to(self.device)
        return rows[:, STATE], rows[:, ACTION].long(), rows[:, REWARD], rows[:, NEXT_STATE], rows[:, FINAL]

    def update_target(self) -> None:
        """Move the target network a little towards the online network, all weights in one call."""
        self.average(self.target_weights, self.online_weights, 0)

    def note_loss(self, loss: "Tensor") -> None:
        """Keep the loss of this update without waiting for it."""
        self.noted_losses.append(loss.detach())

    def losses(self) -> list[float]:
        """The loss of each update, read in one go."""
        import torch

        return torch.stack(self.noted_losses).tolist() if self.noted_losses else []


def fused_adam(network: "Sequential", rate: float) -> "Adam":
    """Adam in one kernel for all parameters, or in a few where this torch or device has no fused one."""
    from torch.optim import Adam

    try:
        return Adam(network.parameters(), lr=rate, fused=True)
    except RuntimeError:
        return Adam(network.parameters(), lr=rate, foreach=True)


class Batched:
    """Inference that asks the network about all observations at once."""

    def __init__(self, network: "Sequential", device: str) -> None:
        self.network, self.device = network, device

    def inputs(self, observations: np.ndarray) -> "Tensor":
        """All observations as one tensor: the same memory on the CPU, one copy to a GPU."""
        import torch

        return torch.from_numpy(observations).to(self.device)

    def values(self, inputs: "Tensor") -> "Tensor":
        """Values of the actions: the network runs once."""
        return self.network(inputs)

    def actions(self, values: "Tensor") -> np.ndarray:
        """The best action for each observation, read back together."""
        return values.argmax(1).cpu().numpy()
