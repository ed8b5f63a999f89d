"""The machine -> what works on it: one check a row."""

import os
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

    def __str__(self) -> str:
        return f"{'ok     ' if self.works else 'missing'} {self.name:<10} {self.detail}"


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


def capture_checks() -> Iterator[Check]:
    """Whether the profiler delivers operators and, where there is a GPU, kernels; the reason where it does not."""
    if find_spec("torch") is None:
        yield Check("cpu_ops", False, 'torch is not installed: pip install "longpole[capture]"')
        return
    from ..capture.self_test import driver_settings, has_gpu, self_test, why_no_kernels

    found = self_test()
    works = found.ops > 0
    nothing = found.problem or "the profiler recorded no operator; another profiler may be attached to this Python"
    yield Check("cpu_ops", works, f"{found.ops} operator events arrived from the profiler" if works else nothing)
    if not works or not has_gpu(found):
        return
    if found.kernels:
        yield Check("kernels", True, f"{found.kernels} kernels and {found.launches} runtime calls arrived from the profiler")
    else:
        yield Check("kernels", False, f"no kernels arrived: {why_no_kernels(found, os.environ, driver_settings())}")


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
