"""A small transformer that predicts the next token, with the attention of either variant: tokens -> a score for each next one."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .loops import seeded

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

TOKENS, LONGEST = 64, 128
WIDTH, HEADS, LAYERS = 64, 4, 2
Attention = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]


def head_by_head(queries: "Tensor", keys: "Tensor", values: "Tensor") -> "Tensor":
    """Attention of one head after the other: its scores, a mask, their softmax, and the values by that."""
    import torch

    answers = []
    for query, key, value in zip(*(heads.chunk(HEADS, dim=-1) for heads in (queries, keys, values)), strict=True):
        scores = query @ key.transpose(-2, -1) / key.shape[-1] ** 0.5
        mask = torch.tril(torch.ones(scores.shape[-2:], device=scores.device))
        weights = torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)
        answers.append(weights @ value)
    return torch.cat(answers, dim=-1)


def all_heads(queries: "Tensor", keys: "Tensor", values: "Tensor") -> "Tensor":
    """Attention of all heads in one operator. A single query is of the last token: it may look at all keys."""
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (queries, keys, values))
    return scaled_dot_product_attention(query, key, value, is_causal=queries.shape[1] > 1).transpose(1, 2).flatten(-2)


class Cache:
    """Keys and values of the tokens so far, by layer, so that a new token needs no other's computed again."""

    def __init__(self, batch: int, device: str) -> None:
        import torch

        self.rows = torch.zeros(LAYERS, 2, batch, LONGEST, WIDTH, device=device)
        self.length = 0

    def extended(self, layer: int, keys: "Tensor", values: "Tensor") -> "tuple[Tensor, Tensor]":
        """Those so far of a layer, with the new ones."""
        kept, end = self.rows[layer], self.length + keys.shape[1]
        kept[0, :, self.length : end], kept[1, :, self.length : end] = keys, values
        return kept[0, :, :end], kept[1, :, :end]


def language_model(attention: Attention, seed: int, device: str) -> "Module":
    """Its weights depend on the seed alone. Called with tokens and, for those that follow earlier ones, the Cache."""
    import torch
    from torch import nn

    linear = partial(nn.Linear, bias=False)

    class Block(nn.Module):
        def __init__(self, layer: int) -> None:
            super().__init__()
            self.layer = layer
            self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attend, self.project = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
            self.think = nn.Sequential(linear(WIDTH, 4 * WIDTH), nn.GELU(), linear(4 * WIDTH, WIDTH))

        def forward(self, states: "Tensor", cache: Cache | None) -> "Tensor":
            queries, keys, values = self.attend(self.norm_1(states)).chunk(3, dim=-1)
            if cache is not None:
                keys, values = cache.extended(self.layer, keys, values)
            states = states + self.project(attention(queries, keys, values))
            return states + self.think(self.norm_2(states))

    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LONGEST, WIDTH)
            self.blocks = nn.ModuleList(Block(layer) for layer in range(LAYERS))
            self.norm, self.score = nn.LayerNorm(WIDTH), linear(WIDTH, TOKENS)

        def forward(self, tokens: "Tensor", cache: Cache | None = None) -> "Tensor":
            first, count = cache.length if cache else 0, tokens.shape[1]
            states = self.tokens(tokens) + self.positions(torch.arange(first, first + count, device=tokens.device))
            for block in self.blocks:
                states = block(states, cache)
            if cache is not None:
                cache.length += count
            return self.score(self.norm(states))

    with seeded(seed):
        return LanguageModel().to(device)
