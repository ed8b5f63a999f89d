"""A run whose bundle has a detail pass -> the sections that only that pass can give, or why it cannot be used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..capture.bundle import Manifest, has_detail
from ..capture.errors import BundleError
from .analyses.memory import memory
from .analyses.modules import modules
from .analyses.steps import steps
from .contents import ANALYSES
from .run import Section, run
from .trace import Trace

# What needs the stacks or the memory events that a lean pass does without. All else is missing for other reasons, and times of
# the detail pass never stand in for those of the lean one.
ONLY_IN_DETAIL = (modules, memory)
SAME_VERSIONS = ("torch", "cuda", "hip", "python")
SAME_FACTS = ("command", "parameters", "parameter_dtypes")


@dataclass(frozen=True, eq=False)
class Detail:
    """`sections`: those asked of the detail pass, and its steps; `missing`: why there are none, half a sentence."""

    trace: Trace | None = None
    sections: tuple[Section, ...] = ()
    missing: str = ""


def detail(trace: Trace, sections: Sequence[Section], load_detail: Callable[[Trace], Trace]) -> Detail | None:
    """None where the bundle has no detail pass, or its own trace gives all that one could; only else is the pass loaded."""
    lacking = _lacking(sections)
    if trace.manifest is None or not has_detail(trace.manifest) or not lacking:
        return None
    try:
        found = load_detail(trace)
    except BundleError as problem:
        return Detail(missing=_without_folder(str(problem), trace.source.path))
    if found.manifest is not None and (reason := _other_run(trace.manifest, found.manifest)):
        return Detail(missing=reason)
    return Detail(found, run({"Step time": steps, **lacking}, found))


def _lacking(sections: Sequence[Section]) -> Mapping[str, Callable[..., Any]]:
    missing = {section.name for section in sections if section.result is None}
    return {title: of for title, of in ANALYSES.items() if of in ONLY_IN_DETAIL and of.__name__ in missing}


def _other_run(lean: Manifest, found: Manifest) -> str:
    """Why a bundle cannot be the second pass of the same process; empty where nothing speaks against it."""
    if lean.launch != found.launch:
        return "it is of another launch"
    if found.captured_at < lean.captured_at:
        return "it is older than this recording, so of another run"
    names = [name for name in SAME_VERSIONS if lean.versions.get(name) != found.versions.get(name)]
    if not (before := _models(lean)) <= (after := _models(found)):
        names.append("models")
    compared = SAME_FACTS if before == after else ("command",)
    names += [name.replace("_", " ") for name in compared if lean.program.get(name) != found.program.get(name)]
    return f"it is of another program or another installation, by: {', '.join(names)}" if names else ""


def _models(manifest: Manifest) -> set[str]:
    """Those that had been called by the end of a pass: a later one may know more."""
    return set(filter(None, str(manifest.program.get("models") or "").split(", ")))


def _without_folder(problem: str, given: str) -> str:
    """A problem in words that go into a report, which names no folders of the machine."""
    for folder in (given, str(Path(given))):
        problem = problem.replace(f"{folder}/", "").replace(folder, "the bundle")
    return problem.rstrip(".")
