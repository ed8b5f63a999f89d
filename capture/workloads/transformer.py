"""A small transformer learns to predict the next token: a Setup -> its training, with `before` or `after` parts."""

from typing import TYPE_CHECKING, Any

from .data import Tensors, at_once
from .language_model import TOKENS, all_heads, head_by_head, language_model
from .loops import Setup
from .script import run_script
from .training import Training

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

SEQUENCES, LENGTH = 1024, 32
BATCH = 4
LEARNING_RATE, LARGEST_NORM = 1e-3, 1.0


class Transformer(Training):
    title, samples_per_step = "Transformer on random sequences, training", BATCH


class Before(Transformer):
    """Attention head by head; gradients checked and limited, and parameters updated, one by one."""

    def __init__(self, setup: Setup) -> None:
        from torch.optim import AdamW

        model = language_model(head_by_head, setup.seed, setup.device)
        super().__init__(model, AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False), batches(setup))

    def after_backward(self) -> None:
        import torch

        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        for gradient in gradients:
            if torch.isnan(gradient).any():
                raise RuntimeError("A gradient is not a number.")
        norm = sum(gradient.norm().item() ** 2 for gradient in gradients) ** 0.5
        for gradient in gradients:
            gradient.mul_(min(1.0, LARGEST_NORM / (norm + 1e-6)))


class After(Transformer):
    """Attention of all heads in one operator; gradients checked and limited, and parameters updated, all at once."""

    def __init__(self, setup: Setup) -> None:
        from torch.optim import AdamW

        model = language_model(all_heads, setup.seed, setup.device)
        super().__init__(model, AdamW(model.parameters(), lr=LEARNING_RATE, fused=True), batches(setup))

    def after_backward(self) -> None:
        from torch.nn.utils import clip_grad_norm_

        clip_grad_norm_(self.model.parameters(), LARGEST_NORM, error_if_nonfinite=True, foreach=True)


def batches(setup: Setup) -> "DataLoader[Any]":
    """Sequences in which each token tells the next, and a token of ten is random."""
    import torch

    random = torch.Generator().manual_seed(setup.seed)
    rows, following = torch.randint(TOKENS, (SEQUENCES, LENGTH + 1), generator=random), torch.randperm(TOKENS, generator=random)
    told = torch.rand(SEQUENCES, LENGTH + 1, generator=random) < 0.9
    for place in range(1, LENGTH + 1):
        rows[:, place] = torch.where(told[:, place], following[rows[:, place - 1]], rows[:, place])
    samples = Tensors(rows[:, :-1], rows[:, 1:])
    return at_once(samples, batch=BATCH, turns=setup.turns, seed=setup.seed, device=setup.device)


def job(setup: Setup) -> Training:
    return Before(setup) if setup.variant == "before" else After(setup)


if __name__ == "__main__":
    run_script(job, "A small transformer learns to predict the next token.")
