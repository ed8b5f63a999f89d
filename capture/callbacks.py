"""Trainers of other packages -> a bundle of their training loop; those packages are imported when a callback is made.

    Trainer(model, args, callbacks=[transformers_callback("runs/base")])      # Hugging Face
    Trainer(callbacks=[lightning_callback("runs/base", steps=40)])            # Lightning

A loop with Accelerate is one of your own: put `with longpole.capture.watch("runs/base"):` around it.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import CaptureError
from .running.watched import Watched


def transformers_callback(folder: Path | str, **options: Any) -> Any:
    """A TrainerCallback that records what `train()` does; options as those of `watch`. CaptureError without transformers."""

    class Longpole(_class_of("TrainerCallback", "transformers")):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watched = Watched(folder, **options)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watched.end()

    return Longpole()


def lightning_callback(folder: Path | str, **options: Any) -> Any:
    """A Callback that records what `fit()` does; options as those of `watch`. CaptureError without lightning."""

    class Longpole(_class_of("Callback", "lightning.pytorch", "pytorch_lightning")):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.watched = Watched(folder, **options)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.watched.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            if hasattr(self, "watched"):
                self.watched.end(exception)

    return Longpole()


def _class_of(name: str, *packages: str) -> Any:
    """The class from the first of these packages that is installed."""
    for package in packages:
        if find_spec(package.partition(".")[0]) is not None:
            return getattr(import_module(package), name)
    raise CaptureError(f"{packages[0].partition('.')[0]} is not installed here, and this is a callback of it; install it.")
