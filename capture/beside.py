"""Threads of Python beside the loop's -> those that took CPU time while a window ran and are not in its trace."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .bundle import HealthNote

TASKS = Path("/proc/self/task")  # Linux; elsewhere nothing is found out
BUSY_SHARE = 0.10  # of the window's time: progress bars and log writers take less
LOADER_THREAD = "_pin_memory_loop"  # of torch's own DataLoader: it copies batches, which the loop's thread waits for


@dataclass(frozen=True)
class Beside:
    """CPU time of each such thread since it began, and its name, by its id in the system; `at_ns`: when that was read."""

    cpu_ns: dict[int, int]
    names: dict[int, str]
    at_ns: int = field(default_factory=time.perf_counter_ns)


def threads_beside() -> Beside:
    """All that Python started but this one. Torch's own threads, as those that go backward, are not among them."""
    here = threading.get_ident()
    others = {thread.native_id: thread.name for thread in threading.enumerate() if _counts(thread) and thread.ident != here}
    known = {number: cpu_ns for number in others if number is not None and (cpu_ns := _cpu_ns(number)) is not None}
    return Beside(known, {number: others[number] for number in known})


def unseen(before: Beside, after: Beside, in_trace: frozenset[int]) -> HealthNote | None:
    """What to tell of those that did something between two readings; nothing of those that a trace holds."""
    span_ns = after.at_ns - before.at_ns
    took_ns = {number: cpu_ns - before.cpu_ns.get(number, 0) for number, cpu_ns in after.cpu_ns.items() if number not in in_trace}
    busy = {number: ns for number, ns in took_ns.items() if ns >= BUSY_SHARE * span_ns}
    if not busy:
        return None
    named = ", ".join(f"{after.names[number]} ({ns / 1e6:,.1f} ms of CPU time)" for number, ns in busy.items())
    message = (
        f"Threads beside the loop worked in the {span_ns / 1e6:,.1f} ms recorded, and the trace holds nothing of them: {named}."
        " PyTorch records only the thread that runs the loop and those that it goes backward in; operators called in others are"
        " missing."
    )
    return HealthNote("threads_unseen", message)


def _counts(thread: threading.Thread) -> bool:
    return not isinstance(thread, threading._DummyThread) and LOADER_THREAD not in thread.name


def _cpu_ns(number: int) -> int | None:
    try:
        return int((TASKS / str(number) / "schedstat").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):  # it has ended, or the system does not say
        return None
