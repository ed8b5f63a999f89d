"""Troubles made on purpose are named: in recordings made now, where torch is installed, and in kept ones."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from live_programs import ASLEEP_S, DATA, STEPS, record_compiled, record_ranks

from longpole.analyze.analyses.compiled_regions import CompiledRegions, compiled_regions
from longpole.analyze.load import load
from longpole.reports.cli import cli

ASLEEP_US = ASLEEP_S * 1e6
of_torch = pytest.mark.filterwarnings("ignore::UserWarning")  # torch.compile looks at .grad itself
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the loopback device has another name")


def summary(*traces: Path) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["summary", *map(str, traces), "--json", "--processes", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def says_who_is_late(found: dict[str, Any]) -> None:
    """Both steps look equally long; the sleeper is late by its sleep, and the other one waits for it."""
    measures = found["measures"]
    assert measures["step_mean_us"]["0"] == pytest.approx(measures["step_mean_us"]["1"], rel=0.2)
    assert measures["late_rank"] == 1
    assert measures["late_by_us"] == pytest.approx(STEPS * ASLEEP_US, rel=0.3)
    assert measures["wait_us"]["0"] > 0.7 * STEPS * ASLEEP_US > 5 * measures["wait_us"]["1"]
    first = found["findings"][0]
    assert (first["id"], found["verdict"]["top"]) == ("straggler", "straggler")
    assert first["saving_us_per_step"] == pytest.approx(ASLEEP_US, rel=0.3)
    assert "rank 1" in found["verdict"]["sentence"]
    assert found["verdict"]["bound"] == "host"


def regions(trace: Path) -> CompiledRegions:
    return compiled_regions(load(trace))


def test_a_kept_recording_of_two_ranks_names_the_sleeper():
    says_who_is_late(summary(DATA / "rank0.json.gz", DATA / "rank1.json.gz"))


@on_linux
def test_two_ranks_recorded_now_name_the_sleeper(tmp_path: Path):
    pytest.importorskip("torch.distributed")
    says_who_is_late(summary(*record_ranks(tmp_path)))


@of_torch
@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize(
    ("kind", "count", "eager", "unsure"),
    [
        ("whole", 1, [], []),
        ("broken", 2, [], ["aten::matmul", "aten::relu"]),
        ("reading", 2, ["aten::item"], ["aten::matmul", "aten::relu", "aten::sum"]),
        ("disabled", 2, [], ["aten::matmul", "aten::relu", "aten::mul", "aten::add"]),
    ],
)
def test_a_graph_break_is_named(kind: str, count: int, eager: list[str], unsure: list[str], now: bool, tmp_path: Path):
    found = regions(recorded(kind, tmp_path) if now else DATA / f"{kind}.json.gz")
    assert (found.regions_per_step, found.nested_per_step) == (count, count - 1)
    assert (found.eager_ops, found.unsure_ops) == (eager, unsure)
    assert ("graph_breaks" in [finding.id for finding in found.findings]) == (count > 1)


@of_torch
@pytest.mark.parametrize("now", [False, True])
def test_shapes_that_change_compile_again(now: bool, tmp_path: Path):
    (found,) = regions(recorded("shapes", tmp_path) if now else DATA / "shapes.json.gz").findings
    assert found.id == "recompiles"
    assert found.problem.values["versions_count"] >= 3
    assert found.saving_ns > 0


def test_a_run_on_the_cpu_tells_of_its_graph_break_on_page_one():
    found = summary(DATA / "broken.json.gz")
    assert [finding["id"] for finding in found["findings"]] == ["graph_breaks"]
    assert found["measures"]["compiled_regions_per_step"] == 2
    assert found["verdict"]["top"] is None  # what it costs cannot be told


def test_a_step_that_mostly_compiles_is_held_up_by_the_host():
    found = summary(DATA / "shapes.json.gz")["verdict"]
    assert (found["top"], found["bound"]) == ("recompiles", "host")


def recorded(kind: str, folder: Path) -> Path:
    pytest.importorskip("torch")
    record_compiled(kind, folder / "trace.json")
    return folder / "trace.json"
