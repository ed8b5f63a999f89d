"""Runs where torch is: a training or inference loop in, a bundle (manifest, trace, snapshot) out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import lightning_callback, transformers_callback
    from .cycles import bundle_handler
    from .recorder import record
    from .running.watched import watch

__all__ = ["bundle_handler", "lightning_callback", "record", "transformers_callback", "watch"]

MODULES = {
    "bundle_handler": ".cycles",
    "lightning_callback": ".callbacks",
    "record": ".recorder",
    "transformers_callback": ".callbacks",
    "watch": ".running.watched",
}


def __getattr__(name: str) -> Any:
    """What is asked for, and only then: analysis wants bundles and errors of this package, and should not pay for more."""
    if name in MODULES:
        return getattr(import_module(MODULES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
