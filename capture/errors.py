"""Every error that longpole raises on purpose.

    LongpoleError
    ├── CaptureError   profiling could not start or finish
    │   └── FolderUsedError   its folder holds something
    ├── BundleError    a path is not a bundle or trace that can be read
    ├── MissingData    an analysis needs what was not captured
    ├── ChangeError    a what-if names something that cannot be changed, or that the trace does not hold
    └── RenderError    a report cannot be written as asked

Each message is complete in itself: what is wrong, where, and what to do next. Anything else that escapes is a bug.
"""


class LongpoleError(Exception):
    """An expected failure; its message is one plain sentence for the user."""


class CaptureError(LongpoleError):
    """Profiling could not start or finish; the message says what to do."""


class FolderUsedError(CaptureError):
    """The folder for a bundle holds something. `what` it is, and `otherwise`: what can be done with it by force."""

    def __init__(self, what: str, otherwise: str, force: str = "force=True") -> None:
        super().__init__(f"{what}, or {otherwise} with {force}.")
        self.what, self.otherwise = what, otherwise

    def on_command_line(self) -> "FolderUsedError":
        """The same for who writes no Python."""
        return FolderUsedError(self.what, self.otherwise, "--force")


class BundleError(LongpoleError):
    """A path is not a bundle or trace that can be read; the message names it, what was expected and what to do."""


class MissingData(LongpoleError):  # noqa: N818 - it is shown to users as the reason why a section is empty
    """An analysis needs what was not captured; the message names the capture option to turn on."""


class ChangeError(LongpoleError):
    """A what-if cannot be replayed as written; the message says what can."""


class RenderError(LongpoleError):
    """A report cannot be written as asked; the message names the choices, or what to install."""
