"""Text of a finding or verdict -> the sentence a reader sees, its numbers printed as their units say."""

import math
import re

from ..analyze.findings import Text
from .formats import by_suffix, share, size, time
from .tables import clipped

SIGNED = {"_ns": time, "_share": share, "_bytes": size}
INTERVAL = re.compile(r"\{(\w+)\} to \{(\w+)\}")


class _Printed(str):
    """A number as a reader sees it; with "call" or "copy|copies" as format also what is counted: "1 call", "3 copies"."""

    def __format__(self, words: str) -> str:
        if not words:
            return str(self)
        one, _, more = words.partition("|")
        return f"{self} {one if self == '1' else more or one + 's'}"


def sentence(text: Text) -> str:
    """Every slot filled; a slot with `change` in its name carries its sign; an interval that prints as one number is one."""
    printed = {slot: _Printed(_printed(slot, value)) for slot, value in text.values.items()}

    def narrowed(found: re.Match[str]) -> str:
        low, high = found.groups()
        return f"{{{low}}}" if printed[low] == printed[high] else found.group()

    return INTERVAL.sub(narrowed, text.template).format(**printed)


def _printed(slot: str, value: object) -> str:
    if "change" in slot and isinstance(value, int | float) and math.isfinite(value):
        for suffix, print_value in SIGNED.items():
            if slot.endswith(suffix):
                return print_value(value, sign=True)
    return clipped(value) if isinstance(value, str) else by_suffix(slot, value)
