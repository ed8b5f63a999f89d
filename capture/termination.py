"""SIGTERM while a profiler runs -> what there is gets written first; then the program ends as it would have."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from weakref import WeakSet


class Terminated(BaseException):
    """Why a loop ended; it is never raised."""


class Termination:
    """Only where the program does not handle SIGTERM itself, and never in its worker processes. Windows has no such signal."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._armed = self._held = self._waits = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is done inside is done to its end before a signal counts."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._waits:
                self._waits = False
                self._end()

    def arm(self) -> None:
        """From now on act before the program ends."""
        if os.name == "nt" or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._came)
            self._armed = True
            _ARMED.add(self)

    def disarm(self) -> None:
        """Leave the signal as it was; what the program has set since stays."""
        if self._armed and signal.getsignal(signal.SIGTERM) == self._came:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._armed = False

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._waits = True
        else:
            self._end()

    def _end(self) -> None:
        self._act()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


_ARMED: WeakSet[Termination] = WeakSet()


def _disarm_all() -> None:
    for one in list(_ARMED):
        one.disarm()


if os.name != "nt":
    os.register_at_fork(after_in_child=_disarm_all)  # a worker process ends on SIGTERM as if nobody watched
