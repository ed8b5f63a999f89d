import json
from math import isnan
from pathlib import Path

import pytest
from click.testing import CliRunner
from make_trace import Event, annotation, kernel, make_trace, memcpy, op, step, write_trace

from longpole.analyze.analyses.ranks import ranks
from longpole.analyze.trace import Trace
from longpole.reports.cli import cli


def steps_of(duration: int) -> list:
    return [step(i, i * duration, (i + 1) * duration) for i in range(4)]


def test_each_rank_has_its_own_figures():
    first = make_trace(steps_of(100), [kernel("gemm", 10, 60)], distributedInfo={"rank": 0, "world_size": 3})
    second = make_trace(steps_of(200), [op("aten::mm", 10, 40)], distributedInfo={"rank": 1, "world_size": 3})
    found = ranks(first, second)
    assert found.rows["rank"].tolist() == ["0", "1"]
    assert found.rows["window_ns"].tolist() == [400_000, 800_000]
    assert found.rows["mean_ns"].tolist() == [100_000, 200_000]
    assert found.rows["busy_ns"][0] == 50_000
    assert isnan(found.rows["busy_ns"][1])
    assert found.missing == (2,)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for rank, duration in ((0, 100), (1, 200)):
        info = {"rank": rank, "world_size": 2}
        write_trace(tmp_path / f"r{rank}.json", steps_of(duration), [kernel("gemm", 10, 60)], distributedInfo=info)
    return tmp_path


def said(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_summary_gives_each_measure_by_rank(run: Path):
    found = json.loads(said("summary", str(run), "--json", "--processes", "1"))
    assert found["source"]["rank_ids"] == [0, 1]
    assert found["measures"]["step_mean_us"] == {"0": 100.0, "1": 200.0}
    assert found["measures"]["gpu_busy_us"] == {"0": 50.0, "1": 50.0}
    assert [(row["rank"], row["step_us"]) for row in found["steps"]] == [(0, 100.0)] * 4 + [(1, 200.0)] * 4
    assert found["ranks"] == [
        {"rank": 0, "window_us": 400.0, "gpu_busy_us": 50.0, "wait_us": None},
        {"rank": 1, "window_us": 800.0, "gpu_busy_us": 50.0, "wait_us": None},
    ]
    assert found["measures"]["ranks_detected"] == 2
    assert "wait_us" not in found["measures"]


def test_the_terminal_lists_all_ranks_and_explains_the_one_that_was_asked_for(run: Path):
    text = said("summary", str(run / "*.json"), "--rank", "1", "--processes", "1")
    assert "All else here is about rank 1." in text
    assert "200 µs" in text


def test_a_report_has_a_section_on_the_ranks(run: Path, tmp_path: Path):
    said("report", str(run / "r0.json"), str(run / "r1.json"), "-o", str(tmp_path / "out.html"), "--processes", "1")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "everything else in this report is about rank 0" in text
    assert 'id="ranks"' in text
    assert "0; beside it 1, see Ranks" in text


def test_a_rank_that_is_not_there_is_refused(run: Path):
    done = CliRunner().invoke(cli, ["summary", str(run), "--rank", "7"])
    assert done.exit_code == 1
    assert "holds no rank 7; choose one of 0, 1" in str(done.exception)


def rank(number: int, *events: list[Event], **top_level: object) -> Trace:
    """One rank of two, with a step of 1000 µs."""
    return make_trace([step(1, 0, 1000)], *events, distributedInfo={"rank": number, "world_size": 2}, **top_level)


def all_reduce(start: float, end: float, stream: int = 20, **args: object) -> Event:
    return kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, stream, **args)


def test_the_rank_that_comes_last_is_named_and_not_the_one_with_the_longest_kernel():
    found = ranks(
        rank(0, [kernel("gemm", 0, 100), all_reduce(100, 550)]), rank(1, [kernel("gemm", 0, 500), all_reduce(500, 550)])
    )
    assert found.measures == {
        "ranks_detected": 2, "ranks": 2, "busy_share_raw": {"0": 0.55, "1": 0.55}, "collective_min_ns": 50_000,
        "wait_ns": {"0": 400_000, "1": 0}, "useful_busy_share": {"0": 0.15, "1": 0.55}, "late_rank": 1, "late_by_ns": 400_000,
        "late_rank_extra_compute_ns": 400_000,
    }  # fmt: skip
    assert found.rows["late_count"].tolist() == [0, 1]
    assert found.collectives[["count", "transfer_ns", "wait_ns"]].to_numpy().tolist() == [[1, 50_000, 400_000]]


def test_waiting_beside_computing_is_busy_all_the_same():
    early = rank(0, [all_reduce(100, 500), kernel("gemm", 200, 400)])
    found = ranks(early, rank(1, [all_reduce(450, 500)]))
    assert found.measures["wait_ns"] == {"0": 350_000, "1": 0}
    assert found.measures["useful_busy_share"]["0"] == 0.25  # 200 of computing and 50 of transfer


