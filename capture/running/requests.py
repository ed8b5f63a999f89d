"""When a recording is wanted: at once, after some seconds, or whenever somebody asks a running program for one."""

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

ASK_SIGNAL = getattr(signal, "SIGUSR1", None)  # None on Windows
LOOK_EVERY_S = 0.5  # at a file that may have been touched


class Requests:
    """`wanted` says at the end of each step whether a recording should begin now; it costs less than a microsecond.

    `on_demand`: only when a file is touched, or SIGUSR1 comes, where the program does not use that itself.
    """

    def __init__(self, after_s: float = 0.0, on_demand: Path | None = None, repeat: int = 1) -> None:
        self._begin = time.monotonic() + after_s
        self._file, self._left = on_demand, repeat
        self._asked = False
        self._looked = 0.0
        self._touched_ns = _modified_ns(on_demand)
        self._restore: object = None

    def start(self) -> None:
        """Listen to the signal, if this is asked for and nobody else does."""
        if self._file is None or ASK_SIGNAL is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(ASK_SIGNAL) is signal.SIG_DFL:
            self._restore = signal.signal(ASK_SIGNAL, self._signalled)

    def stop(self) -> None:
        """Put the signal back, unless the program has taken it since."""
        if self._restore is not None and ASK_SIGNAL is not None:
            if signal.getsignal(ASK_SIGNAL) == self._signalled:
                signal.signal(ASK_SIGNAL, signal.SIG_DFL)
            self._restore = None

    @property
    def more(self) -> bool:
        """Whether any recording is still to come."""
        return self._left > 0

    def wanted(self) -> bool:
        if self._left <= 0 or time.monotonic() < self._begin:
            return False
        return self._file is None or self._asked or self._touched()

    def served(self) -> None:
        """A recording has been made."""
        self._asked = False
        self._left -= 1

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._asked = True

    def _touched(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY_S:
            self._looked, before = now, self._touched_ns
            self._touched_ns = _modified_ns(self._file)
            self._asked = self._asked or (self._touched_ns is not None and self._touched_ns != before)
        return self._asked


def _modified_ns(file: Path | None) -> int | None:
    try:
        return None if file is None else os.stat(file).st_mtime_ns  # noqa: PTH116 - the quickest way to ask
    except OSError:
        return None
