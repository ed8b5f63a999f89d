"""The command `longpole history`."""

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...capture.errors import BundleError, LongpoleError
from ..comparing import _measured as measured_runs
from ..options import Example, Reading, console, run_options
from ..output import Output, refuse_to_replace, write
from ..progress import progress

if TYPE_CHECKING:
    from ...analyze.measured import MeasuredRun
    from .model import HistoryReport

SUFFIXES = (".html", ".pdf", ".md", ".json", ".csv")
EXAMPLE = """longpole history runs/* -o history.html
longpole history nightly.json runs/today --json"""


def _outputs(ctx: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Wrong suffixes are refused before anything is loaded."""
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise click.BadParameter(f"{path.name} has no format of a history; choose {', '.join(SUFFIXES)}.")
    return paths


@click.command(cls=Example, example=EXAMPLE)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o", "--output", "outputs", type=click.Path(path_type=Path, dir_okay=False), multiple=True, callback=_outputs,
    help="Also write it to a file: .html, .pdf, .md, .json or .csv. May be given several times.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print longpole.history/1 as JSON and nothing else.")
@run_options
def history(runs: tuple[str, ...], outputs: tuple[Path, ...], as_json: bool, **reading: Any) -> None:
    """Step time and memory over many runs, and where they change.

    Each RUN may be anything that `longpole report` reads, or a file that `longpole baseline` made of one run or several. They
    stand in the order of their captures where all tell it, else as given.
    """
    refuse_to_replace(outputs, runs)
    measured = [found for run in runs for found in _read(run, Reading(**reading))]
    with progress() as show:
        show("Looking for changes")
        from .model import history_report

        report = history_report(measured)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        write(report, [Output(path) for path in outputs], renderer)
    if as_json:
        click.echo(renderer(".json")(report).decode("utf-8"), nl=False)
    else:
        from .render_terminal import TerminalHistory

        console().print(TerminalHistory(report))


def _read(run: str, reading: Reading) -> Sequence["MeasuredRun"]:
    """Of many runs a problem must say whose it is."""
    try:
        return measured_runs([run], reading)
    except LongpoleError as problem:
        if Path(run).name in str(problem):
            raise
        raise BundleError(f"{run}: {problem}") from problem


def renderer(suffix: str) -> Callable[["HistoryReport"], bytes]:
    """Of one format."""
    if suffix == ".json":
        from .render_json import render_json

        return render_json
    if suffix == ".csv":
        from .render_csv import render_csv

        return render_csv
    if suffix == ".md":
        from .render_markdown import render_markdown

        return render_markdown
    from .render_page import render_html, render_pdf

    return render_pdf if suffix == ".pdf" else render_html
