"""A workload, a variant and a mode -> a bundle of its profile."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from ..errors import CaptureError
from ..recorder import record
from .loops import Job, Mode, Progress, Setup, Variant, best_device, one_thread


def capture(
    name: str,
    modules: Mapping[Mode, str],
    folder: Path,
    *,
    variant: Variant = "before",
    mode: Mode | None = None,
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
    """Record one variant into a bundle and return its folder. `modules`: for each mode the module whose `job` makes it.

    The mode is the first of the workload unless told, the device the GPU where there is one. `progress(done, total)` is called
    while a workload is made and once at the end, never inside the recorded loop. Raises CaptureError as `record` does.
    """
    mode = mode or next(iter(modules))
    if mode not in modules:
        raise CaptureError(f"The workload {name} has no mode {mode}; it has {' and '.join(modules)}.")
    turns = wait + warmup + steps
    with one_thread():
        job: Job = import_module(f".{modules[mode]}", __package__).job(
            Setup(variant, turns, seed, device or best_device(), progress)
        )
        with record(
            folder,
            steps=steps,
            wait=wait,
            warmup=warmup,
            shapes=shapes,
            stacks=stacks,
            memory=memory,
            title=f"{job.title}, {variant}",
            mode=job.mode,
            samples_per_step=job.samples_per_step,
            seed=seed,
            program={"workload": name, "variant": variant},
            model=job.model,
            force=force,
        ) as rec:
            job.run(rec)
    if progress is not None:
        progress(turns, turns)
    return Path(folder)
