"""The bundled workloads, by the name that `longpole capture` takes."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .dqn_capture import capture_dqn


class Workload(NamedTuple):
    """A function that captures a bundle into a folder and returns it, and one line about what it runs."""

    capture: Callable[..., Path]
    description: str


WORKLOADS = {
    "dqn": Workload(capture_dqn, "DQN on CartPole-v1, training or inference, before and after its bottlenecks are removed"),
}
