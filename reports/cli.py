"""The `longpole` command. Everything heavy is imported where it is used, so that `--help` answers at once."""

import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..capture.errors import CaptureError, FolderUsedError, LongpoleError
from .comparing import baseline, check, diff, diff_report_of
from .history.command import history
from .options import (
    Example,
    Reading,
    console,
    load,
    load_detail,
    one_rank,
    output_option,
    place_of,
    print_verdict,
    run_argument,
    run_options,
    with_peers,
)
from .output import Output, beside, both, refuse_to_replace, write
from .progress import progress
from .running import run

if TYPE_CHECKING:
    from ..analyze.trace import Trace
    from .model import Report

MOST_NAMED = 4  # files in a sentence


class WorkloadName(click.ParamType):
    """A choice of the bundled workloads, whose package is imported only where one is asked for."""

    name = "workload"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return click.Choice(self._names()).convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "{" + "|".join(self._names()) + "}"

    def _names(self) -> list[str]:
        from ..capture.workloads import WORKLOADS

        return list(WORKLOADS)


@click.group(
    name="longpole",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: longpole report trace.json.gz -o report.pdf",
)
@click.version_option(package_name="longpole", prog_name="longpole")
def cli() -> None:
    """Finds what limits a PyTorch step, says what to change and what that would save, and checks whether it did.

    RUN is a bundle that longpole captured (folder or .zip) or any chrome trace of torch.profiler (.json, .gz, .zst, .zip).
    Several files, a folder or a glob of them are the ranks of one run; a URL and - (standard input) work too.
    """


@cli.command(cls=Example, example="longpole demo\nlongpole demo my-demo --force")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="longpole-demo")
@click.option("--force", is_flag=True, help="Replace the captures of an earlier demo.")
def demo(folder: Path, force: bool) -> None:
    """Capture a DQN before and after its bottlenecks are removed; report on it and compare."""
    from ..capture.workloads import WORKLOADS

    _refuse_without("torch", "gymnasium")
    runs = [folder / "before", folder / "after"]
    for bundle in runs:
        with progress() as show:
            show(f"Capturing DQN training, {bundle.name}")
            WORKLOADS["dqn"].capture(bundle, variant=bundle.name, mode="train", force=force, progress=show.steps)
        click.echo(f"Captured {bundle}")
    plain = Reading(rank=None, use_cache=False, max_gb=16, processes=1)
    traces = [one_rank([str(bundle)], plain) for bundle in runs]
    before = _run_report(traces[:1], plain)
    write(before, both(folder / "report"))
    print_verdict(before)
    difference = diff_report_of(traces[:1], traces[1:])
    write(difference, both(folder / "diff"))
    print_verdict(difference)


@cli.command(cls=Example, example="longpole capture dqn --variant before -o runs/before")
@click.argument("workload", type=WorkloadName())
@click.option(
    "--variant",
    type=click.Choice(["before", "after"]),
    default="before",
    show_default=True,
    help="As tutorials write it, or its bottlenecks removed.",
)
@click.option(
    "--mode",
    type=click.Choice(["train", "infer"]),
    help="Training or inference; by default the first of the two that the workload has.",
)
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Bundle folder to make."
)
@click.option("--steps", type=click.IntRange(1), default=60, show_default=True, help="Steps to profile.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights, data and environment.")
@click.option("--shapes", is_flag=True, help="Record input shapes (slower).")
@click.option("--stacks", is_flag=True, help="Record Python stacks (much slower).")
@click.option("--memory", is_flag=True, help="Record allocations (much slower).")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def capture(workload: str, folder: Path, **options: Any) -> None:
    """Profile a bundled workload into a bundle; your own loop does so with longpole.capture.record()."""
    from ..capture.workloads import WORKLOADS

    _refuse_without(*WORKLOADS[workload].packages)
    with progress() as show:
        show(f"Capturing {workload}")
        WORKLOADS[workload].capture(folder, progress=show.steps, **options)
    click.echo(f"Captured {folder}")


@cli.command(cls=Example, example="longpole report runs/before\nlongpole report trace.json.gz -o report.pdf -o report.html")
@run_argument
@output_option
@run_options
def report(run: tuple[str, ...], outputs: tuple[Path, ...], **reading: Any) -> None:
    """Explain one run: HTML and PDF beside it, or the files you name."""
    refuse_to_replace(outputs, run)
    made = _explained(run, Reading(**reading))
    write(made, [Output(path) for path in outputs] or both(beside(run[0], "report")))
    print_verdict(made)


