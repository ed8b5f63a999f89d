"""A small convolutional network learns to classify random images: a Setup -> its training, with `before` or `after` parts."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Tensors, at_once
from .loops import Setup, seeded
from .script import run_script
from .training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.data import DataLoader

IMAGES, SIZE, PATCH, COLOURS, CLASSES = 512, 64, 8, 3, 10
CHANNELS = (8, 16)
HIDDEN = 256
BATCH = 32
LEARNING_RATE, MOMENTUM = 1e-2, 0.9


class Convolutional(Training):
    title, samples_per_step = "Convolutional network on random images", BATCH


class Before(Convolutional):
    """Images converted and scaled in the network, zeros written into gradients, weights logged through NumPy in every step."""

    def __init__(self, setup: Setup) -> None:
        from torch import nn
        from torch.optim import SGD

        images, labels = random_images(setup.seed)
        network = nn.Sequential(scaling(images), *layers(setup.seed)).to(setup.device)
        optimizer = SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, foreach=False)
        super().__init__(network, optimizer, batches(images, labels, setup))
        self.log: list[dict[str, float]] = []

    def clear_gradients(self) -> None:
        for module in self.model.modules():
            module.zero_grad(set_to_none=False)

    def after_backward(self) -> None:
        self.log.append({name: float(p.detach().cpu().numpy().std()) for name, p in self.model.named_parameters()})


class After(Convolutional):
    """Images converted and scaled once before the loop, gradients dropped, nothing logged in it."""

    def __init__(self, setup: Setup) -> None:
        import torch
        from torch import nn
        from torch.optim import SGD

        images, labels = random_images(setup.seed)
        network = nn.Sequential(*layers(setup.seed)).to(setup.device)
        optimizer = SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
        with torch.no_grad():
            scaled = scaling(images)(images)
        super().__init__(network, optimizer, batches(scaled, labels, setup))


def batches(images: "Tensor", labels: "Tensor", setup: Setup) -> "DataLoader[Any]":
    return at_once(Tensors(images, labels), batch=BATCH, turns=setup.turns, seed=setup.seed, device=setup.device)


def random_images(seed: int) -> "tuple[Tensor, Tensor]":
    """Bytes as of decoded files, colours last, and a class each that the first pixels tell."""
    import torch

    images = np.random.default_rng(seed).integers(256, size=(IMAGES, SIZE, SIZE, COLOURS), dtype=np.uint8)
    labels = images[:, 0, :CLASSES, 0].argmax(1)
    return torch.from_numpy(images), torch.from_numpy(labels)


def scaling(images: "Tensor") -> "Module":
    """Bytes, colours last -> numbers around 0, colours first; by way of the type that mean and spread come in from NumPy."""
    import torch
    from torch import nn

    colours = images.numpy().reshape(-1, COLOURS) / 255
    mean, spread = (torch.from_numpy(values).reshape(1, COLOURS, 1, 1) for values in (colours.mean(0), colours.std(0)))

    class Scaling(nn.Module):
        mean: "Tensor"
        spread: "Tensor"

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", mean)
            self.register_buffer("spread", spread)

        def forward(self, inputs: "Tensor") -> "Tensor":
            pixels = inputs.permute(0, 3, 1, 2).double() / 255
            return ((pixels - self.mean) / self.spread).float().contiguous()

    return Scaling()


def layers(seed: int) -> "list[Module]":
    """Two convolutions and two linear layers."""
    from torch import nn

    first, second = CHANNELS
    with seeded(seed):
        return [
            nn.Conv2d(COLOURS, first, PATCH, stride=PATCH), nn.ReLU(), nn.Conv2d(first, second, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(second * (SIZE // PATCH) ** 2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES),
        ]  # fmt: skip


def job(setup: Setup) -> Training:
    return Before(setup) if setup.variant == "before" else After(setup)


if __name__ == "__main__":
    run_script(job, "A small convolutional network learns to classify random images.")
