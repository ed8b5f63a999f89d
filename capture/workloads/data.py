"""Tensors of samples -> batches of them in random order, from a DataLoader: sample by sample, or each by one lookup."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.utils.data import DataLoader


class Samples(Protocol):
    """A map-style dataset."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


class Tensors:
    """A dataset whose item is a sample, or a batch where the index is a list."""

    def __init__(self, *tensors: "Tensor") -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: "int | Sequence[int]") -> "list[Tensor]":
        return [tensor[index] for tensor in self.tensors]


def one_by_one(samples: Samples, *, batch: int, turns: int, seed: int) -> "DataLoader[Any]":
    """Each sample fetched alone, then stacked by the loader."""
    from torch.utils.data import DataLoader, RandomSampler

    order = RandomSampler(samples, num_samples=batch * turns, generator=_generator(seed))
    return DataLoader(samples, batch_size=batch, sampler=order, generator=_generator(seed))  # pyright: ignore[reportArgumentType]


def at_once(samples: Samples, *, batch: int, turns: int, seed: int, device: str) -> "DataLoader[Any]":
    """The same batches, each by one lookup."""
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    order = BatchSampler(RandomSampler(samples, num_samples=batch * turns, generator=_generator(seed)), batch, drop_last=True)
    options = {"batch_size": None, "generator": _generator(seed), "pin_memory": device == "cuda"}
    return DataLoader(samples, sampler=order, **options)  # pyright: ignore[reportArgumentType]


def _generator(seed: int) -> "torch.Generator":
    import torch

    return torch.Generator().manual_seed(seed)  # not the caller's random numbers
