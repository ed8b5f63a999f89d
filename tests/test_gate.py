"""The gate fails on a change that is real and larger than its limit. Steps take 100 µs, give or take 1, where not told."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from make_trace import allocation, loop, op, phase, write_bundle, write_trace

from longpole.analyze.gate import limit
from longpole.capture.errors import ChangeError
from longpole.reports.cli import cli

JITTER = [0, 1, -1, 0.5, -0.5, 0.2, -0.2, 0.8, -0.8, 0]  # of a step in µs; adds up to 0


def run_of(folder: Path, name: str, mean: float, steps: int = 10, **manifest: object) -> str:
    events = loop([mean + JITTER[n % len(JITTER)] for n in range(steps)], lambda a, b: [phase("forward", a, a + 40)])
    return str(write_bundle(folder / name, events, **manifest))


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", *arguments, "--processes", "1"])


def outcome(*arguments: str) -> tuple[int, dict[str, str]]:
    done = invoked(*arguments, "--json")
    return done.exit_code, {row["name"]: row["outcome"] for row in json.loads(done.stdout)["metrics"]}


def test_a_run_against_itself_passes(tmp_path: Path):
    run = run_of(tmp_path, "a", 100)
    assert outcome(run, run) == (0, {"step_us": "passed", "device_peak_bytes": "not_recorded"})


def test_a_step_that_is_slower_by_more_than_its_limit_fails(tmp_path: Path):
    before, after = run_of(tmp_path, "a", 100), run_of(tmp_path, "b", 110)
    done = invoked(before, after)
    assert done.exit_code == 1
    assert done.stdout.startswith("Failed: worse by more than the limit: step.")
    assert "100 µs → 110 µs (+10 %)" in done.stdout.replace("\u202f", " ")
    assert outcome(before, after, "--max-slowdown", "20%")[0] == 0
    assert outcome(before, after, "--max-slowdown", "20us")[0] == 0
    assert outcome(before, after, "--max-slowdown", "5us")[0] == 1


def test_a_change_that_is_not_real_does_not_fail(tmp_path: Path):
    wild = [100, 180, 60, 150, 70, 90, 130, 85]
    before = write_trace(tmp_path / "a.json", loop(wild))
    after = write_trace(tmp_path / "b.json", loop([duration + 8 for duration in wild]))
    assert outcome(str(before), str(after)) == (0, {"step_us": "unsure", "device_peak_bytes": "not_recorded"})


def test_a_faster_step_passes(tmp_path: Path):
    assert outcome(run_of(tmp_path, "a", 100), run_of(tmp_path, "b", 80))[0] == 0


def test_too_few_steps_cannot_be_told(tmp_path: Path):
    before, after = run_of(tmp_path, "a", 100, steps=5), run_of(tmp_path, "b", 200, steps=5)
    done = invoked(before, after)
    assert done.exit_code == 3
    assert done.stdout.startswith("Cannot be told: step (too few steps).")


def test_runs_that_cannot_be_compared_are_told_so_and_may_be_compared_anyway(tmp_path: Path):
    before, after = run_of(tmp_path, "a", 100, machine={"cpu": "Xeon"}), run_of(tmp_path, "b", 120, machine={"cpu": "EPYC"})
    done = invoked(before, after)
    assert done.exit_code == 3
    assert done.stdout.startswith("Not comparable: CPU: Xeon before, EPYC after.")
    assert "µs" not in done.stdout
    anyway = invoked(before, after, "--anyway")
    assert anyway.exit_code == 1
    assert "Compared although these differ: CPU: Xeon before, EPYC after." in anyway.stdout


def test_an_input_that_cannot_be_read_has_a_status_of_its_own(tmp_path: Path):
    run = run_of(tmp_path, "a", 100)
    done = invoked(run, str(tmp_path / "none"))
    assert done.exit_code == 4
    assert "none" in done.stderr
    (tmp_path / "bad.json").write_text('{"schema": "longpole.baseline/1", "runs": 3}', encoding="utf-8")
    assert invoked(str(tmp_path / "bad.json"), run).exit_code == 4


@pytest.mark.parametrize(
    "wrong",
    [
        ["--max-slowdown", "fast"], ["--max-slowdown", "3"], ["--max-memory", "3ms"], ["--metric", "op:aten::mm"],
        ["--metric", "speed=3%"], ["--metric", "kernel_count=5us"], ["-o", "out.pdf"],
    ],
)  # fmt: skip
def test_wrong_words_are_wrong_usage(tmp_path: Path, wrong: list[str]):
    run = run_of(tmp_path, "a", 100)
    assert invoked(run, run, *wrong).exit_code == 2


def test_three_runs_without_a_mark_between_sides_are_wrong_usage(tmp_path: Path):
    run = run_of(tmp_path, "a", 100)
    done = invoked(run, run, run)
    assert done.exit_code == 2
    assert "longpole check base1 base2 -- new1 new2" in done.stderr


def test_other_metrics_have_limits_of_their_own(tmp_path: Path):
    def events(share: float) -> list:
        return loop([100] * 8, lambda a, b: [phase("forward", a, a + 50), op("aten::mm", a, a + share)])

    before, after = (str(write_trace(tmp_path / f"{n}.json", events(n))) for n in (20, 30))
    code, found = outcome(before, after, "--metric", "op:aten::mm=10%", "--metric", "phase:forward=1%")
    assert (code, found["op:aten::mm"], found["phase:forward"], found["step_us"]) == (1, "failed", "passed", "passed")
    assert outcome(before, after, "--metric", "op:aten::mm=15us")[0] == 0


def test_memory_is_held_to_its_limit_where_it_was_recorded(tmp_path: Path):
    def events(peak: int) -> list:
        rows = loop([100] * 6)
        return [*rows, *(allocation(100 * n + 10, peak, 1, 0, total=peak) for n in range(6)),
                *(allocation(100 * n + 20, -peak, 1, 0, total=0) for n in range(6))]  # fmt: skip

    before, after = (str(write_trace(tmp_path / f"{n}.json", events(n), profile_memory=1)) for n in (1000, 1100))
    assert outcome(before, after) == (1, {"step_us": "passed", "device_peak_bytes": "failed"})
    assert outcome(before, after, "--max-memory", "200B")[0] == 0


def test_memory_that_was_asked_about_and_not_recorded_cannot_be_told(tmp_path: Path):
    run = run_of(tmp_path, "a", 100)
    assert invoked(run, run, "--max-memory", "5%").exit_code == 3


def test_of_several_runs_a_side_the_runs_are_what_varies(tmp_path: Path):
    """Each run by itself is steady, but runs of one program differ by up to 4 µs: 2 µs more are no change, 20 µs are."""
    means = [100, 104, 98, 102]
    before = [run_of(tmp_path, f"a{n}", mean) for n, mean in enumerate(means)]
    near, far = ([run_of(tmp_path, f"{by}{n}", mean + by) for n, mean in enumerate(means)] for by in (2, 20))
    assert outcome(*before, "--", *near, "--max-slowdown", "1%")[0] == 0
    assert outcome(*before, "--", *far)[0] == 1
    assert outcome(before[0], near[3], "--max-slowdown", "1%")[0] == 1  # of one run a side alone this is a real difference
    assert "One run a side" in invoked(before[0], near[0]).stdout
    assert "One run a side" not in invoked(*before, "--", *near).stdout


def test_a_baseline_stands_for_the_runs_it_was_made_of(tmp_path: Path):
    before, after = run_of(tmp_path, "a", 100), run_of(tmp_path, "b", 110)
    base = str(tmp_path / "base.json")
    done = CliRunner().invoke(cli, ["baseline", before, "-o", base, "--processes", "1"])
    assert done.exit_code == 0, done.output
    assert Path(base).stat().st_size < 4000
    told = [json.loads(invoked(side, after, "--json").stdout) for side in (before, base)]
    assert told[0]["metrics"] == told[1]["metrics"]
    assert told[0]["before"] == told[1]["before"]


def test_markdown_and_junit_tell_the_same(tmp_path: Path):
    before, after = run_of(tmp_path, "a", 100), run_of(tmp_path, "b", 110)
    written = [tmp_path / "out.md", tmp_path / "out.xml", tmp_path / "out.json"]
    shown = invoked(before, after, "--markdown", *(word for path in written for word in ("-o", str(path))))
    markdown = written[0].read_text(encoding="utf-8")
    assert shown.stdout.strip() == markdown.strip()
    assert markdown.startswith("### longpole: Failed: worse by more than the limit: step")
    assert "| step | 100\u202fµs | 110\u202fµs | +10\u202f% |" in markdown
    suite = ElementTree.fromstring(written[1].read_text(encoding="utf-8"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert [child.tag for case in suite for child in case] == ["failure", "skipped"]
    assert json.loads(written[2].read_text(encoding="utf-8"))["outcome"] == "failed"


def test_limits_are_shares_or_amounts_in_the_unit_of_their_metric():
    assert limit("step_us", "3%").of(200) == pytest.approx(6)
    assert limit("step_us", "1.5ms").of(200) == 1_500_000
    assert limit("device_peak_bytes", "1MiB").of(0) == 2**20
    assert limit("kernel_count", "10").of(5) == 10
    with pytest.raises(ChangeError, match="write a share as 3%"):
        limit("step_us", "5MB")
