from dataclasses import replace

import pytest
from make_history import measured_run, measured_runs

from longpole.analyze.history import Break, history
from longpole.analyze.history_verdict import history_verdict
from longpole.analyze.measured import STEP, MeasuredRun
from longpole.capture.errors import MissingData
from longpole.reports.prose import sentence

SLOWER = [(6, 1000.0), (6, 1080.0)]


def title(runs: list[MeasuredRun]) -> str:
    return sentence(history_verdict(history(runs)).sentence).replace("\u202f", " ")


def lede(runs: list[MeasuredRun]) -> str:
    return sentence(history_verdict(history(runs)).lede).replace("\u202f", " ")


def notes(runs: list[MeasuredRun]) -> str:
    return " ".join(map(sentence, history_verdict(history(runs)).notes)).replace("\u202f", " ")


def test_each_run_has_its_mean_step_with_an_interval_and_what_else_it_recorded():
    (run,) = history([measured_run(1, 100, unprofiled=50, peak_bytes=700)]).runs
    assert (run.name, run.steps_count, run.step_ns) == ("train 1", 4, 100_000)
    assert run.interval is not None
    assert 80_000 <= run.interval.low < 100_000 < run.interval.high <= 120_000
    assert (run.unprofiled_ns, run.peak_bytes) == (50_000, 700)
    (bare,) = history([measured_run(1, 100)]).runs
    assert (bare.unprofiled_ns, bare.peak_bytes) == (None, None)


def test_three_steps_give_no_interval():
    run = measured_run(1, 100)
    few = replace(run, metrics={STEP: replace(run.metrics[STEP], values=run.metrics[STEP].values[:3])})
    assert history([few]).runs[0].interval is None


def test_a_run_without_step_times_is_refused():
    with pytest.raises(MissingData, match="train 2 has no step times"):
        history([measured_run(1, 100), replace(measured_run(2, 100), metrics={})])


def test_runs_stand_in_the_order_of_their_captures():
    found = history([measured_run(3, 103), measured_run(1, 101), measured_run(2, 102)])
    assert ([run.name for run in found.runs], found.by_time) == (["train 1", "train 2", "train 3"], True)


@pytest.mark.parametrize("captured_at", [None, "yesterday"])
def test_where_one_run_does_not_tell_when_it_was_captured_they_stand_as_given(captured_at: str | None):
    runs = [measured_run(3, 103), measured_run(1, 101, captured_at=captured_at)]
    found = history(runs)
    assert ([run.name for run in found.runs], found.by_time) == (["train 3", "train 1"], False)
    assert "In the order given: not every run tells when it was captured." in notes(runs)


def test_times_of_different_zones_are_put_in_order():
    """09:30 in Berlin is 08:30 in UTC."""
    late, early = (
        measured_run(1, 100, captured_at="2026-01-01T09:00:00Z"),
        measured_run(2, 100, captured_at="2026-01-01T09:30:00+01:00"),
    )
    assert [run.name for run in history([late, early]).runs] == ["train 2", "train 1"]


def test_a_run_given_twice_counts_once_and_that_is_said():
    runs = [measured_run(1, 100), measured_run(2, 100), measured_run(1, 100)]
    assert len(history(runs).runs) == 2
    assert "Given more than once and counted once: train 1." in notes(runs)


def test_runs_of_another_machine_break_the_history():
    runs = [measured_run(1, 100), measured_run(2, 100), measured_run(3, 50, {"GPU": "H200"})]
    found = history(runs)
    assert found.breaks == (Break(2, ("GPU",), ("GPU H100 → H200",)),)
    assert found.stretches == ((0, 2), (2, 3))
    assert "From run 3 (c030000) on times do not compare with those before: GPU H100 → H200." in notes(runs)


def test_a_run_that_does_not_tell_its_machine_does_not_hide_that_it_changed():
    gpus = ["H100", None, "H200", None, "H200"]
    found = history([measured_run(number, 100, {"GPU": gpu}) for number, gpu in enumerate(gpus, 1)])
    assert [broken.at for broken in found.breaks] == [2]


