"""Attributes of modules and classes, replaced for a while and put back exactly as they were."""

import functools
from collections.abc import Callable
from typing import Any

MISSING = object()
Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]  # calls the first with the others, or does not


class Replaced:
    """What has been replaced. `undo` puts everything back, also what was only inherited."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, around: Around) -> None:
        """From now on `owner.name(*args, **kwargs)` calls `around(original, args, kwargs)`.

        Of a class the method of all its instances, but not of subclasses with one of their own. While torch.compile traces, the
        original alone is seen.
        """
        from torch.compiler import is_compiling

        original = getattr(owner, name)

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            return around(original, args, kwargs)

        self._kept.append((owner, name, vars(owner).get(name, MISSING), replacement))
        setattr(owner, name, replacement)

    def holds(self, owner: Any, name: str) -> bool:
        """Whether it is replaced now."""
        return any(one is owner and own == name for one, own, _, _ in self._kept)

    def undo(self) -> None:
        """Put back what is still ours; what somebody else has replaced since calls the original through ours."""
        while self._kept:
            owner, name, before, replacement = self._kept.pop()
            if vars(owner).get(name) is not replacement:
                continue
            if before is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def is_traced() -> bool:
    """Whether torch.compile is reading this call, rather than making it."""
    import torch

    return torch.compiler.is_compiling()