@cli.command(cls=Example, example="longpole summary runs/before\nlongpole summary trace.json.gz --json > summary.json")
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print longpole.summary/1 as JSON and nothing else.")
@run_options
def summary(run: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """The main numbers of a run, on the terminal or as JSON."""
    made = _explained(run, Reading(**reading))
    if as_json:
        from .render_json import render_json

        click.echo(render_json(made).decode("utf-8"), nl=False)
    else:
        from .render_terminal import TerminalReport

        console().print(TerminalReport(made))


WHATIF_EXAMPLE = """longpole whatif trace.json.gz "kernel:gemm x0.5" "sync:aten::item x0"
longpole whatif runs/before "phase:optimizer x0.5\""""


@cli.command(cls=Example, example=WHATIF_EXAMPLE)
@click.argument("run")
@click.argument("changes", nargs=-1, required=True, metavar="CHANGE...")
@click.option("--json", "as_json", is_flag=True, help="Print longpole.whatif/1 as JSON and nothing else.")
@run_options
def whatif(run: str, changes: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """Replay a run with changes, each alone, then all at once: what would a step take?

    A CHANGE is what, and how much of its time is left: "kernel:gemm x0.5" (a class of kernels, or a part of a name),
    "op:aten::mm x0", "module:Linear_0 x0.5", "phase:optimizer x0.5", "host x0.5", "host:NAME x0", "sync x0", "sync:aten::item x0"
    (waits for the GPU), "copy:h2d pinned", "copy x0", "comm x0", "data x0" (waits for data), "launch x0" (gaps between kernels),
    "graph" (all launches free).
    """
    from ..analyze.replay.what import parse

    asked = [parse(change) for change in changes]  # a wrong one is refused before anything is loaded
    how = Reading(**reading)
    traces = load([run], how)
    trace = with_peers(traces, place_of(how.rank, traces))
    with progress() as show:
        show("Replaying")
        from ..analyze.replay.quality import quality
        from ..analyze.replay.whatif import predict
        from .whatif import whatif_json, whatif_text

        found = predict(trace, [*((change,) for change in asked), *([tuple(asked)] if len(asked) > 1 else [])])
    if as_json:
        click.echo(whatif_json(found, quality(trace)))
    else:
        terminal = console()
        terminal.print(whatif_text(found, quality(trace), terminal.width))


@cli.command(cls=Example, example="longpole ops trace.json.gz --sort cpu_time_total --limit 10")
@run_argument
@click.option("--sort", metavar="KEY", default="self_cpu_time_total", show_default=True, help="A sort key of torch's table.")
@click.option("--limit", type=click.IntRange(-1), default=20, show_default=True, help="Rows to show; -1 for all.")
@click.option("--by-shape", is_flag=True, help="A row for each name and input shapes.")
@run_options
def ops(run: tuple[str, ...], sort: str, limit: int, by_shape: bool, **reading: Any) -> None:
    """The operator table, as torch's key_averages().table() prints it."""
    from ..analyze.analyses.op_table import op_table, op_table_by_shape
    from .ops_table import SORT_KEYS, torch_table

    if sort not in SORT_KEYS:
        raise click.BadParameter(f"{sort!r} is no key; choose one of {', '.join(SORT_KEYS)}.", param_hint="--sort")
    table = (op_table_by_shape if by_shape else op_table)(one_rank(run, Reading(**reading)))
    click.echo(torch_table(table, sort, limit), nl=False)


PACK_EXAMPLE = """longpole pack runs/before
longpole pack runs/before --redact -o to-share.zip"""


@cli.command(cls=Example, example=PACK_EXAMPLE)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", "target", type=click.Path(path_type=Path, dir_okay=False), help="Beside the bundle by default.")
@click.option(
    "--redact", is_flag=True, help="Leave out folders, people, machines, arguments of the command and unknown metadata."
)
@click.option("--max-gb", type=click.FloatRange(0, min_open=True), default=16, show_default=True, help="Of text in a trace.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def pack(run: Path, target: Path | None, redact: bool, max_gb: float, force: bool) -> None:
    """Put a bundle into one .zip, which every command reads as it reads the folder.

    With --redact paths are cut to base names, and people, machines, the command's arguments and unknown metadata go. Names of
    functions, modules, kernels and ranges stay, for a report is about them: look at them before you share the file.
    """
    from ..capture.packing import pack as packed
    from ..capture.packing import refuse_used

    name = run.resolve().name.removesuffix(".zip")
    target = target or run.resolve().with_name(f"{name}.redacted.zip" if redact else f"{name}.zip")
    refuse_used(target, force=force)  # before a long trace is read
    if not redact:
        with progress() as show:
            show(f"Packing {run}")
            others = packed(run, target, force=force)
        click.echo(f"Wrote {target}")
        _name_left_out(others, "no file of a bundle")
        return
    from tempfile import TemporaryDirectory

    with progress() as show, TemporaryDirectory() as folder:
        show(f"Redacting {run}")
        from ..analyze.redaction.bundles import redact as redacted

        done = redacted(run, Path(folder), largest_bytes=round(max_gb * 10**9), progress=show.bytes)
        packed(Path(folder), target, force=force)
    click.echo(f"Wrote {target}")
    _name_left_out([key for key, _ in done.left_out.most_common()], "not known to be free of names")
    if done.dropped_events:
        click.echo(f"longpole: {done.dropped_events:,} events could not be read and were left out.", err=True)


@cli.command(cls=Example, example="longpole unpack before.zip\nlongpole unpack before.zip -o runs/before")
@click.argument("packed", metavar="FILE.zip", type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), help="Beside the file by default.")
@click.option("--max-gb", type=click.FloatRange(0, min_open=True), default=16, show_default=True, help="Of what it holds.")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def unpack(packed: Path, folder: Path | None, max_gb: float, force: bool) -> None:
    """Make a bundle's folder from its .zip, once all its files are checked."""
    from ..capture.packing import unpack as unpacked

    folder = folder or packed.with_name(packed.stem if packed.suffix else f"{packed.name}.bundle")
    with progress() as show:
        show(f"Unpacking {packed}")
        others = unpacked(packed, folder, largest_bytes=round(max_gb * 10**9), force=force)
    click.echo(f"Unpacked {folder}")
    _name_left_out(others, "no file of a bundle")


@cli.command(cls=Example, example="longpole cache\nlongpole cache clear")
@click.argument("action", type=click.Choice(["show", "clear"]), default="show")
def cache(action: str) -> None:
    """What --cache has kept of parsed traces: show where and how much, or clear it."""
    from ..analyze.loading.cached import clear, default_folder, kept

    folder = default_folder()
    count, size_bytes = clear(folder) if action == "clear" else kept(folder)
    traces = f"{count} parsed trace{'' if count == 1 else 's'}"
    click.echo(f"{'Removed' if action == 'clear' else 'Kept'} {traces}, {size_bytes / 1e6:.1f} MB, in {folder}")


@cli.command(cls=Example, example="longpole doctor\nlongpole doctor --capture")
@click.option(
    "--capture", is_flag=True, help="Profile one operator too, on the GPU where there is one; exit status 1 if it fails."
)
def doctor(capture: bool) -> None:
    """What works on this machine: capture, CUDA, PDF, and the versions."""
    from .doctor import capture_checks, checks

    for found in checks():
        click.echo(found)
    works = True
    for found in capture_checks() if capture else ():
        click.echo(found)
        works = works and found.works
    if not works:
        sys.exit(1)


def _refuse_without(*packages: str) -> None:
    """CaptureError where a package is not installed that capturing a workload needs."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        extra = "demo" if "gymnasium" in packages else "capture"
        raise CaptureError(f'Capturing needs {" and ".join(missing)}, not installed here: pip install "longpole[{extra}]".')


def _name_left_out(names: list[str], why: str) -> None:
    """On stderr, as the rest is for scripts."""
    if names:
        shown = ", ".join(map(ascii, names[:MOST_NAMED])) + (
            f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        )
        click.echo(f"longpole: left out {shown}: {why}.", err=True)


def _explained(named: Sequence[str], reading: Reading) -> "Report":
    return _run_report(load(named, reading), reading)


def _run_report(traces: Sequence["Trace"], reading: Reading) -> "Report":
    place = place_of(reading.rank, traces)
    with progress() as show:
        show("Analyzing")
        from ..analyze.contents import ACROSS_RANKS, analyses_for
        from ..analyze.details import detail
        from ..analyze.run import run as run_all
        from .model import of_ranks, run_report

        explained = with_peers(traces, place)
        asked = [explained if number == place else trace for number, trace in enumerate(traces)]
        answered = [(run_all(analyses_for(trace), trace), trace) for trace in asked]
        read = partial(load_detail, reading=reading)
        reports = [run_report(sections, trace, detail(trace, sections, read)) for sections, trace in answered]
        return reports[0] if len(reports) == 1 else of_ranks(reports, place, run_all(ACROSS_RANKS, *traces))


for more in (run, diff, check, baseline, history):
    cli.add_command(more)


def main() -> None:
    """Run the command; an expected failure is one sentence on stderr and exit status 1."""
    for stream in (sys.stdout, sys.stderr):  # a Windows console or a pipe may have an encoding without µ or −
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        cli(prog_name="longpole")
    except LongpoleError as error:
        problem = error.on_command_line() if isinstance(error, FolderUsedError) else error
        click.echo(f"longpole: {' '.join(str(problem).split())}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
