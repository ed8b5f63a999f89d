"""A program's own idea of where its steps go, printed when it ends: what a recording of it is compared with."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

ASLEEP_S = 0.002  # in the parts that a test wants to find again: a busy machine shifts it little


class Stopwatch:
    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self._now: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._now[part] += time.perf_counter() - began

    def step(self) -> None:
        self.steps.append(dict(self._now))
        self._now.clear()

    def tell(self) -> None:
        print("STOPWATCH " + json.dumps(self.steps))
