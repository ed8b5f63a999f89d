"""A multilayer perceptron learns to classify random data: a Setup -> its training, with `before` or `after` parts."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .data import Tensors, at_once, one_by_one
from .loops import Setup, seeded
from .script import run_script
from .training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SAMPLES, FEATURES, HIDDEN, LAYERS, CLASSES = 4096, 32, 64, 4, 10
BATCH = 64
LEARNING_RATE = 1e-3


class Perceptron(Training):
    title, samples_per_step = "MLP on random data", BATCH


class Before(Perceptron):
    """Samples made one by one, parameters updated one by one, and every loss read at once."""

    def __init__(self, setup: Setup) -> None:
        from torch.optim import Adam

        network = perceptron(setup)
        batches = one_by_one(Rows(setup.seed), batch=BATCH, turns=setup.turns, seed=setup.seed)
        super().__init__(network, Adam(network.parameters(), lr=LEARNING_RATE, foreach=False), batches)
        self.read_losses: list[float] = []

    def note_loss(self, loss: "Tensor") -> None:
        self.read_losses.append(loss.item())

    def losses(self) -> list[float]:
        return self.read_losses


class After(Perceptron):
    """Samples made ready before the loop and fetched by batches, one update for all parameters."""

    def __init__(self, setup: Setup) -> None:
        import torch
        from torch.optim import Adam

        network = perceptron(setup)
        features, labels = random_rows(setup.seed)
        samples = Tensors(torch.from_numpy((features - features.mean(0)) / features.std(0)), torch.from_numpy(labels))
        batches = at_once(samples, batch=BATCH, turns=setup.turns, seed=setup.seed, device=setup.device)
        super().__init__(network, Adam(network.parameters(), lr=LEARNING_RATE, fused=True), batches)


class Rows:
    """A dataset that makes tensors of a row and scales them whenever it is asked."""

    def __init__(self, seed: int) -> None:
        import torch

        self.features, self.labels = random_rows(seed)
        self.mean, self.spread = torch.from_numpy(self.features.mean(0)), torch.from_numpy(self.features.std(0))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> "tuple[Tensor, Tensor]":
        import torch

        features = torch.tensor(self.features[index])
        return (features - self.mean) / self.spread, torch.tensor(self.labels[index])


def random_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and the class that a random projection of them gives."""
    random = np.random.default_rng(seed)
    features = random.normal(2, 3, (SAMPLES, FEATURES)).astype(np.float32)
    return features, (features @ random.normal(size=(FEATURES, CLASSES))).argmax(1)


def perceptron(setup: Setup) -> "Module":
    from torch import nn

    widths = [FEATURES, *[HIDDEN] * LAYERS]
    with seeded(setup.seed):
        hidden = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(HIDDEN, CLASSES)).to(setup.device)


def job(setup: Setup) -> Training:
    return Before(setup) if setup.variant == "before" else After(setup)


if __name__ == "__main__":
    run_script(job, "A multilayer perceptron learns to classify random data.")
