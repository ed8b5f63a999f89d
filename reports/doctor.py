"""The machine -> what works on it: one check a row."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ..capture.errors import RenderError


@dataclass(frozen=True)
class Check:
    """Whether something works, and its version or what to do."""

    name: str
    works: bool
    detail: str


def checks() -> Iterator[Check]:
    """Analysis first, then PDF, then capture."""
    yield Check("longpole", True, version("longpole"))
    yield Check("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in ("numpy", "pandas", "msgspec", "isal", "jinja2"):
        yield _package(package, "reinstall longpole")
    yield _package("zstandard", 'needed to read .zst files only: pip install "longpole[zst]"')
    yield _package("fsspec", 'needed to read URLs only: pip install "longpole[remote]"')
    yield _pdf()
    yield _package("torch", 'needed to capture only: pip install "longpole[capture]"')
    yield _cuda()
    yield _package("gymnasium", 'needed by the DQN demo only: pip install "longpole[demo]"')


def _package(name: str, advice: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, advice)


def _pdf() -> Check:
    from .render_pdf import import_weasyprint

    try:
        return Check("pdf", True, f"WeasyPrint {import_weasyprint().__version__}")
    except RenderError as problem:
        return Check("pdf", False, str(problem))


def _cuda() -> Check:
    if find_spec("torch") is None:
        return Check("cuda", False, "no torch, so no GPU can be profiled here; traces of GPU machines can be analyzed")
    from ..capture.machine import gpu_facts

    try:
        facts = gpu_facts()
    except (ImportError, OSError) as problem:  # torch is there, but a library that it loads is not
        return Check("cuda", False, f"torch cannot be imported ({problem}); reinstall it")
    if not facts["gpu_count"]:
        return Check("cuda", False, "torch sees no GPU: captures here are CPU-only; traces of GPU machines can be analyzed")
    return Check("cuda", True, f"{facts['gpu_count']} GPU, driver {facts['gpu_driver'] or 'unknown'}, {facts['gpu_0_name']}")
