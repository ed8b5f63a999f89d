"""Runs where torch is: a training or inference loop in, a bundle (manifest, trace, snapshot) out."""

# Not lazily: the function and its module share a name, and the one imported last would win. This imports no torch.
from .record import record

__all__ = ["record"]
