"""SIGTERM while a recording goes on -> what there is gets written first; then the program ends as it would have."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class Terminated(BaseException):
    """Why a loop ended; it is never raised."""


class Termination:
    """Only where the program does not handle SIGTERM itself, and never in its worker processes. Windows has no such signal."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._process = os.getpid()
        self._armed = False

    def arm(self) -> None:
        """From now on act before the program ends."""
        if os.name == "nt" or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._came)
            self._armed = True

    def disarm(self) -> None:
        """Leave the signal as it was; what the program has set since stays."""
        if self._armed and signal.getsignal(signal.SIGTERM) == self._came:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._armed = False

    def _came(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self._act()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
