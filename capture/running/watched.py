"""A part of your own program -> a bundle of the loop in it, which longpole finds by itself.

with watch("runs/base"):
trainer.fit(model)

@watch("runs/base", steps=40)
def train(): ...
"""

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .options import Options
from .requests import Requests
from .session import Session


class Watched:
    """What is watched from now until `end`, or until the program ends.

    Raises CaptureError when nothing can be recorded into that folder. What fails later is one sentence on stderr, so that what
    was trained is not lost for it.
    """

    def __init__(self, folder: Path | str, **options: Any) -> None:
        place = Path(folder)
        self.session = Session(Options(place, **{"title": place.resolve().name, **options}), Requests())
        self._going_on = True
        self.session.start()
        atexit.register(self.end)

    def end(self, failure: BaseException | None = None) -> None:
        """Write what there is; the second time nothing happens."""
        if not self._going_on:
            return
        self._going_on = False
        atexit.unregister(self.end)
        self.session.leave(failure)
        for problem in self.session.outcome():
            sys.stderr.write(f"longpole: {problem}\n")


@contextmanager
def watch(folder: Path | str, **options: Any) -> Iterator[Session]:
    """Record the loop that runs inside the `with` block, or inside a function that this decorates.

    Options are those of `longpole run`: steps, wait, warmup, after, shapes, stacks, memory, detail, step_on, samples_per_step,
    title, force. Of what is yielded `bundles` lists what has been recorded. Raises CaptureError on entering, as Watched does.
    """
    watched = Watched(folder, **options)
    try:
        yield watched.session
    except BaseException as failure:
        watched.end(failure)
        raise
    watched.end()
