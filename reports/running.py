"""The command that captures a program without touching it: `longpole run`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import Example

if TYPE_CHECKING:
    from ..capture.running.session import Session

RUNS_FOLDER = Path("longpole-runs")
RUN_EXAMPLE = """longpole run train.py --epochs 1
longpole run -o runs/base --steps 40 -m package.train --config base.yaml
torchrun --nproc-per-node 8 --no-python longpole run -o runs/base train.py"""


@click.command(cls=Example, context_settings={"allow_interspersed_args": False}, example=RUN_EXAMPLE)
@click.argument("target", metavar="SCRIPT|MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "is_module", is_flag=True, help="Run a module, as python -m does.")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), help="Bundle to make; longpole-runs/NAME."
)
@click.option("--steps", type=click.IntRange(1), help="Steps to record; at most 20 by default, fewer where they are heavy.")
@click.option("--wait", type=click.IntRange(0), default=5, show_default=True, help="Steps to time first, without a profiler.")
@click.option("--warmup", type=click.IntRange(1), default=3, show_default=True, help="Steps under the profiler to throw away.")
@click.option(
    "--after", "after_s", type=click.FloatRange(0), default=0, metavar="SECONDS", help="Begin that long after the start."
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Recordings to make, one bundle each.")
@click.option("--on-demand", type=click.Path(path_type=Path), metavar="FILE", help="Begin when FILE is touched, or on SIGUSR1.")
@click.option("--stop-after", is_flag=True, help="End the program once all is recorded.")
@click.option("--detail", is_flag=True, help="Record a second, short pass with shapes, stacks and memory.")
@click.option("--shapes", is_flag=True, help="Record input shapes (slower).")
@click.option("--stacks", is_flag=True, help="Record Python stacks (much slower).")
@click.option("--memory", is_flag=True, help="Record allocations (much slower).")
@click.option(
    "--step-on",
    type=click.Choice(["auto", "module", "optimizer", "batch"]),
    default="auto",
    show_default=True,
    help="What ends a step: a call of the outermost module, an optimizer's step, or the next batch of a DataLoader.",
)
@click.option("--samples-per-step", type=click.IntRange(1), help="For the throughput, where no DataLoader tells.")
@click.option("--title", help="Of the report; the name of the program.")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
def run(
    target: str, arguments: tuple[str, ...], is_module: bool, folder: Path | None, after_s: float, repeat: int,
    on_demand: Path | None, title: str | None, **options: Any,
) -> None:  # fmt: skip
    """Run a program as python would, and record its training or inference loop into a bundle.

    The program is not touched: longpole finds the loop by the calls of its optimizer and its modules. Output, exit status and
    signals are the program's own. Options stand before SCRIPT; what stands behind it is the program's.
    """
    from ..capture.running.options import Options
    from ..capture.running.program import Program, run_watched
    from ..capture.running.requests import Requests
    from ..capture.running.session import Session

    program = Program(target, arguments, is_module).checked()
    place = folder or _free_folder(RUNS_FOLDER / program.name, options["force"])
    began_in, asked = Path.cwd(), on_demand and on_demand.absolute()  # the program may change its working directory
    session = Session(
        Options(place.absolute(), title or program.name, program.command, **options), Requests(after_s, asked, repeat)
    )
    status = run_watched(program, session)
    if session.is_ours:
        _tell(session, began_in)
    sys.exit(status)


def _free_folder(folder: Path, force: bool) -> Path:
    """That one, or with a number where it is taken; ranks of one run all take that one."""
    from ..capture.running.session import next_folder

    taken = folder.exists() and not force and "RANK" not in os.environ
    return next_folder(folder) if taken else folder


def _tell(session: "Session", began_in: Path) -> None:
    """On stderr, after all that the program said; bundles as the user's shell would name them."""
    first_rank = os.environ.get("RANK", "0") == "0"  # once is enough, however many ranks there are
    for bundle in session.bundles if first_rank else ():
        name = bundle.relative_to(began_in) if bundle.is_relative_to(began_in) else bundle
        session.tell(f"recorded {name}; to explain it: longpole report {name}")
    for problem in session.outcome():
        session.tell(problem)
