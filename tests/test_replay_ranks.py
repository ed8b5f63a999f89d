"""The ranks of a run are replayed together, tied by their collectives.

Two ranks with four steps of 200 µs. A gemm runs from 10: on rank 0 for 40, on rank 1 for 100. Then a collective, which ends on
both at 130, 20 after rank 1 has come to it; each host waits for it until 135, and goes on until 200.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from make_trace import Event, host, kernel, launch, loop, make_trace, write_trace

from longpole.analyze.advice.exposed_communication import EXPECTED_SHARE
from longpole.analyze.replay import excerpt
from longpole.analyze.replay.quality import quality
from longpole.analyze.replay.ranks import effects, ranks_of, sweep_of_ranks
from longpole.analyze.replay.what import parse
from longpole.analyze.replay.whatif import Prediction, changed_weights, predict
from longpole.analyze.trace import Trace
from longpole.capture.errors import ChangeError
from longpole.reports.cli import cli

STEPS_COUNT, STEP, TRANSFER = 4, 200, 20
RESULT = "ncclDevKernel_AllReduce"


def events_of(gemm: float, slowest: float, step: float = STEP, *, collective: bool = True) -> list[list[Event]]:
    """One rank whose gemm takes so long; the collective ends TRANSFER after the slowest rank has come."""
    calls, work = [], []
    for number in range(STEPS_COUNT):
        start, a, b = step * number, 2 * number + 1, 2 * number + 2
        done = start + 10 + slowest + TRANSFER
        calls += [launch(a, start, start + 5), launch(b, start + 5, start + 10)]
        calls.append(host("cuda_runtime", "cudaDeviceSynchronize", start + 10, done + 5))
        work.append(kernel("some_gemm", start + 10, start + 10 + gemm, correlation=a))
        if collective:
            work.append(kernel(RESULT, start + 10 + gemm, done, correlation=b))
    return [loop([step] * STEPS_COUNT), calls, work]


def run_of(*gemms: float, ahead_us: float = 0) -> Trace:
    """The first rank, with the others beside it; the clock of the last is ahead by so much."""
    traces = [
        make_trace(*events_of(gemm, max(gemms)), distributedInfo={"rank": rank, "world_size": len(gemms)})
        for rank, gemm in enumerate(gemms)
    ]
    traces[-1] = replace(traces[-1], origin_ns=traces[-1].origin_ns + round(1000 * ahead_us))
    return replace(traces[0], peers=tuple(traces[1:]))


def predicted(trace: Trace, *changes: str) -> Prediction:
    return predict(trace, [tuple(map(parse, changes))])[0]


def saving_us(trace: Trace, *changes: str) -> float:
    return predicted(trace, *changes).saving_ns / 1000


def alone(trace: Trace) -> Trace:
    return replace(trace, peers=())


def test_without_communication_only_the_transfer_is_gone():
    assert saving_us(alone(run_of(40, 100)), "comm x0") == 80
    assert saving_us(run_of(40, 100), "comm x0") == TRANSFER


def test_a_change_to_the_program_makes_the_rank_that_is_waited_for_faster_too():
    assert saving_us(alone(run_of(40, 100)), "kernel:gemm x0.5") == 20
    assert saving_us(run_of(40, 100), "kernel:gemm x0.5") == 50


def test_the_rank_that_others_wait_for_gains_what_they_gain():
    late, early = run_of(100, 40), run_of(40, 100)
    assert saving_us(late, "kernel:gemm x0.5") == saving_us(early, "kernel:gemm x0.5") == 50


def test_several_changes_at_once_are_replayed_on_all_ranks():
    assert saving_us(run_of(40, 100), "kernel:gemm x0.5", "comm x0") == 70


def test_the_most_is_what_is_removed_on_the_rank_and_what_it_waits_for_others():
    assert predicted(run_of(40, 100), "kernel:gemm x0.5").removed_ns == 20_000 + 60_000


@pytest.mark.parametrize("ahead_us", [-5000, 300, 7000])
def test_clocks_that_are_apart_change_nothing(ahead_us: float):
    assert saving_us(run_of(40, 100, ahead_us=ahead_us), "kernel:gemm x0.5") == 50


def test_what_a_peer_lacks_is_not_changed_there():
    trace = run_of(40, 100)
    peer = make_trace(*[[{**e, "name": e["name"].replace("some_gemm", "other")} for e in part] for part in events_of(100, 100)])
    trace = replace(trace, peers=(peer,))
    assert saving_us(trace, "kernel:gemm x0.5") == 0
    with pytest.raises(ChangeError, match="no kernel called other"):
        predict(trace, [(parse("kernel:other x0.5"),)])


def test_unchanged_every_rank_takes_the_steps_that_were_measured():
    run = ranks_of(run_of(40, 100, 70))
    weights = [changed_weights(one, effect)[:, None] for one, effect in zip(run.graphs, effects(run, ()), strict=True)]
    for one, done in zip(run.graphs, sweep_of_ranks(run, weights, run.residual_ns), strict=True):
        took = done.loc[one.steps["row"], 0].to_numpy() - done.loc[one.steps["before"], 0].to_numpy()
        assert took.tolist() == one.steps["measured_ns"].tolist()


def test_the_quality_tells_how_well_all_ranks_are_explained():
    assert quality(run_of(40, 100)).between_ranks == 0
    assert quality(run_of(40, 100)).reason is None
    assert quality(alone(run_of(40, 100))).between_ranks is None


def test_ranks_that_do_not_communicate_are_replayed_by_themselves():
    traces = [make_trace(*events_of(40, 40, collective=False)) for _ in range(2)]
    run = ranks_of(replace(traces[0], peers=(traces[1],)))
    assert (len(run.graphs), run.untied) == (1, "")


def test_ranks_whose_collectives_cannot_be_matched_are_replayed_by_themselves_and_it_is_said_why():
    trace = replace(run_of(40, 100), peers=(make_trace(*events_of(100, 100)[:2], [kernel("some_gemm", 10, 20)]),))
    run = ranks_of(trace)
    assert len(run.graphs) == 1
    assert run.untied == "collectives that not every rank's file holds: 4 of 4"
    assert saving_us(trace, "comm x0") == 80


def files_of(folder: Path, *gemms: float) -> str:
    for rank, gemm in enumerate(gemms):
        info = {"rank": rank, "world_size": len(gemms)}
        write_trace(folder / f"rank{rank}.json", *events_of(gemm, max(gemms)), distributedInfo=info)
    return str(folder)


def said(*arguments: str) -> str:
    done = CliRunner().invoke(cli, [*arguments, "--processes", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_whatif_replays_all_ranks_of_a_folder(tmp_path: Path):
    found = json.loads(said("whatif", files_of(tmp_path, 40, 100), "comm x0", "--json"))
    assert (found["ranks"], found["quality"]["between_ranks_error_pct"]) == (2, 0)
    assert found["answers"][0]["saving_us_per_step"] == TRANSFER
    assert "All 2 ranks are replayed together" in " ".join(said("whatif", str(tmp_path), "comm x0").split())


def test_exposed_communication_tells_the_waiting_apart(tmp_path: Path):
    found = json.loads(said("summary", files_of(tmp_path, 40, 40), "--json"))
    exposed = next(one for one in found["findings"] if one["id"] == "exposed_communication")
    assert "none of it is waiting for another rank" in exposed["problem"]
    assert exposed["saving_us_per_step"] == EXPECTED_SHARE * TRANSFER
    late = json.loads(said("summary", files_of(tmp_path, 90, 100), "--json"))
    exposed = next(one for one in late["findings"] if one["id"] == "exposed_communication")
    assert "for 40.0\u202fµs of it collectives wait for another rank" in exposed["problem"]
    assert exposed["saving_us_per_step"] == EXPECTED_SHARE * TRANSFER


def test_of_long_recordings_the_same_steps_of_all_ranks_are_replayed(monkeypatch: pytest.MonkeyPatch):
    """A step of one rank has 3 calls and 2 kernels, 10 moments."""
    monkeypatch.setattr(excerpt, "MOST_MOMENTS", 2 * 3 * 10)
    monkeypatch.setattr(excerpt, "FEWEST_STEPS", 1)
    run = ranks_of(run_of(40, 100))
    assert [len(one.trace.excerpt.steps) for one in run.graphs if one.trace.excerpt] == [3, 3]
    assert saving_us(run_of(40, 100), "comm x0") == TRANSFER


def test_long_recordings_of_unequal_steps_are_replayed_by_themselves(monkeypatch: pytest.MonkeyPatch):
    trace = run_of(40, 100)
    peer = make_trace(*[[e for e in part if e["name"] != "ProfilerStep#3"] for part in events_of(100, 100)])
    monkeypatch.setattr(excerpt, "MOST_MOMENTS", 2 * 4 * 10 - 1)
    assert "not all of them mark the same number of steps" in ranks_of(replace(trace, peers=(peer,))).untied


def comes(gemm: int, factor: float) -> float:
    """To the collective, since the start of the step: after its gemm, and as long after its launch as work takes to begin."""
    return max(10 + factor * gemm, min(10 + gemm, 5 + 10))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 100), min_size=2, max_size=4), st.sampled_from([0, 0.3, 0.5, 0.9, 1]), st.sampled_from([0, 0.5, 1])
)
def test_savings_are_those_of_the_plain_rule(gemms: list[int], factor: float, transfer: float):
    """A step ends when the slowest rank has come and the transfer is over; the rest of it stays."""
    before = 10 + max(gemms) + TRANSFER
    after = max(comes(gemm, factor) for gemm in gemms) + transfer * TRANSFER
    found = saving_us(run_of(*gemms), f"kernel:gemm x{factor}", f"comm x{transfer}")
    assert found == pytest.approx(before - after, abs=0.002)
