"""What a thread asks of a core: CPU time that it had, and time that it was ready to run and waited for its turn."""

import time
from dataclasses import dataclass
from pathlib import Path

SCHEDULER = Path("/proc/thread-self/schedstat")  # Linux: time on a core, time waiting for one, number of turns


@dataclass(frozen=True)
class CoreTime:
    """Of one thread. `waited_ns`: None where the system does not say."""

    cpu_ns: int
    waited_ns: int | None

    def since(self, before: "CoreTime") -> "CoreTime":
        """What came between two readings."""
        known = self.waited_ns is not None and before.waited_ns is not None
        return CoreTime(self.cpu_ns - before.cpu_ns, (self.waited_ns or 0) - (before.waited_ns or 0) if known else None)


def core_time() -> CoreTime:
    """Of this thread, since it began."""
    try:
        waited = int(SCHEDULER.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):  # another system, or statistics switched off
        waited = None
    return CoreTime(time.thread_time_ns(), waited)