def test_ranks_that_take_turns_wait_equally_and_none_is_late():
    first = rank(0, [all_reduce(100, 200), all_reduce(350, 400)])
    second = rank(1, [all_reduce(150, 200), all_reduce(300, 400)])
    found = ranks(first, second)
    assert found.measures["wait_ns"] == {"0": 50_000, "1": 50_000}
    assert "late_rank" not in found.measures
    assert found.rows["late_count"].tolist() == [1, 1]


def test_a_rank_of_three_is_late():
    found = ranks(*(rank(i, [kernel("gemm", 0, c), all_reduce(c, 500)]) for i, c in enumerate((100, 450, 300))))
    assert found.measures["wait_ns"] == {"0": 350_000, "1": 0, "2": 150_000}
    assert (found.measures["late_rank"], found.measures["late_by_ns"]) == (1, 350_000)


def test_a_collective_that_one_file_lacks_is_said_and_waiting_is_withheld():
    found = ranks(rank(0, [all_reduce(100, 200), all_reduce(300, 400)]), rank(1, [all_reduce(350, 400)]))
    reason = "collectives that not every rank's file holds: 1 of 2"
    assert found.withheld["wait_ns"] == found.withheld["late_rank"] == found.withheld["useful_busy_share"] == reason
    assert found.measures == {"ranks_detected": 2, "ranks": 2, "busy_share_raw": {"0": 0.2, "1": 0.05}}


def test_a_collective_before_another_rank_recorded_is_left_out():
    late_start = {"baseTimeNanoseconds": 1_700_000_000_000_250_000}
    found = ranks(rank(0, [all_reduce(100, 200), all_reduce(300, 400)]), rank(1, [all_reduce(100, 150)], **late_start))
    assert found.calls is not None
    assert found.calls.outside_count == 1
    assert found.measures["wait_ns"] == {"0": 50_000, "1": 0}


def test_collectives_at_different_times_are_not_one_call():
    found = ranks(rank(0, [all_reduce(100, 200)]), rank(1, [all_reduce(600, 700)]))
    assert "do not run at the same time" in found.withheld["wait_ns"]


def test_clocks_that_are_apart_by_a_constant_are_found_by_the_ends():
    ahead = {"baseTimeNanoseconds": 1_700_000_000_000_400_000}
    calls = [(100, 200), (300, 420), (500, 610)]
    found = ranks(rank(0, [all_reduce(*c) for c in calls]), rank(1, [all_reduce(b - 50, b) for _, b in calls], **ahead))
    assert found.calls is not None
    assert found.calls.clocks_apart_ns == 400_000
    assert found.measures["wait_ns"] == {"0": 50_000 + 70_000 + 60_000, "1": 0}


def test_process_groups_are_matched_each_by_itself():
    def of(name: str) -> dict[str, object]:
        return {"Process Group Name": name, "Collective name": "allreduce"}

    first = rank(0, [all_reduce(100, 200, **of("tp")), all_reduce(110, 400, 21, **of("dp"))])
    second = rank(1, [all_reduce(150, 200, **of("tp")), all_reduce(90, 400, 21, **of("dp"))])
    assert ranks(first, second).measures["wait_ns"] == {"0": 50_000, "1": 20_000}


def test_a_cpu_run_waits_in_the_ranges_of_its_backend():
    found = ranks(rank(0, [annotation("gloo:all_reduce", 100, 500)]), rank(1, [annotation("gloo:all_reduce", 400, 500)]))
    assert found.measures == {
        "ranks_detected": 2, "ranks": 2, "collective_min_ns": 100_000, "wait_ns": {"0": 300_000, "1": 0}, "late_rank": 1,
        "late_by_ns": 300_000,
    }  # fmt: skip


def test_copies_are_no_reason_to_compute_longer(tmp_path: Path):
    events = ([memcpy("HtoD", 0, 100), all_reduce(100, 500)], [memcpy("HtoD", 0, 400), all_reduce(400, 500)])
    for number, work in enumerate(events):
        write_trace(tmp_path / f"r{number}.json", steps_of(150), work, distributedInfo={"rank": number, "world_size": 2})
    found = json.loads(said("summary", str(tmp_path), "--json", "--processes", "1"))
    assert found["measures"]["late_rank_extra_compute_us"] == 0
    assert found["measures"]["useful_busy_pct"] == {"0": pytest.approx(100 / 3, abs=1e-4), "1": pytest.approx(250 / 3, abs=1e-4)}
    assert [row["wait_us"] for row in found["ranks"]] == [300.0, 0.0]
    said("report", str(tmp_path), "-o", str(tmp_path / "out.html"), "--processes", "1")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert text.count("Rank 1 keeps the others waiting") == 2  # on page one and in its section
    assert "does not compute longer" in text
