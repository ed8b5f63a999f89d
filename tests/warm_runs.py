"""`longpole run` in processes that are forked from one in which torch is imported already: a start takes a tenth of a second.

`python warm_runs.py` reads a request a line, {arguments, folder}, and answers with the process id and, later, its wait status.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from run_program import Ran, environment


class Started:
    """A program that runs. One at a time."""

    def __init__(self, server: "WarmRuns", folder: Path) -> None:
        self._server, self._folder = server, folder
        self.pid = int(server.answer())

    def ended(self) -> Ran:
        status = os.waitstatus_to_exitcode(int(self._server.answer()))
        output, errors = ((self._folder / name).read_text(encoding="utf-8") for name in ("output.txt", "errors.txt"))
        return Ran(status, output, errors, self._folder / "bundle")


class WarmRuns:
    """The process with torch in it, from entering to leaving."""

    def __enter__(self) -> "WarmRuns":
        command = [sys.executable, __file__]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment()
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def answer(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline()

    def start(self, folder: Path, source: str, *options: str, output: str = "bundle") -> Started:
        """The program train.py with that text, in a folder of its own; its bundle is called `bundle` there."""
        (folder / "train.py").write_text(source, encoding="utf-8")
        request = {"arguments": ["longpole", "run", "-o", output, *options, "train.py"], "folder": str(folder)}
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return Started(self, folder)

    def run(self, folder: Path, source: str, *options: str, output: str = "bundle") -> Ran:
        """The same, to its end."""
        return self.start(folder, source, *options, output=output).ended()


def serve() -> None:
    """Fork for each request; the forked process leaves this function to be `longpole` until it ends."""
    import torch._dynamo  # noqa: F401 - optimizers import it; no forked process has to

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            return become(request["arguments"], Path(request["folder"]))
        answer(pid)
        answer(os.waitpid(pid, 0)[1])
    return None


def answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def become(arguments: Sequence[str], folder: Path) -> None:
    """This process as a shell would have started it."""
    os.chdir(folder)
    for descriptor, name, flags in ((0, os.devnull, os.O_RDONLY), (1, "output.txt", 0), (2, "errors.txt", 0)):
        opened = os.open(name, flags or os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = list(arguments)
    from longpole.reports.cli import main

    main()


if __name__ == "__main__":
    serve()
