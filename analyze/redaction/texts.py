"""A text that may name folders, people or machines -> the same without them. What differed before differs afterwards."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

FRAME = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)  # torch's name of a Python frame: file(line): function
LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3(?:\.\d+)?)/")
# Everybody has them, they tell nothing of anybody, and analyses know torch's own files by their folders.
PUBLIC = sys.stdlib_module_names | frozenset(
    ("accelerate", "apex", "datasets", "deepspeed", "diffusers", "flash_attn", "gymnasium", "jax", "lightning",
     "longpole", "megatron", "numpy", "PIL", "pandas", "peft", "pytorch_lightning", "scipy", "sglang", "sklearn", "timm",
     "tokenizers", "torch", "torchaudio", "torchvision", "transformers", "triton", "trl", "vllm", "xformers")
)  # fmt: skip
PUBLIC_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
SEGMENT = r'[^\\/:*?"<>|\x00-\x1f]*'
LAST = r'[^\\/:*?"<>|\s()\[\]{},;]*'  # a file's name within a sentence
KNOWN_SUFFIX = (
    "(?:py|pyc|pyx|so|json|jsonl|ya?ml|toml|pt|pth|ckpt|safetensors|onnx|cu|cuh|cpp|cc|c|h|hpp|txt|csv|bin|np[yz]|h5|parquet|gz"
    "|zip|tar|log|sh|ipynb)"
)
PATH = re.compile(
    # from a root, a drive, a home or a dot on: all folders, with the spaces that they may have
    rf"(?P<rooted>(?<![\w.~)\]}}>/\\-])(?:(?:[A-Za-z]:[\\/]+|\\\\|~[\w.-]*[\\/]|(?:\.{{1,2}}[\\/])+)(?:{SEGMENT}[\\/]+)*"
    rf"|[\\/](?=[^\s/\\*])(?:{SEGMENT}[\\/]+)+)(?P<base>{LAST}))"
    # else only what ends like a file, for "forward/attention" is no path
    rf"|(?<![\w.@:/\\+-])(?P<folders>(?:[\w.@+-]+[\\/])+)(?P<file>[\w@+.-]*\.{KNOWN_SUFFIX}\b)"
)
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]*|[\w.+-]+@[\w-][\w.-]*(?::[^\s\"']*)?|\b\d{1,3}(?:\.\d{1,3}){3}\b")
SHORTEST_WORD = 3  # letters: shorter ones are in everything
COMMON_WORDS = frozenset(  # names of accounts that many have
    ("admin", "app", "code", "data", "default", "dev", "docker", "ec2-user", "home", "host", "jovyan", "jupyter",
     "local", "localhost", "main", "model", "node", "none", "null", "python", "root", "runner", "service", "shared",
     "step", "test", "torch", "train", "ubuntu", "unknown", "user", "users", "work", "worker", "workspace")
)  # fmt: skip


@dataclass(frozen=True)
class Words:
    """Names of people and of machines that the files of a run tell somewhere, so that they go everywhere."""

    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def __or__(self, more: "Words") -> "Words":
        return Words(self.users | more.users, self.hosts | more.hosts)


def words(users: Iterable[str], hosts: Iterable[str]) -> Words:
    """Those that are worth looking for; of a machine also its name without its domain."""
    short = {host.split(".")[0] for host in hosts}
    return Words(frozenset(filter(_is_telling, users)), frozenset(filter(_is_telling, {*hosts, *short})))


def _is_telling(word: str) -> bool:
    return len(word) >= SHORTEST_WORD and word.lower() not in COMMON_WORDS and not word.replace(".", "").isdecimal()


class Texts:
    """The rules for texts. Remembers which folder and address was met first, so that files of the same name stay apart."""

    def __init__(self, known: Words) -> None:
        self.users, self.hosts = _pattern(known.users), _pattern(known.hosts)
        self.numbers: dict[str, dict[str, int]] = defaultdict(dict)

    def code(self, text: str) -> str:
        """Of operators, kernels and calls: no folders and addresses. Words stay, for a person may be called Max."""
        if frame := FRAME.fullmatch(text):
            path, line, function = frame.groups()
            return f"{self.file(path)}({line}): {self._without_places(function)}"
        return self._without_places(text)

    def written(self, text: str) -> str:
        """Of ranges, titles and all else that people write: names of people and machines go too."""
        return self._without_words(self.code(text))

    def file(self, path: str) -> str:
        """A path's last name; of a public package's file the path inside the package."""
        plain = path.replace("\\", "/")
        inside = LIBRARY.sub("", plain)
        if inside.split("/")[0] in PUBLIC and PUBLIC_PATH.fullmatch(inside) and "/../" not in inside:
            return inside
        folder, _, base = plain.rpartition("/")
        return self._apart(self._without_words(base), folder)

    def _without_places(self, text: str) -> str:
        if "/" in text or "\\" in text:
            text = ADDRESS.sub(self._address, text)
            return PATH.sub(self._path, text)
        return ADDRESS.sub(self._address, text) if "@" in text or "." in text else text

    def _without_words(self, text: str) -> str:
        return self.users.sub("[user]", self.hosts.sub("[host]", text))

    def _path(self, found: re.Match[str]) -> str:
        return self.file(found[0])

    def _address(self, found: re.Match[str]) -> str:
        return self._apart("[address]", found[0])

    def _apart(self, base: str, where: str) -> str:
        """`utils.py` of the first folder, `2/utils.py` of the second."""
        numbers = self.numbers[base]
        number = numbers.setdefault(where, len(numbers) + 1)
        return base if number == 1 else f"{number}/{base}"


def _pattern(known: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(known, key=lambda word: (-len(word), word))
    return re.compile(
        "|".join(rf"(?<![A-Za-z0-9]){re.escape(w)}(?![A-Za-z0-9])" for w in longest_first) or r"(?!)", re.IGNORECASE
    )
