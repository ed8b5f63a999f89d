"""A script or module and its arguments -> it runs as `python` would run it, with its loop watched."""

import atexit
import builtins
import importlib.machinery
import os
import runpy
import signal
import sys
import threading
import types
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..errors import CaptureError
from ..machine import command_line
from .session import Session

FAILED = 1
RUNPY = (runpy.__file__, "<frozen runpy>")
OUR_FOLDER = Path(__file__).parent


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

    @property
    def command(self) -> str:
        """As the manifest has it: without folders and secrets."""
        return ("-m " if self.is_module else "") + command_line([self.target, *self.arguments])

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
    _without_us(failure)
    if isinstance(failure, KeyboardInterrupt):
        interrupted.set()
    sys.excepthook(type(failure), failure, failure.__traceback__)
    return FAILED


def _run(program: Program) -> None:
    """Arguments, path and `__main__` are left as the program knows them: what it does at exit may look at them."""
    sys.argv = [program.target, *program.arguments]
    if program.is_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        return
    path = Path(program.target).absolute()
    sys.path.insert(0, str(path.resolve().parent))
    if path.is_file() and not zipfile.is_zipfile(path):
        _run_script(path)
    else:
        runpy.run_path(program.target, run_name="__main__")


def _run_script(path: Path) -> None:
    """As python does: with the path in full for tracebacks, and as the module that worker processes import again."""
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", str(path))
    vars(main).update(__file__=str(path), __builtins__=builtins, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = main
    exec(loader.source_to_code(path.read_bytes(), str(path)), vars(main))


def _end_interrupted(interrupted: threading.Event) -> None:
    if interrupted.is_set() and os.name != "nt":
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed by the program, or something else in its place
                stream.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _without_us(failure: BaseException, seen: frozenset[int] = frozenset()) -> None:
    """Take our frames, and those of runpy, out of the tracebacks of an exception and of all it was raised from."""
    failure.__traceback__ = _own_part(failure.__traceback__)
    for earlier in (failure.__cause__, failure.__context__):
        if earlier is not None and id(earlier) not in seen:
            _without_us(earlier, seen | {id(failure)})


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    own = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in RUNPY and Path(file).parent != OUR_FOLDER:
            own.append(trace)
        trace = trace.tb_next
    for frame, inner in zip(own, [*own, None][1:], strict=True):
        frame.tb_next = inner
    return own[0] if own else None
