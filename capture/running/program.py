"""A script or module and its arguments -> it runs as `python` would run it, with its loop watched."""

import atexit
import os
import runpy
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..errors import CaptureError
from .session import Session

FAILED = 1


@dataclass(frozen=True)
class Program:
    """What the user would have run: `python TARGET ARGS…`, or `python -m TARGET ARGS…` of a module."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def name(self) -> str:
        """Short, for titles and folders."""
        if self.is_module:
            return self.target.removesuffix(".__main__").rsplit(".", 1)[-1]
        return Path(self.target).resolve().stem

    def checked(self) -> "Program":
        """Itself; CaptureError when there is no such script. (Python itself says what is wrong with a module.)"""
        path = Path(self.target)
        if self.is_module or path.is_file() or (path / "__main__.py").is_file():
            return self
        raise CaptureError(f"{self.target} is no script that can be run; name a .py file, or a module after -m.")


def run_watched(program: Program, session: Session) -> int | str | None:
    """Run it to its end, whatever that is, and return what it would have exited with.

    What it raises goes to sys.excepthook with the traceback that it would have had. After Ctrl-C the process ends, when it does,
    by that signal: shells and schedulers tell that from a failure.
    """
    failure: BaseException | None = None
    interrupted = threading.Event()
    atexit.register(_end_interrupted, interrupted)  # registered before the program's own, it runs after these
    session.start()
    try:
        _run(program)
    except BaseException as raised:  # noqa: BLE001 - it is the program's, and goes where it would have gone
        failure = raised
    session.leave(failure)
    if failure is None:
        return 0
    if isinstance(failure, SystemExit):
        return failure.code
    failure.__traceback__ = _own_part(failure.__traceback__)
    if isinstance(failure, KeyboardInterrupt):
        interrupted.set()
    sys.excepthook(type(failure), failure, failure.__traceback__)
    return FAILED


def _run(program: Program) -> None:
    """Arguments and path are left as the program knows them: what it does at exit may look at them."""
    sys.argv = [program.target, *program.arguments]
    if program.is_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(program.target, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(program.target).resolve().parent))
        runpy.run_path(program.target, run_name="__main__")


def _end_interrupted(interrupted: threading.Event) -> None:
    if interrupted.is_set() and os.name != "nt":
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first line on, without ours and that of runpy; all of it where that is nothing."""
    ours = (str(Path(__file__).resolve()), runpy.__file__, "<frozen runpy>")
    own = trace
    while own is not None and own.tb_frame.f_code.co_filename in ours:
        own = own.tb_next
    return own or trace
