"""Names of two recordings -> which of them stand for the same: equal ones first, then those that are only written differently."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from .cpp_names import CppName, cpp_name

ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
FRAME = re.compile(r"(.*)\(\d+\): (.*)", re.DOTALL)  # torch's name of a Python frame: file(line): function
LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3(?:\.\d+)?)/")
ROOTED = re.compile(r"(?:[A-Za-z]:)?/")
NEAR_FOLDERS = 1  # of an absolute path outside libraries so many folders are the program's own; those before are the machine's
COPY = "Mem"  # `Memcpy HtoD (Pinned -> Device)`: what stands in the brackets is all that such a name says
OVERLOAD = re.compile(r"(\w+::\w+)\.\w+")
NODE_NUMBER = re.compile(r"(?<=Backward)\d+")
HASH = re.compile(r"\b(?=[a-z]*\d)[a-z0-9]{32,}\b")  # compilers make such names of files and graphs
CONFIGURATION = re.compile(r"(?<=_)MT\d+x\d+x\d+_.*")  # of a Tensile kernel: its tile, and all that follows from it
NUMBERS = re.compile(  # of tiles, stages, instructions and of torch's own counting; not those of f32, conv2d and e4m3
    r"\d+(?:x\d+)+|\d{3,}|(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])|(?<=align)\d+|(?<=align[a-d])\d+|(?<=stage)\d+|(?<=stages)\d+|(?<=ldg)\d+"
)


@dataclass(frozen=True)
class Match:
    """Names that stand for the same; of one side where the other has none. Each side in the order it was given in."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def name(self) -> str:
        """What both are called: as the second recording has it first, which no other match has."""
        return (self.after or self.before)[0]


def matches(before: Iterable[str], after: Iterable[str]) -> list[Match]:
    """Every name of both sides is in exactly one match.

    A name that both have is matched with itself and with nothing else. Of the others those are matched that are alike by the
    first of ALIKE that finds an equal on the other side: all that are equal by it are one match.
    """
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    both = [name for name in old if name in new]
    found = [Match((name,), (name,)) for name in both]
    for name in both:
        del old[name], new[name]
    for alike in ALIKE:
        if old and new:
            found += _taken(alike, old, new)
    return found + [Match((name,), ()) for name in old] + [Match((), (name,)) for name in new]


def _taken(alike: Callable[[str], Hashable], old: dict[str, None], new: dict[str, None]) -> Iterator[Match]:
    """Matches by that, whose names are taken from both sides."""
    sides = [_by(alike, names) for names in (old, new)]
    for key, befores in sides[0].items():
        if key is None or key not in sides[1]:
            continue
        match = Match(tuple(befores), tuple(sides[1][key]))
        for names, own in ((old, match.before), (new, match.after)):
            for name in own:
                del names[name]
        yield match


def _by(alike: Callable[[str], Hashable], names: Iterable[str]) -> dict[Hashable, list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for name in names:
        groups.setdefault(alike(name), []).append(name)
    return groups


def written_alike(name: str) -> str:
    """Without addresses, line numbers and the machine's own folders, with one kind of separators."""
    plain = ADDRESS.sub("0x", name)
    if frame := FRAME.fullmatch(plain):
        return f"{_file(frame[1])}: {frame[2]}"
    return plain if cpp_name(plain) is None else re.sub(r"\s+", "", plain)


def same_function(name: str) -> Hashable:
    """Of a C++ signature, mangled or not, its function and the names in its template arguments and parameters."""
    found = _signature(name)
    return found and (found.function, found.names)


def same_kind(name: str) -> Hashable:
    """Without numbers, overloads, folders and parameters."""
    if name.startswith(COPY):
        return None
    if found := _signature(name):
        return _unnumbered(found.function), frozenset(map(_unnumbered, found.arguments))
    if FRAME.fullmatch(name):
        return _unnumbered(re.sub(r"^[^:]*/", "", written_alike(name)))
    plain = written_alike(name)
    return _unnumbered(overload[1] if (overload := OVERLOAD.fullmatch(plain)) else plain)


ALIKE: tuple[Callable[[str], Hashable], ...] = (written_alike, same_function, same_kind)


def _signature(name: str) -> CppName | None:
    return None if name.startswith(COPY) or FRAME.fullmatch(name) else cpp_name(name)


def _file(path: str) -> str:
    """A file within its library, else with the folder it lies in where the path is absolute."""
    path = path.replace("\\", "/")
    inside = LIBRARY.sub("", path)
    if inside != path or not ROOTED.match(path):
        return inside
    return "/".join(path.split("/")[-1 - NEAR_FOLDERS :])


def _unnumbered(name: str) -> str:
    for pattern in (NODE_NUMBER, HASH, CONFIGURATION, NUMBERS):
        name = pattern.sub("#", name)
    return name
