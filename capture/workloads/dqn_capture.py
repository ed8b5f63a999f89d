"""A variant and a mode of the DQN -> a bundle of its profile."""

from pathlib import Path
from typing import Any, Literal

from ..recorder import record
from .dqn import BATCH, ENVIRONMENT, Agent, Progress, Variant, one_thread
from .dqn_inference import record_inference

Mode = Literal["train", "infer"]


def capture_dqn(
    folder: Path,
    *,
    variant: Variant = "before",
    mode: Mode = "train",
    steps: int = 60,
    wait: int = 60,
    warmup: int = 5,
    seed: int = 0,
    shapes: bool = False,
    stacks: bool = False,
    memory: bool = False,
    force: bool = False,
    device: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Record one variant into a bundle and return its folder.

    It runs on the GPU where there is one, unless `device` says otherwise. `progress(done, total)` is called while a network
    is trained and once at the end, never inside the recorded loop. Raises CaptureError as `record` does.
    """
    options = {"steps": steps, "wait": wait, "warmup": warmup, "shapes": shapes, "stacks": stacks, "memory": memory}
    options |= {"title": f"DQN on CartPole, {mode}, {variant}", "seed": seed, "force": force}
    options |= {"program": {"workload": "dqn", "variant": variant, "environment": ENVIRONMENT}}
    recorded = record_training if mode == "train" else record_inference
    with one_thread():
        recorded(Path(folder), variant, seed, device or best_device(), steps + wait + warmup, options, progress)
    return Path(folder)


def record_training(
    folder: Path,
    variant: Variant,
    seed: int,
    device: str,
    turns: int,
    options: dict[str, Any],
    progress: Progress | None,
) -> None:
    """Record the training loop once the replay buffer is filled, so that every step makes an update."""
    with Agent(variant, seed, device) as agent:
        agent.play_at_random()
        with record(folder, mode="training", samples_per_step=BATCH, model=agent.network, **options) as rec:
            for _ in range(turns):
                agent.step(rec.phase)
                rec.step()
    if progress is not None:
        progress(turns, turns)


def best_device() -> str:
    """The GPU where torch has one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
