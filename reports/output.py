"""Report and paths -> files: the format goes by suffix, everything is rendered before anything is written."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..capture.errors import RenderError
from .progress import progress

if TYPE_CHECKING:
    from .model import Report

SUFFIXES = (".html", ".pdf", ".md", ".json")
NO_PART_OF_NAMES = str.maketrans("", "", '<>:"/\\|?*')


@dataclass(frozen=True)
class Output:
    """A file to write; one that was not asked for by name is left out, with a sentence, where it cannot be made."""

    path: Path
    required: bool = True


def beside(run: str | Path, kind: str) -> Path:
    """`runs/before` -> `runs/before.report`, `trace.json.gz` -> `trace.report`; what is no file here: in the current folder."""
    place = Path(run).resolve()
    if "://" in str(run) or run == "-":
        place = Path(str(run).rstrip("/").rsplit("/", 1)[-1].translate(NO_PART_OF_NAMES) or "run").resolve()
    name = place.name if place.is_dir() else place.name.split(".json")[0].removesuffix(".zip")
    return place.with_name(f"{name.strip('-') or 'run'}.{kind}")


def refuse_to_replace(outputs: Iterable[Path], runs: Iterable[str | Path]) -> None:
    """RenderError when a report would be written over a trace, or into a bundle's own files."""
    from ..capture.bundle import is_bundle

    for output in outputs:
        place = output.resolve()
        for run in map(Path, runs):
            own_files = [run / file.name for file in run.iterdir()] if is_bundle(run) else [run]
            if any(place == own.resolve() for own in own_files):
                raise RenderError(f"{output} is a file of the run itself and would be lost; name another place with -o.")


def both(stem: Path) -> list[Output]:
    """HTML and PDF of one stem; a machine without Pango does without the PDF."""
    return [Output(stem.with_name(f"{stem.name}.html")), Output(stem.with_name(f"{stem.name}.pdf"), required=False)]


def write(made: Any, outputs: list[Output], renderer: Callable[[str], Callable[[Any], bytes]] | None = None) -> None:
    """Render everything first, then write: a failure leaves no file behind. `renderer`: by suffix; that of reports by default."""
    from ..capture.bundle import write_atomically

    renderer = renderer or _renderer
    ready: list[tuple[Path, bytes]] = []
    for output in outputs:
        path = output.path
        with progress() as show:
            show(f"Writing {path.name}")
            try:
                ready.append((path, renderer(path.suffix.lower())(made)))
            except RenderError as problem:
                if output.required:
                    raise
                click.echo(f"longpole: no PDF written. {problem}", err=True)
    for path, _ in ready:
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    for path, content in ready:
        with _writing(path):
            write_atomically(path, content)
        click.echo(f"Wrote {path}")


def write_text(path: Path, text: str) -> None:
    """A small file, whole or not at all; RenderError where it cannot be written."""
    from ..capture.bundle import write_atomically

    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode("utf-8"))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise RenderError(f"{path} cannot be written ({problem.strerror}); name another place with -o.") from problem


def _renderer(suffix: str) -> Callable[["Report"], bytes]:
    if suffix == ".pdf":
        from .render_pdf import render_pdf

        return render_pdf
    if suffix == ".md":
        from .render_markdown import render_markdown

        return render_markdown
    if suffix == ".json":
        from .render_json import render_json

        return render_json
    from .render_html import render_html

    return render_html
