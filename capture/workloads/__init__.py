"""The bundled workloads, by the name that `longpole capture` takes; what runs them is imported once it is asked for."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .capturing import capture
from .loops import Mode


class Workload(NamedTuple):
    """`capture` records into a folder and returns it; `packages` are what it needs; the description is one line."""

    capture: Callable[..., Path]
    modes: tuple[Mode, ...]
    packages: tuple[str, ...]
    description: str


def _workload(name: str, modules: Mapping[Mode, str], description: str, *packages: str) -> Workload:
    return Workload(partial(capture, name, modules), tuple(modules), ("torch", *packages), description)


WORKLOADS = {
    "dqn": _workload("dqn", {"train": "dqn", "infer": "dqn_inference"}, "DQN on CartPole-v1", "gymnasium"),
    "mlp": _workload("mlp", {"train": "mlp"}, "a multilayer perceptron on random data"),
    "convnet": _workload("convnet", {"train": "convnet"}, "a small convolutional network on random images"),
    "transformer": _workload("transformer", {"train": "transformer"}, "a small transformer learns to predict the next token"),
    "generate": _workload("generate", {"infer": "generate"}, "a small transformer writes replies token by token"),
}
