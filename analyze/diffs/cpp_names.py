"""A C++ signature, mangled or not -> its function, and the names in its template arguments and parameters."""

import re
from dataclasses import dataclass

from ..short_names import ANONYMOUS, ANONYMOUS_PART, NOISE, WORD, signature

SIGNATURE = re.compile(r"\w[<(]|>\(|_Z")  # no blank before the bracket, as there is in words for people
MANGLED = re.compile(r"_Z(?:L|N[rVK]*)?")  # how one begins; Itanium C++ ABI, 5.1
LENGTH = re.compile(r"\d+")  # before each name in a mangled one
PLAIN = re.compile(r"[A-Za-z_]\w*")
NO_LENGTH = re.compile(  # digits before no name: literals, _Float16, arrays, what stands for an earlier part, values of enums
    r"L[a-z]n?\d+E|DF\d+|A\d+_|S[0-9A-Z]*_|T\d*_|(?<=E)\d+E"
)
VALUE_TYPES = {  # a mangled name has letters for most of them
    "void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "true", "false", "Half", "half_t",
    "BFloat16", "bfloat16_t", "__half", "__nv_bfloat16", "__hip_bfloat16", "complex", "tfloat32_t",
}  # fmt: skip
TELLING_NOTHING = NOISE | VALUE_TYPES


@dataclass(frozen=True)
class CppName:
    """`arguments`: names in the template arguments; of a mangled name, where they are not told apart, as `names`."""

    function: str
    arguments: frozenset[str]
    names: frozenset[str]  # with those in the parameters


def cpp_name(name: str) -> CppName | None:
    """The parts of a signature; None for what is none."""
    if name.startswith("<") or not SIGNATURE.search(name):
        return None
    if name.startswith("_Z"):
        return _mangled(name)
    plain = name.replace(ANONYMOUS, "")
    function, arguments = signature(plain)
    rest = plain[plain.find(function) + len(function) :]
    return CppName(function, _telling(WORD.findall(arguments)), _telling(WORD.findall(rest)))


def _mangled(name: str) -> CppName | None:
    """Compilers write a name as its length and its letters, and a nested one as the names around it, from the outermost on."""
    begin = MANGLED.match(name)
    place, function = begin.end() if begin else 0, []
    while length := LENGTH.match(name, place):
        place = length.end() + int(length[0])
        function.append(name[length.end() : place])
        if begin and "N" not in begin[0]:
            break
    own = "::".join(part for part in function if not part.startswith(ANONYMOUS_PART))
    names = _telling(_names_from(name, place))
    return CppName(own, names, names) if own else None


def _names_from(name: str, place: int) -> list[str]:
    found = []
    while place < len(name):
        if skipped := NO_LENGTH.match(name, place):
            place = skipped.end()
        elif length := LENGTH.match(name, place):
            place = length.end() + int(length[0])
            found.append(name[length.end() : place])
        else:
            place += 1
    return [part for part in found if PLAIN.fullmatch(part) and not part.startswith(ANONYMOUS_PART)]


def _telling(words: list[str]) -> frozenset[str]:
    return frozenset(word for word in words if PLAIN.fullmatch(word) and word not in TELLING_NOTHING)
