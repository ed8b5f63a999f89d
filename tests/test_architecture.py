"""The structure that ARCHITECTURE.md promises, read from the code's own imports."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longpole.analyze.advice import ADVICE
from longpole.analyze.contents import ACROSS_RANKS, ANALYSES, RANGES, SNAPSHOT
from longpole.analyze.diffs import DIFFS, TOTALS

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("capture", "analyze", "reports", "templates")
ORDER = {name: place for place, name in enumerate(FOLDERS)}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
QUESTIONS = [("analyses", function) for function in dict.fromkeys((ANALYSES | RANGES | SNAPSHOT | ACROSS_RANKS).values())]
QUESTIONS += [("diffs", function) for function in dict.fromkeys((DIFFS | TOTALS).values())]


def imports(path: Path) -> list[tuple[str, bool]]:
    """(absolute module name, whether at module level) of every import, relative ones resolved below `longpole`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ["longpole", *path.relative_to(ROOT).parent.parts]
    at_top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            inside = [f"{module}.{alias.name}" for alias in node.names] if node.level and not node.module else [module]
            found += [(name, id(node) in at_top) for name in inside]
    return found


def own(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_left_and_heavy_packages_stay_where_they_belong(path: Path):
    folder = own(path)
    is_command = path.relative_to(ROOT).as_posix() in ("reports/cli.py", "reports/doctor.py", "reports/running.py")
    for name, at_top in imports(path):
        top = name.split(".")[0]
        assert top not in FOLDERS, f"{path} imports {name} as a top-level name"
        if top == "longpole":
            other = name.split(".")[1]
            assert ORDER[other] <= ORDER[folder], f"{path} imports {name}: imports point left"
            if other == "capture" and folder != "capture" and not (is_command and not at_top):
                assert name in ("longpole.capture.bundle", "longpole.capture.errors"), f"{path} imports {name}"
        allowed = {
            "torch": ("capture",), "gymnasium": ("capture",), "pandas": ("analyze", "reports"), "jinja2": ("reports",),
            "weasyprint": ("reports",), "click": ("reports",), "rich": ("reports",),
        }  # fmt: skip
        assert folder in allowed.get(top, FOLDERS), f"{path} imports {name}"


def test_bundle_and_errors_need_the_standard_library_only():
    for name in ("bundle", "errors"):
        for module, _ in imports(ROOT / "capture" / f"{name}.py"):
            top = module.split(".")[0]
            assert top in sys.stdlib_module_names or module == "longpole.capture.errors"


@pytest.mark.parametrize(("kind", "function"), QUESTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_every_analysis_has_its_file_its_question_its_section_and_its_tests(kind: str, function):
    name = function.__name__
    module = importlib.import_module(f"longpole.analyze.{kind}.{name}")
    assert getattr(module, name) is function
    assert (module.__doc__ or "").split("\n")[0].rstrip(":").endswith("?") or "?" in (module.__doc__ or "").split("\n")[0]
    assert (ROOT / "templates" / f"{name}.html.j2").is_file()
    assert (ROOT / "tests" / f"test_{name}.py").is_file()


def test_every_module_says_in_its_first_line_what_it_is_for():
    for path in MODULES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path.relative_to(ROOT)} has no docstring"


def test_load_gives_columns_without_importing_pandas():
    code = "import sys, longpole.analyze.load; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_report_is_written_where_torch_cannot_be_imported(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('blocked')", encoding="utf-8")
    from make_trace import op, step, write_trace

    trace = write_trace(tmp_path / "trace.json", [step(i, i * 100, i * 100 + 90) for i in range(6)], [op("aten::mm", 10, 40)])
    command = [sys.executable, "-m", "longpole.reports.cli", "report", str(trace), "-o", str(tmp_path / "out.html")]
    done = subprocess.run(command, env={**__import__("os").environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.html").stat().st_size > 1000


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.__name__)
def test_every_advice_has_its_file_its_question_and_its_tests(advice: Callable[..., object]):
    module = importlib.import_module(f"longpole.analyze.advice.{advice.__name__}")
    assert getattr(module, advice.__name__) is advice
    assert "?" in (module.__doc__ or "").split("\n")[0]
    assert (ROOT / "tests" / f"test_{advice.__name__}.py").is_file()
