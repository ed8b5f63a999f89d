"""The commands that compare runs, and keep what a comparison needs: `longpole diff`, `baseline`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..capture.errors import ChangeError
from .options import Example, Reading, output_option, place_of, print_verdict, run_options, with_peers
from .options import load as load_ranks
from .output import Output, beside, both, refuse_to_replace, write, write_text
from .progress import progress

if TYPE_CHECKING:
    from ..analyze.measured import MeasuredRun
    from ..analyze.trace import Trace
    from .model import Report


@click.command(cls=Example, example="longpole diff runs/before runs/after -o diff.html -o diff.pdf")
@click.argument("before")
@click.argument("after")
@output_option
@run_options
def diff(before: str, after: str, outputs: tuple[Path, ...], **reading: Any) -> None:
    """Compare two runs, per step: HTML and PDF beside AFTER, or the files you name."""
    refuse_to_replace(outputs, [before, after])
    made = diff_report_of(*(_explained(run, Reading(**reading)) for run in (before, after)))
    write(made, [Output(path) for path in outputs] or both(beside(after, "diff")))
    print_verdict(made)


def _explained(run: str, reading: Reading) -> "Trace":
    ranks = load_ranks([run], reading)
    return with_peers(ranks, place_of(reading.rank, ranks))


def diff_report_of(before: "Trace", after: "Trace") -> "Report":
    with progress() as show:
        show("Comparing")
        from ..analyze.diffs import diffs_for
        from ..analyze.run import run
        from .model import diff_report

        return diff_report(run(diffs_for(before, after), before, after), before, after)


def _usage(ask: Callable[[], Any]) -> Any:
    """What it gives; a wrong word on the command line is wrong usage."""
    try:
        return ask()
    except ChangeError as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _measured(side: Sequence[str], reading: Reading, more: Sequence[str] = ()) -> tuple["MeasuredRun", ...]:
    """Of runs and baseline files; a baseline may stand for several runs."""
    from ..analyze.baseline import is_baseline, read_baseline
    from ..analyze.measured import measured

    found: list[MeasuredRun] = []
    for run in side:
        if is_baseline(Path(run)):
            found += read_baseline(Path(run))
        else:
            found.append(measured(_explained(run, reading), more))
    return tuple(found)


@click.command(cls=Example, example="longpole baseline runs/main -o base.json\nlongpole baseline run1 run2 run3 -o base.json")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "-o", "--output", "output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write, .json."
)
@click.option("--metric", "more", multiple=True, metavar="NAME", help="Keep this, too: op:aten::mm, kernel:NAME.")
@run_options
def baseline(runs: tuple[str, ...], output: Path, more: tuple[str, ...], **reading: Any) -> None:
    """Keep what a comparison needs of runs in a small file without their traces, to be held in a repository.

    It has the facts that decide whether times compare, and each step's times and memory. Several runs of one program tell how
    much such runs differ.
    """
    from ..analyze.baseline import baseline_json
    from ..analyze.measured import refuse_unknown

    for name in more:
        _usage(partial(refuse_unknown, name))
    refuse_to_replace([output], runs)
    content = baseline_json(_measured(runs, Reading(**reading), more))
    write_text(output, content.decode("utf-8"))
    click.echo(f"Wrote {output}, {len(content) / 1000:.1f} kB")
