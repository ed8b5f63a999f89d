"""torch's GPU allocator, told to remember what it does during a window -> what `gpu_memory` makes of its snapshot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bundle import HealthNote
from .gpu_memory import gpu_memory

MOST_EVENTS = 100_000  # an entry is several kB, says torch: some hundred MB of host memory at most
# The functions are private, and change from version to version; a long history may be too much for the host's memory.
REFUSALS = (AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class MemoryHistory:
    """On from `start` to `stop`; neither raises what torch refuses, `problem` says it. A history of the user's own is left on."""

    def __init__(self) -> None:
        self.content: dict[str, Any] | None = None
        self.problem: HealthNote | None = None
        self._on = False

    def start(self) -> None:
        """Nothing where this process has not touched a GPU yet: asking would set one up."""
        import torch

        if torch.cuda.is_initialized():
            self._tried(self._switch_on)

    def stop(self) -> None:
        """Take the snapshot, and leave the allocator as it was."""
        import torch

        if torch.cuda.is_initialized():
            self._tried(self._take)
        if self._on:
            self._on = False
            self._tried(lambda: torch.cuda.memory._record_memory_history(None))

    def _switch_on(self) -> None:
        import torch

        if torch._C._cuda_isHistoryEnabled():
            return
        history = {"context": "alloc", "stacks": "python", "max_entries": MOST_EVENTS}
        torch.cuda.memory._record_memory_history("all", **history)
        self._on = True

    def _take(self) -> None:
        import torch

        snapshot, library = torch.cuda.memory._snapshot(), str(Path(torch.__file__).parent)
        self.content = {"torch": torch.__version__, **gpu_memory(snapshot, library, MOST_EVENTS if self._on else None)}

    def _tried(self, action: Callable[[], object]) -> None:
        try:
            action()
        except REFUSALS as refusal:
            message = f"What the memory of the GPU holds is told in part or not at all; torch refused: {refusal!r}"
            self.problem = HealthNote("memory_snapshot_failed", message)
