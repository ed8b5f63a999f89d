"""A small transformer writes replies token by token: a Setup -> its inference, with `before` or `after` parts.

A step is one token of all replies. Each is drawn by its share of the scores, with the random numbers of the seed.
"""

from typing import TYPE_CHECKING

import numpy as np

from .language_model import TOKENS, Cache, all_heads, head_by_head, language_model
from .loops import UNWATCHED, Loop, Setup
from .script import run_script

if TYPE_CHECKING:
    from torch import Tensor

PROMPT, REPLY = 12, 20  # tokens; then new prompts are answered
BATCH = 16


class Before:
    """All tokens through the network for each new one, and a token of each reply drawn and read by itself."""

    attention, without_gradients = staticmethod(head_by_head), "no_grad"

    def __init__(self, device: str) -> None:
        self.device = device
        self.sequences: list[list[int]] = []
        self.drawn: list[int] = []

    def begin(self, prompts: np.ndarray) -> None:
        """Answer other prompts."""
        self.sequences = prompts.tolist()

    def inputs(self) -> "tuple[Tensor]":
        """All tokens so far."""
        import torch

        return (torch.tensor(self.sequences, device=self.device),)

    def draw(self, scores: "Tensor", numbers: np.ndarray) -> None:
        """The next token of each reply: the first whose share, with those of the tokens before it, reaches the number."""
        import torch

        shares = torch.softmax(scores, dim=-1).cumsum(dim=-1)
        for sequence, share, number in zip(self.sequences, shares, numbers.tolist(), strict=True):
            token = min(int(torch.searchsorted(share, number).item()), TOKENS - 1)
            sequence.append(token)
            self.drawn.append(token)

    def replies(self) -> list[int]:
        """The tokens of all replies, step by step."""
        return self.drawn


class After:
    """The new tokens alone through the network, with keys and values of the others kept; all replies drawn at once."""

    attention, without_gradients = staticmethod(all_heads), "inference_mode"

    def __init__(self, device: str) -> None:
        self.device = device
        self.drawn: list[Tensor] = []

    def begin(self, prompts: np.ndarray) -> None:
        """Answer other prompts."""
        import torch

        self.cache, self.new = Cache(BATCH, self.device), torch.from_numpy(prompts).to(self.device)

    def inputs(self) -> "tuple[Tensor, Cache]":
        """The tokens since the last call."""
        return self.new, self.cache

    def draw(self, scores: "Tensor", numbers: np.ndarray) -> None:
        """The next token of each reply: the first whose share, with those of the tokens before it, reaches the number."""
        import torch

        shares = torch.softmax(scores, dim=-1).cumsum(dim=-1)
        wanted = torch.from_numpy(numbers).to(self.device).unsqueeze(1)
        self.new = torch.searchsorted(shares, wanted).clamp_(max=TOKENS - 1)
        self.drawn.append(self.new)

    def replies(self) -> list[int]:
        """The tokens of all replies, step by step, read in one go."""
        import torch

        return torch.cat(self.drawn).flatten().tolist()


class Generation:
    """The loop of both variants."""

    title, mode, samples_per_step = "Transformer, token by token", "inference", BATCH

    def __init__(self, setup: Setup) -> None:
        self.parts = Before(setup.device) if setup.variant == "before" else After(setup.device)
        self.model = language_model(self.parts.attention, setup.seed, setup.device).eval()
        self.turns, self.random = setup.turns, np.random.default_rng(setup.seed)

    def run(self, loop: Loop = UNWATCHED) -> list[int]:
        """The tokens of all replies, step by step."""
        import torch

        with getattr(torch, self.parts.without_gradients)():
            for turn in range(self.turns):
                if turn % REPLY == 0:
                    self.parts.begin(self.random.integers(TOKENS, size=(BATCH, PROMPT)))
                with loop.phase("input"):
                    inputs = self.parts.inputs()
                with loop.phase("forward"):
                    scores = self.model(*inputs)
                with loop.phase("sampling"):
                    self.parts.draw(scores[:, -1], self.random.random(BATCH, dtype=np.float32))
                loop.step()
        return self.parts.replies()


job = Generation

if __name__ == "__main__":
    run_script(job, "A small transformer writes replies token by token.")
