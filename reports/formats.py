"""Numbers in, the text a reader sees out: times, sizes, shares and counts look the same everywhere, in any locale."""

import math
from dataclasses import dataclass
from numbers import Integral, Real

MINUS, NARROW, UNKNOWN = "\u2212", "\u202f", "–"

ASCII = str.maketrans({MINUS: "-", NARROW: " ", "\u00a0": " ", "×": "x", "µ": "u", "–": "-", "…": "...", "→": "->"})

BINARY_UNITS = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))


@dataclass(frozen=True)
class Unit:
    """One unit, and one number of decimals, for a whole column or axis."""

    name: str
    ns_per_unit: float
    decimals: int = 1


def choose_unit(ns: float) -> Unit:
    """The unit in which the largest value of a column or axis is easy to read."""
    size_ns = abs(ns)
    # 999.5 and not 1,000: what would round up to 1,000 µs is 1.00 ms.
    name, ns_per_unit = "s", 1e9
    if size_ns < 999.5e6:
        name, ns_per_unit = ("µs", 1e3) if size_ns < 999.5e3 else ("ms", 1e6)
    return Unit(name, ns_per_unit, 2 if size_ns < 9.995 * ns_per_unit else 1)


def number(value: float, decimals: int = 1, sign: bool = False) -> str:
    """Thousands commas and a real minus; a value that rounds to zero has no sign."""
    if not math.isfinite(value):
        return UNKNOWN
    digits = f"{abs(value):,.{decimals}f}"
    if not digits.strip("0.,"):
        return digits
    return (MINUS if value < 0 else "+" if sign else "") + digits


def time(ns: float, unit: Unit | None = None, sign: bool = False) -> str:
    """In the unit of its column; without one, in its own unit with three significant digits."""
    if unit is not None:
        return number(ns / unit.ns_per_unit, unit.decimals, sign) + NARROW + unit.name
    if not ns:
        return f"0{NARROW}ms"
    own = choose_unit(ns)
    return _three_digits(ns / own.ns_per_unit, sign) + NARROW + own.name


def share(fraction: float, sign: bool = False) -> str:
    """A fraction as percent; below 10 % with one decimal."""
    return number(fraction * 100, 1 if abs(fraction) < 0.0995 else 0, sign) + NARROW + "%"


def size(size_bytes: float, sign: bool = False) -> str:
    """Bytes in binary units with three significant digits."""
    if not math.isfinite(size_bytes):
        return UNKNOWN
    name, bytes_per_unit = next((u for u in reversed(BINARY_UNITS) if abs(size_bytes) >= u[1]), BINARY_UNITS[0])
    value = size_bytes / bytes_per_unit
    return (number(value, 0, sign) if name == "B" else _three_digits(value, sign)) + NARROW + name


def speed(gbps: float) -> str:
    """10^9 bytes a second, with three significant digits."""
    return _three_digits(gbps) + NARROW + "GB/s"


def count(n: float, sign: bool = False) -> str:
    """A whole number as such; a mean count with one decimal."""
    return number(n, 0 if float(n).is_integer() else 1, sign)


def chance(value: float) -> str:
    """Of an error, with two significant digits: 0.029, 0.0002."""
    return f"{value:.1g}" if value < 0.001 else f"{value:.2g}"


def ratio(value: float) -> str:
    return number(value, 2) + "×"


def interval(low: str, high: str) -> str:
    """From one printed number to another; the one number where both print alike."""
    return low if low == high else f"{low} to {high}"


BY_SUFFIX = {"_ns": time, "_share": share, "_bytes": size, "_gbps": speed, "_count": count, "_ratio": ratio, "_chance": chance}


def by_suffix(name: str, value: object) -> str:
    """A value as the suffix of its name says: `idle_ns`, `busy_share`, `peak_bytes`, `kernel_count`, `speedup_ratio`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or (isinstance(value, Real) and not math.isfinite(value)):
        return UNKNOWN
    if not isinstance(value, Real):
        return str(value)
    for suffix, print_value in BY_SUFFIX.items():
        if name.endswith(suffix):
            return print_value(float(value))
    return number(float(value), 0) if isinstance(value, Integral) else _three_digits(float(value))


def plain(text: str) -> str:
    """The same text in ASCII, for terminals and files that cannot hold the typographic characters."""
    return text.translate(ASCII)


def _three_digits(value: float, sign: bool = False) -> str:
    magnitude = abs(value)
    decimals = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2 if magnitude >= 0.9995 or not magnitude else 3
    return number(value, decimals, sign)
