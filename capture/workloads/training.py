"""One training loop for several workloads: a network, an optimizer and batches -> the loss of each step."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .loops import UNWATCHED, Loop

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


class Training:
    """A classifier's training; variants put other parts in place of these, which are without bottlenecks."""

    title: str
    mode = "training"
    samples_per_step: int

    def __init__(self, model: "Module", optimizer: "Optimizer", batches: "Iterable[list[Tensor]]") -> None:
        self.model, self.optimizer, self.batches = model, optimizer, batches
        self.device = next(model.parameters()).device
        self.noted_losses: list[Tensor] = []

    def run(self, loop: Loop = UNWATCHED) -> list[float]:
        """Train on all batches."""
        from torch.nn import functional

        for inputs, wanted in loop.steps(self.batches):
            inputs, wanted = inputs.to(self.device, non_blocking=True), wanted.to(self.device, non_blocking=True)
            self.clear_gradients()
            with loop.phase("forward"):
                scores = self.model(inputs)
            rows, classes = scores.flatten(0, -2), wanted.flatten()
            with loop.phase("loss"):
                loss = functional.cross_entropy(rows, classes)
            with loop.phase("backward"):
                loss.backward()
            self.after_backward()
            self.note_loss(loss)
            with loop.phase("optimizer"):
                self.optimizer.step()
        return self.losses()

    def clear_gradients(self) -> None:
        """Drop those of the step before."""
        self.optimizer.zero_grad()

    def after_backward(self) -> None:
        """What a workload does with the gradients."""

    def note_loss(self, loss: "Tensor") -> None:
        """Keep the loss without waiting for it."""
        self.noted_losses.append(loss.detach())

    def losses(self) -> list[float]:
        """The loss of each step, read in one go."""
        import torch

        return torch.stack(self.noted_losses).tolist()
