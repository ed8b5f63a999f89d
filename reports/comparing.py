"""The commands that compare runs: `longpole diff`, `check`, `baseline`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..capture.errors import ChangeError, LongpoleError, MissingData
from .options import Example, Reading, output_option, place_of, print_verdict, run_options, with_peers
from .options import load as load_ranks
from .output import Output, beside, both, refuse_to_replace, write, write_text
from .progress import progress

if TYPE_CHECKING:
    from ..analyze.gate import Limit
    from ..analyze.measured import MeasuredRun
    from ..analyze.trace import Trace
    from .model import Report

BETWEEN = "--"  # runs before | runs after
ASIDE = "\0"  # stands for it while click reads the options: a name cannot hold it
UNREADABLE = 4  # exit status of `check` where an input cannot be read


class OfTwoSides(Example):
    """A command on runs before and after: two of them, or any number on both sides of `--`. Options may stand anywhere."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [ASIDE if arg == BETWEEN else arg for arg in args])


def sides(runs: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """UsageError where they do not come apart into two."""
    if ASIDE in runs:
        at = runs.index(ASIDE)
        before, after = tuple(runs[:at]), tuple(runs[at + 1 :])
        if before and after and ASIDE not in after:
            return before, after
    elif len(runs) == 2:
        return (runs[0],), (runs[1],)
    raise click.UsageError(
        f"Name two runs, or several on both sides of {BETWEEN}: longpole {click.get_current_context().info_name} base1 base2 "
        f"{BETWEEN} new1 new2"
    )


runs_argument = click.argument("runs", nargs=-1, required=True, metavar="BEFORE... [--] AFTER...")
anyway_option = click.option("--anyway", is_flag=True, help="Compare runs that differ in what decides their speed, too.")


@click.command(
    cls=OfTwoSides,
    example="longpole diff runs/before runs/after -o diff.html -o diff.pdf\nlongpole diff base1 base2 base3 -- new1 new2 new3",
)
@runs_argument
@output_option
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print longpole.diff/1 as JSON and nothing else.")
@run_options
def diff(runs: tuple[str, ...], outputs: tuple[Path, ...], anyway: bool, as_json: bool, **reading: Any) -> None:
    """Compare two runs, per step: HTML and PDF beside AFTER, or the files you name.

    With several runs a side, `--` between them, the difference between runs of the same program counts, which one run a side
    cannot show. Each RUN may be anything that `longpole report` reads.
    """
    before, after = sides(runs)
    refuse_to_replace(outputs, [*before, *after])
    old, new = (_traces(side, Reading(**reading)) for side in (before, after))
    made = diff_report_of(old, new, anyway)
    if as_json:
        from .render_json import render_json

        click.echo(render_json(made).decode("utf-8"), nl=False)
    if outputs or not as_json:
        write(made, [Output(path) for path in outputs] or both(beside(after[0], "diff")))
    if not as_json:
        print_verdict(made)


def _traces(side: Sequence[str], reading: Reading) -> tuple["Trace", ...]:
    """The explained rank of each run."""
    return tuple(_explained(run, reading) for run in side)


def _explained(run: str, reading: Reading) -> "Trace":
    ranks = load_ranks([run], reading)
    return with_peers(ranks, place_of(reading.rank, ranks))


def diff_report_of(before: Sequence["Trace"], after: Sequence["Trace"], anyway: bool = False) -> "Report":
    with progress() as show:
        show("Comparing")
        from ..analyze.diffs import diffs_for
        from ..analyze.run import run
        from .model import diff_report

        return diff_report(run(diffs_for(before, after), before, after), before, after, anyway)


FORM_OF = {".txt": "text", ".json": "json", ".md": "markdown", ".xml": "junit"}


def _forms(ctx: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in paths:
        if path.suffix.lower() not in FORM_OF:
            raise click.BadParameter(f"{path.name} has no format of a check; choose {', '.join(FORM_OF)}.")
    return paths


CHECK_EXAMPLE = """longpole check base.json runs/after --max-slowdown 3%
longpole check base1 base2 -- new1 new2 --metric phase:backward=5% --markdown"""


@click.command(cls=OfTwoSides, example=CHECK_EXAMPLE)
@runs_argument
@click.option("--max-slowdown", default="3%", show_default=True, help="How much longer a step may take: 3%, or 2ms.")
@click.option(
    "--max-memory", help="How much more memory a step may hold at its peak: 5%, or 100MB.  [default: 5%, where recorded]"
)
@click.option("--metric", "more", multiple=True, metavar="NAME=LIMIT", help="Any other: gpu_idle_us=10%, op:aten::mm=50us.")
@anyway_option
@click.option("--json", "form", flag_value="json", help="Print longpole.check/1 as JSON and nothing else.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown, for a comment on a pull request.")
@click.option("--junit", "form", flag_value="junit", help="Print JUnit XML, for the test report of a CI.")
@click.option(
    "-o", "--output", "outputs", type=click.Path(path_type=Path, dir_okay=False), multiple=True, callback=_forms,
    help="Also write it to a file: .json, .md, .xml (JUnit) or .txt. May be given several times.",
)  # fmt: skip
@run_options
def check(
    runs: tuple[str, ...], max_slowdown: str, max_memory: str | None, more: tuple[str, ...], anyway: bool, form: str | None,
    outputs: tuple[Path, ...], **reading: Any,
) -> None:  # fmt: skip
    """Fail where a run got slower, or takes more memory, than a limit allows: a gate for CI.

    Sides are runs, or baseline files that `longpole baseline` made. Exit status: 0 passed; 1 a metric is worse, and by more than
    its limit; 2 wrong usage; 3 not comparable, or too few steps to tell; 4 an input cannot be read.
    """
    from ..analyze.gate import CANNOT_TELL, gate, memory_limit
    from .check import FORMS, STATUS

    before, after = sides(runs)
    step, *others = _limits(max_slowdown, more)
    memory_of = partial(memory_limit, max_memory or "5%", max_memory is not None)
    _usage(lambda: memory_of((), ()))
    try:
        old, new = (_measured(side, Reading(**reading), [one.metric for one in others]) for side in (before, after))
    except LongpoleError as problem:
        click.echo(f"longpole: {problem}", err=True)
        raise SystemExit(STATUS[CANNOT_TELL] if isinstance(problem, MissingData) else UNREADABLE) from problem
    found = gate(old, new, [step, memory_of(old, new), *others], anyway)
    for path in outputs:
        write_text(path, FORMS[FORM_OF[path.suffix.lower()]](found))
    click.echo(FORMS[form or "text"](found).rstrip())
    raise SystemExit(STATUS[found.outcome])


def _limits(max_slowdown: str, more: Sequence[str]) -> list["Limit"]:
    """On the step first; UsageError for what is no metric or no limit."""
    from ..analyze.gate import limit
    from ..analyze.measured import STEP, refuse_unknown

    found = [_usage(lambda: limit(STEP, max_slowdown))]
    for text in more:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise click.UsageError(f"--metric takes NAME=LIMIT, for instance gpu_idle_us=10%; {text} has no limit.")
        _usage(partial(refuse_unknown, name))
        found.append(_usage(partial(limit, name, value)))
    return found


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

    It has the facts that decide whether times compare, and each step's times and memory; `longpole check` and `history` read it
    in place of a run. Several runs of one program tell how much such runs differ.
    """
    from ..analyze.baseline import baseline_json
    from ..analyze.measured import refuse_unknown

    for name in more:
        _usage(partial(refuse_unknown, name))
    refuse_to_replace([output], runs)
    content = baseline_json(_measured(runs, Reading(**reading), more))
    write_text(output, content.decode("utf-8"))
    click.echo(f"Wrote {output}, {len(content) / 1000:.1f} kB")
