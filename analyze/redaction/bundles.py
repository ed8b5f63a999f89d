"""A bundle -> a folder with the same bundle without what tells whose it is, and what had to be left out of it."""

import gzip
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ...capture.bundle import (
    DETAIL_FOLDER,
    BundleFile,
    HealthNote,
    Manifest,
    RankFiles,
    described,
    has_detail,
    write_atomically,
    write_manifest,
)
from ...capture.errors import BundleError
from ..loading.events import NOT_JSON
from ..loading.repair import Repairs
from ..loading.sources import Input, detail_inputs, holds_detail, inputs
from ..loading.streams import File, Progress, refuse_altered
from .events import Rules, by_rule
from .texts import FRAME, Texts, Words
from .traces import words_in, words_of, write_redacted

GZIP_LEVEL = 6  # as captures have it
# Facts of the program that longpole itself writes; a program may add any others.
PROGRAM_FACTS = frozenset((
    "git_commit", "autocast", "matmul_precision", "parameter_dtypes", "algorithm", "workload", "variant", "mode", "detail",
    "step_ends_on", "step_on_asked", "optimizers", "models",
))  # fmt: skip
PLAIN_SETTING = re.compile(r"[\d.,:]*|true|false|on|off|yes|no|(?:expandable_segments|max_split_size_mb):\w+", re.IGNORECASE)
HIDDEN = "***"


@dataclass(frozen=True)
class Redaction:
    """What was done. `left_out`: by its key, how often; `dropped_events`: those that could not be read."""

    left_out: Counter[str]
    dropped_events: int


def redact(run: str | Path, folder: Path, *, largest_bytes: int, progress: Progress | None = None) -> Redaction:
    """Write the bundle's redacted files, and those of its detail pass, into the folder.

    BundleError where it is none, or its files are not the captured ones.
    """
    given = inputs([run])
    manifests = [rank.manifest for rank in given if rank.manifest is not None]
    if len(manifests) < len(given):
        raise BundleError(f"{run} is not a bundle, and only bundles can be packed; capture with longpole to make one.")
    passes = [(given, folder)]
    if any(map(has_detail, manifests)) and holds_detail(str(run)):
        passes.append((detail_inputs(str(run)), folder / DETAIL_FOLDER))
    known = Words()
    for rank in (rank for ranks, _ in passes for rank in ranks):
        known |= words_of(msgspec.json.encode(rank.manifest)) | words_in(rank.file, largest_bytes)
    rules = Rules(Texts(known))  # of all passes: what has one name in both keeps one
    repairs = Repairs()
    for ranks, place in passes:
        _pass(ranks, place, rules, largest_bytes, progress, repairs)
    return Redaction(rules.left_out, repairs.dropped)


def _pass(
    given: Sequence[Input], folder: Path, rules: Rules, largest_bytes: int, progress: Progress | None, repairs: Repairs
) -> None:
    """One bundle of the one or two."""
    folder.mkdir(exist_ok=True)
    manifests = [rank.manifest for rank in given if rank.manifest is not None]
    files = [_rank(rank, folder, rules, largest_bytes, progress, repairs) for rank in given]
    for manifest in dict(zip(map(id, manifests), manifests, strict=True)).values():
        ranks = tuple(made for made, of in zip(files, manifests, strict=True) if of is manifest)
        rules.left_out.update(rank.memory.name for rank in manifest.ranks if rank.memory)
        write_manifest(folder, _manifest(manifest, ranks, rules))


def _rank(given: Input, folder: Path, rules: Rules, largest_bytes: int, progress: Progress | None, repairs: Repairs) -> RankFiles:
    rank = given.rank or 0
    trace = folder / f"rank{rank}.trace.json.gz"
    with tempfile.TemporaryFile(dir=folder) as plain:  # a trace may turn out to be read by another rule, and then begins anew
        repairs.dropped += write_redacted(given.file, plain, rules, largest_bytes, progress).dropped
        plain.seek(0)
        with trace.open("wb") as target, gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0) as packed:
            while block := plain.read(1 << 20):
                packed.write(block)
    averages = _snapshot(given.averages, folder / f"rank{rank}.key_averages.json", rules)
    by_shape = _snapshot(given.averages_by_shape, folder / f"rank{rank}.key_averages_by_shape.json", rules)
    return RankFiles(rank, described(trace), averages, by_shape)


# key_averages()


def _snapshot(file: File | None, path: Path, rules: Rules) -> BundleFile | None:
    if file is None:
        return None
    refuse_altered(file)
    try:
        with file.open() as stream:
            content = msgspec.json.decode(stream.read(), type=dict[str, Any])
        rows = [_row(row, rules.texts) for row in content.pop("rows")]
    except (*NOT_JSON, KeyError, TypeError, AttributeError) as damage:
        raise BundleError(f"{file.name} is no snapshot of key_averages() ({damage!r}); capture again.") from damage
    write_atomically(path, msgspec.json.encode({**_by_written(content, rules.texts), "rows": rows}) + b"\n")
    return described(path)


def _row(row: dict[str, Any], texts: Texts) -> dict[str, Any]:
    """Names as in the trace: ranges by what people write, all else by what code is called."""
    rule = texts.written if row.get("is_user_annotation") and not FRAME.fullmatch(str(row.get("key"))) else texts.code
    return {key: by_rule(value, rule) for key, value in row.items()}


# The manifest


def _manifest(manifest: Manifest, ranks: Sequence[RankFiles], rules: Rules) -> Manifest:
    written = rules.texts.written
    return replace(
        manifest,
        title=written(manifest.title),
        machine=_by_written(manifest.machine, rules.texts),
        versions=_by_written(manifest.versions, rules.texts),
        options=_by_written(manifest.options, rules.texts),
        program=_program(manifest.program, rules) | {"redacted": True},
        ranks=tuple(ranks),
        health=tuple(HealthNote(note.code, written(note.message)) for note in manifest.health),
    )


def _by_written(facts: dict[str, Any], texts: Texts) -> dict[str, Any]:
    """Facts under keys that are longpole's own."""
    return {key: by_rule(value, texts.written) for key, value in facts.items()}


def _program(program: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """The command without its arguments, settings that are plain, numbers, and what longpole itself has written."""
    kept: dict[str, Any] = {}
    for key, value in program.items():
        if not isinstance(value, str):
            kept[rules.texts.written(key)] = value
        elif key == "command":
            kept[key] = rules.texts.written(_script(value))
        elif key.startswith("env."):
            kept[key] = value if PLAIN_SETTING.fullmatch(value) else HIDDEN
        elif key in PROGRAM_FACTS:
            kept[key] = rules.texts.written(value)
        else:
            rules.left_out[key] += 1
    return kept


def _script(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        words = command.split()
    words = words[: 2 if words[:1] == ["-m"] else 1]
    return " ".join(word.replace("\\", "/").rsplit("/", 1)[-1] for word in words)
