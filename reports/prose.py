"""Text of a finding or verdict -> the sentence a reader sees, its numbers printed as their units say."""

import math

from ..analyze.findings import Text
from .formats import by_suffix, share, size, time
from .tables import clipped

SIGNED = {"_ns": time, "_share": share, "_bytes": size}


def sentence(text: Text) -> str:
    """Every slot filled; a slot with `change` in its name carries its sign."""
    return text.template.format(**{slot: _printed(slot, value) for slot, value in text.values.items()})


def _printed(slot: str, value: object) -> str:
    if "change" in slot and isinstance(value, int | float) and math.isfinite(value):
        for suffix, print_value in SIGNED.items():
            if slot.endswith(suffix):
                return print_value(value, sign=True)
    return clipped(value) if isinstance(value, str) else by_suffix(slot, value)
