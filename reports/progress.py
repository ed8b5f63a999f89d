"""Work that takes a while -> a line with a bar and the time so far, on stderr of a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Show:
    """What a progress line can be told: a text, how many steps of how many are done, or how far a file is read."""

    def __init__(self, progress: Any) -> None:
        self.progress, self.task = progress, progress.add_task("", total=None, detail="")

    def __call__(self, text: str) -> None:
        self.progress.update(self.task, description=text)

    def bytes(self, read: int, total: int | None, events: int) -> None:
        of = f" of {total / 1e6:,.0f}" if total else ""
        detail = f"{read / 1e6:,.0f}{of} MB, {events:,} events"
        self.progress.update(self.task, completed=read, total=total, detail=detail)

    def steps(self, done: int, total: int) -> None:
        self.progress.update(self.task, completed=done, total=total)


class Silence:
    """What can be told the same and shows nothing: without its imports, and without a line in a pipe or a log."""

    def __call__(self, text: str) -> None:
        pass

    def bytes(self, read: int, total: int | None, events: int) -> None:
        pass

    def steps(self, done: int, total: int) -> None:
        pass


@contextmanager
def progress() -> Iterator[Show | Silence]:
    """The line, for as long as the block runs; gone when the work is done."""
    if not sys.stderr.isatty():
        yield Silence()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Show(bar)
