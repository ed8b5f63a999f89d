"""What several commands share: how a run is named and read, where a report goes, and how an example ends a help text."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..capture.errors import BundleError
from .output import SUFFIXES
from .progress import progress

if TYPE_CHECKING:
    from ..analyze.trace import Trace
    from .model import Report

OUTPUT_HELP = "File to write; its suffix is the format (.html, .pdf, .md, .json). May be given several times."


class Example(click.Command):
    """A command whose help ends with an example."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("Example:")
        with formatter.indentation():
            for line in self.example.splitlines():
                formatter.write(" " * formatter.current_indent + line + "\n")


def _outputs(ctx: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Wrong suffixes are refused before anything is loaded."""
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise click.BadParameter(f"{path.name} has no format longpole writes; choose {', '.join(SUFFIXES)}.")
    return paths


output_option = click.option(
    "-o",
    "--output",
    "outputs",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    callback=_outputs,
    help=OUTPUT_HELP,
)
run_argument = click.argument("run", nargs=-1, required=True)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How a run is read: the same for every command that reads one."""
    for option in (
        click.option(
            "--rank", type=click.IntRange(0), help="Of a run with several ranks, the one to explain; the first by default."
        ),
        click.option(
            "--cache", "use_cache", is_flag=True, help="Keep what was parsed, so that the next command need not read it again."
        ),
        click.option(
            "--max-gb", type=click.FloatRange(0, min_open=True), default=16, show_default=True, help="Of text in an archive."
        ),
        click.option("--processes", type=click.IntRange(1), help="To read with; as many as there are processors by default."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Reading:
    """The options of `run_options`."""

    rank: int | None
    use_cache: bool
    max_gb: float
    processes: int | None


def usable_processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(run: Sequence[str], reading: Reading) -> tuple["Trace", ...]:
    """All ranks."""
    with progress() as show:
        show(f"Reading {run[0] if len(run) == 1 else f'{len(run)} files'}")
        from ..analyze.load import load_run

        return load_run(run, **_how(reading), progress=show.bytes)


def load_detail(trace: "Trace", reading: Reading) -> "Trace":
    """The detail pass of a rank, read as its bundle was."""
    from ..analyze import load as loader

    return loader.load_detail(trace, **_how(reading))


def _how(reading: Reading) -> dict[str, Any]:
    return {
        "largest_bytes": round(reading.max_gb * 10**9),
        "processes": reading.processes or usable_processors(),
        "cache": cache_folder() if reading.use_cache else None,
    }


def cache_folder() -> Path:
    from ..analyze.loading.cached import default_folder

    return default_folder()


def place_of(rank: int | None, traces: Sequence["Trace"]) -> int:
    """Where the rank to explain stands among all of them."""
    ranks = [trace.source.rank or 0 for trace in traces]
    if rank is not None and rank not in ranks:
        raise BundleError(f"The run holds no rank {rank}; choose one of {', '.join(map(str, ranks))}.")
    return 0 if rank is None else ranks.index(rank)


def one_rank(run: Sequence[str], reading: Reading) -> "Trace":
    """The rank to look at, where only one can be."""
    traces = load(run, reading)
    return traces[place_of(reading.rank, traces)]


def with_peers(traces: Sequence["Trace"], place: int) -> "Trace":
    """The rank to explain, which knows the others: what they wait for decides what a change saves."""
    return replace(traces[place], peers=tuple(trace for number, trace in enumerate(traces) if number != place))


def print_verdict(made: "Report") -> None:
    from .render_terminal import verdict_line

    console().print(verdict_line(made))


def console() -> Any:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)
