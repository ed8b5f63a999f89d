"""Device event names -> short readable ones: no parameters, few template arguments, yet no two of a table alike."""

import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, count

SHORT_LENGTH = 72  # fits a table cell of the report
DIFFERENCE_LENGTH = 40  # of what tells two kernels apart
WORD = re.compile(r"\w+")
SPEAKING = tuple(  # words of template arguments, the first kind before the second
    map(re.compile, ("Functor", "_functor$", "_kernel_cuda$", "_kernel_impl$", "Ops?$", "^cutlass.*_", "_kernel$"))
)
WRAPPERS = {"BinaryFunctor", "UnaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "gpu_kernel_impl", "ReduceOp"}
NOISE = {  # words that tell no reader a difference
    "c10", "std", "at", "native", "detail", "Array", "array", "const", "lambda", "operator", "anonymous", "namespace",
}  # fmt: skip
ANONYMOUS = "(anonymous namespace)::"
BORDER = re.compile(r"(?<!-)>|[<( )]")  # an arrow closes nothing
RETURN_TYPE = re.compile(r"void|.*[:<].*")
NAME_LENGTH = re.compile(r"\d+")  # of a mangled name, before each of its parts
INNER_NAME = re.compile(r"N(?:S\w?_)?(\d+)")  # the first name inside the template arguments of a mangled one
ANONYMOUS_PART = "_GLOBAL__N_"


def short_name(name: str) -> str:
    """A C++ signature without return type, parameters and template arguments: `at::native::elementwise_kernel<…>`.

    In the brackets stays what the kernel computes, where its template arguments say it (MulFunctor, direct_copy_kernel_cuda).
    Two kernels can share a short name; those of one table are told apart by `short_names`.
    """
    return _clipped(_readable(name))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """A short name for each name, all different: where two are alike, with the template arguments that differ, else a number."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(short_name(name), []).append(name)
    texts: dict[str, str] = {}
    for group in groups.values():
        for name, difference in zip(group, _differences(group), strict=True):
            texts[_unlike(texts, _readable(name), difference)] = name
    return {name: text for text, name in texts.items()}


def _unlike(taken: Container[str], name: str, difference: str) -> str:
    numbers = (f" #{number}" for number in count(2))
    return next(text for end in chain([""], numbers) if (text := _clipped(name, difference + end)) not in taken)


@lru_cache(maxsize=2**14)  # a name is asked for more than once; more names than that are not kernels
def _readable(name: str) -> str:
    if name.startswith("Mem"):  # `Memcpy HtoD (Pageable -> Device)`
        return name
    if name.startswith("_ZN"):
        return _demangled(name)
    function, arguments = signature(name.replace(ANONYMOUS, ""))
    if not arguments:
        return function
    words = [word for word in WORD.findall(arguments) if word not in WRAPPERS and word not in function]
    speaking = (word for kind in SPEAKING for word in words if kind.search(word))
    return f"{function}<{next(speaking, '…')}>"


def signature(name: str) -> tuple[str, str]:
    """(function with its namespaces, its template arguments) of a C++ signature; else the name as it is."""
    depth, begin, first = 0, 0, 0
    for found in BORDER.finditer(name):
        place, letter = found.start(), found[0]
        if not depth and letter == "(":
            return name[begin : first or place], name[first:place] if first else ""
        if not depth and letter == "<":
            first = first or place
        elif not depth and letter == " " and RETURN_TYPE.fullmatch(name[begin:place]):
            begin, first = place + 1, 0
        depth += (letter in "<(") - (letter in ">)" and depth > 0)
    return name[begin : first or len(name)], name[first:] if first else ""


def _demangled(name: str) -> str:
    """The nested name of a mangled function, and in brackets the first name in its template arguments; `name` if it is none."""
    place, parts = len("_ZN"), []
    while digits := NAME_LENGTH.match(name, place):
        place = digits.end() + int(digits[0])
        parts.append(name[digits.end() : place])
    function = "::".join(part for part in parts if not part.startswith(ANONYMOUS_PART))
    if not function or not name.startswith("I", place):
        return function or name
    inner = INNER_NAME.search(name, place)
    return f"{function}<{name[inner.end() : inner.end() + int(inner[1])] if inner else '…'}>"


def _differences(group: Sequence[str]) -> list[str]:
    """For each name of the group, in brackets what it has and not all of the others have, as far as it fits."""
    words = [_words(name) for name in group]
    common = set.intersection(*map(set, words)) | NOISE
    return [_bracketed([word for word in own if word not in common]) for own in words]


def _words(name: str) -> list[str]:
    """What stands between brackets, commas and colons; of a plain name, between underscores."""
    return list(dict.fromkeys(re.findall(r"#?\w+", name) if "(" in name or "<" in name else name.split("_")))


def _bracketed(words: Sequence[str]) -> str:
    lengths = accumulate(len(word) + 2 for word in words)
    told = [word for word, length in zip(words, lengths, strict=True) if length <= DIFFERENCE_LENGTH]
    return f" [{', '.join(told)}]" if told else ""


def _clipped(name: str, suffix: str = "") -> str:
    """With the suffix, as long as a short name may be: what is too long loses its namespaces first, then its end."""
    length = SHORT_LENGTH - len(suffix)
    if len(name) > length:
        function, bracket, rest = name.partition("<")
        name = function.rsplit("::", 1)[-1] + bracket + rest
    return (name if len(name) <= length else name[: length - 1] + "…") + suffix
