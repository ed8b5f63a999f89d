"""`annotated.py WORKLOAD`: a bundled workload whose loop marks its own phases, by other ranges than longpole's."""

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.profiler import record_function

from longpole.capture.workloads.loops import Setup, Unwatched, one_thread

MARK = "annotated "
TURNS = 45


class Annotated(Unwatched):
    def phase(self, name: str) -> Any:
        return record_function(MARK + name)

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        iterator = iter(items)
        while True:
            try:
                with self.phase("data_loading"):
                    item = next(iterator)
            except StopIteration:
                return
            yield item


def main() -> None:
    job = importlib.import_module(f"longpole.capture.workloads.{sys.argv[1]}").job
    with one_thread():
        job(Setup("before", TURNS, device="cpu")).run(Annotated())


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
