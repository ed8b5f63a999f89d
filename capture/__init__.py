"""Runs where torch is: a training or inference loop in, a bundle (manifest, trace, snapshot) out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import record

__all__ = ["record"]


def __getattr__(name: str) -> Any:
    """`record`, once it is asked for: analysis wants only bundles and errors of this package, and should not pay for more."""
    if name == "record":
        from .recorder import record

        return record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