def test_the_verdict_says_by_how_much_and_between_which_commits():
    runs = measured_runs(*SLOWER)
    assert title(runs) == "The step got 8.0 % slower between run 6 (c060000) and run 7 (c070000)"
    assert lede(runs).startswith(
        "The mean step is 1.00 ms in 6 runs before and 1.08 ms in 6 after: +8.0 % (95 % interval +7.9 % to +8."
    )
    assert history_verdict(history(runs)).tag == "Slower"
    assert title(measured_runs(*SLOWER[::-1])) == "The step got 7.4 % faster between run 6 (c060000) and run 7 (c070000)"


def test_without_commits_the_verdict_names_the_runs_shortened():
    runs = measured_runs(*SLOWER, commit=None)
    runs[6] = replace(runs[6], name="x" * 50 + "{braces}")
    assert title(runs).endswith(f"between run 6 (train 6) and run 7 ({'x' * 39}…)")


def test_of_several_changes_the_last_one_is_the_verdict_and_all_are_told():
    runs = measured_runs((10, 1000), (10, 1100), (10, 1050))
    assert title(runs) == "The step got 4.5 % faster between run 20 (c200000) and run 21 (c210000), the last of 2 changes"
    assert "The step got 10 % slower between run 10 (c100000) and run 11 (c110000), p = " in notes(runs)


def test_what_else_changed_between_the_two_runs_is_told():
    runs = measured_runs(*SLOWER)
    changed = [*runs[:6], *(replace(run, facts={**run.facts, "PyTorch": "2.14", "Steps": 9}) for run in runs[6:])]
    assert "Also different between the two: PyTorch 2.13 → 2.14." in notes(changed)
    assert "same commit" not in notes(changed)
    assert "Both runs are of the same commit" in notes(measured_runs(*SLOWER, commit="abc"))


def test_no_change_is_told_with_how_much_runs_vary():
    """Six runs 1 % below and six 1 % above their mean, in turn: one standard deviation is √(12 ÷ 11) %."""
    runs = [measured_run(number, 990 + 20 * (number % 2)) for number in range(1, 13)]
    assert title(runs) == "No change point: 12 runs vary by 1.0 %"
    assert lede(runs) == "Their mean steps are between 990 µs and 1.01 ms; one standard deviation is 1.0 % of the mean."


def test_seven_runs_are_too_few():
    runs = measured_runs((4, 1000), (3, 2000))
    assert title(runs) == "Too few runs to tell: 7 runs, at least 8 are needed"
    assert title(runs[:1]) == "Too few runs to tell: 1 run, at least 8 are needed"
    assert lede(runs[:1]) == "Its mean step is 1.00 ms."


def test_a_short_stretch_is_named_as_such():
    runs = measured_runs(*SLOWER)
    runs += [measured_run(number, 500, {"GPU": "H200"}) for number in range(13, 16)]
    assert title(runs) == "The step got 8.0 % slower between run 6 (c060000) and run 7 (c070000)"
    assert "Too few runs compare to tell a change in these: 13 to 15. It takes 8" in notes(runs)


def test_a_drift_is_no_change_point():
    runs = [measured_run(number, 1000 + 10 * number) for number in range(1, 21)]
    assert title(runs) == "The step drifts: 19 % slower from run 1 (c010000) to run 20 (c200000)"
    assert lede(runs).startswith("The line through the 20 runs goes from 1.01 ms to 1.20 ms: +19 %, p = ")


def test_memory_that_grows_is_told_where_the_step_stays():
    runs = [measured_run(number, 1000 + number % 3, peak_bytes=2**30 * (4 if number < 7 else 5)) for number in range(1, 13)]
    assert title(runs).startswith("The peak memory of the GPUs got 25 % larger between run 6 (c060000) and run 7 (c070000)")
    assert title(runs).endswith("; the step shows no change point")
    assert lede(runs).startswith("The mean peak is 4.00 GiB in 6 runs before and 5.00 GiB in 6 after: +25 %")


def test_memory_that_creeps_is_told_as_a_drift():
    runs = [measured_run(number, 1000 + number % 3, peak_bytes=2**30 * (100 + number)) for number in range(1, 21)]
    assert title(runs) == "No change point: 20 runs vary by 0.1 %"
    assert "The peak memory of the GPUs drifts: 19 % larger from run 1 (c010000) to run 20 (c200000), without a jump." in notes(
        runs
    )


def test_runs_without_marked_steps_are_said_to_be_that():
    runs = [measured_run(number, 100, {"Steps marked": False}) for number in (1, 2)]
    assert "Runs without marked steps count their whole recording as one step." in notes(runs)
