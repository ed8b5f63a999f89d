"""Sampling in a loop takes 400 of a step; at once it takes 60. The optimizer takes 200 one by one and 50 fused."""

from pathlib import Path
from typing import Any

import pytest
from make_report import optimizer_fused, optimizer_one_by_one, sampling_at_once, sampling_in_a_loop
from make_trace import Event, make_bundle, make_trace, op, phase, step

from longpole.analyze.diffs.outcome import Comparison, Outcome, outcome
from longpole.analyze.diffs.outcome_text import outcome_text, phase_text
from longpole.analyze.load import load
from longpole.analyze.proposals import Saving
from longpole.analyze.statistics import Interval
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData
from longpole.reports.prose import sentence

PAIRS = Path(__file__).parent / "data" / "pairs"
SAMPLING, OPTIMIZER = "repeated_ops:sampling", "optimizer_step"


def recorded(sampling: int, optimizer: int, steps: int = 6, rest: int = 100, loop: int = 0, **bundle: Any) -> Trace:
    """Sampling in 400 or 60, the optimizer in 200 or 50, then the rest, in it a loop; without the profiler all takes half."""
    took = sampling + optimizer + rest + loop
    events: list[Event] = []
    for number in range(steps):
        at, took_now = 2000 * number, took + number % 2
        events += [step(number, at, at + took_now), *(sampling_at_once if sampling == 60 else sampling_in_a_loop)(at)]
        events += (optimizer_fused if optimizer == 50 else optimizer_one_by_one)(at + sampling)
        events += [op("aten::mm", at + sampling + optimizer, at + took - loop), *reading(at + took - loop, loop)]
    return make_bundle(events, **{"unprofiled_step_ns": tuple(500 * took + 10 * i for i in range(8)), **bundle})


def reading(at: float, length: int) -> list[Event]:
    """A small read in each 3."""
    reads = [op("aten::select", at + i, at + i + 2) for i in range(0, length, 3)]
    return [phase("output", at, at + length), *reads] if length else []


def statuses(found: Outcome) -> dict[str, str]:
    return {fate.finding.id: fate.status for fate in found.fates}


def told(found: Outcome) -> str:
    return sentence(outcome_text(found)).replace("\u202f", " ").replace("\u2212", "-")


SLOW, SAMPLED, BOTH = recorded(400, 200), recorded(60, 200), recorded(60, 50)


def test_what_the_only_finding_that_is_gone_was_to_save_stands_beside_what_was_measured():
    found = outcome([SLOW], [SAMPLED])
    assert statuses(found) == {SAMPLING: "gone", OPTIMIZER: "still_there"}
    first = found.fates[0].finding
    assert found.profiled is not None
    assert found.profiled.predicted == Saving(first.low_ns, first.saving_ns, first.high_ns)
    assert found.profiled.measured_ns == 340_000
    assert first.low_ns <= 340_000 <= first.high_ns
    assert (found.profiled.word, found.word) == ("as_predicted", "as_predicted")


def test_without_the_profiler_the_range_shrinks_as_the_expected_saving_does():
    found = outcome([SLOW], [SAMPLED])
    assert found.profiled
    assert found.profiled.predicted
    assert found.unprofiled
    assert found.unprofiled.predicted
    share = found.unprofiled.predicted.expected_ns / found.profiled.predicted.expected_ns
    assert share == pytest.approx(0.5, abs=0.001)
    assert found.unprofiled.predicted.high_ns == pytest.approx(share * found.profiled.predicted.high_ns)
    assert found.unprofiled.measured_ns == 170_000
    assert found.decisive is found.unprofiled


def test_a_bare_trace_has_no_steps_without_the_profiler():
    found = outcome([recorded(400, 200, unprofiled_step_ns=())], [SAMPLED])
    assert (found.unprofiled, found.word) == (None, "as_predicted")


def test_two_at_once_are_held_against_what_was_predicted_of_both_together():
    found = outcome([SLOW], [BOTH])
    assert statuses(found) == {SAMPLING: "gone", OPTIMIZER: "gone"}
    assert found.profiled
    assert found.profiled.predicted
    assert found.profiled.measured_ns == 490_000
    assert found.word == "as_predicted"
    assert told(found).startswith("Findings 1 and 2 of the first report are gone, and the step is shorter as predicted: ")


def test_two_that_were_not_predicted_together_are_not_added_up():
    found = outcome([recorded(400, 200, loop=45)], [recorded(60, 200, loop=0)])
    assert statuses(found) == {SAMPLING: "gone", OPTIMIZER: "still_there", "repeated_ops:output": "gone"}
    assert found.profiled
    assert (found.profiled.predicted, found.profiled.measured_ns, found.word) == (None, 385_000, None)
    assert "what each would save does not add up; the whole step differs by -385 µs (95 % interval" in told(found)


def test_where_nothing_is_gone_there_is_nothing_to_compare():
    found = outcome([SLOW], [SLOW])
    assert set(statuses(found).values()) == {"still_there"}
    assert (found.profiled, found.unprofiled, found.word) == (None, None, None)
    assert told(found) == "What the first report found is still there; none of its changes shows in the second run."


def test_of_a_second_run_with_new_findings_nothing_was_predicted():
    found = outcome([BOTH], [SLOW])
    assert set(statuses(found).values()) == {"new"}
    assert told(found) == "The first report has no change that saves time, so nothing was predicted."


def test_runs_that_cannot_be_compared_get_no_word():
    found = outcome([recorded(400, 200, samples_per_step=64)], [recorded(60, 200, samples_per_step=32)])
    assert statuses(found)[SAMPLING] == "gone"
    assert (found.comparable, found.profiled, found.word) == (False, None, None)
    assert told(found) == (
        "Finding 1 of the first report is gone. The runs cannot be compared, so what that saved cannot be told."
    )


def test_too_few_steps_tell_nothing():
    few = {"steps": 3, "unprofiled_step_ns": ()}
    found = outcome([recorded(400, 200, **few)], [recorded(60, 200, **few)])
    assert found.word == "cannot_be_told"
    assert told(found).startswith("Finding 1 of the first report is gone. There are too few steps to tell whether")
    assert told(found).endswith("-340 µs measured.")


def test_a_step_that_got_slower_elsewhere_saved_less_and_its_phase_says_why():
    found = outcome([SLOW], [recorded(60, 200, rest=500)])
    assert found.word == "less_than_predicted"
    assert ", yet the step is no shorter: " in told(found)
    why = phase_text(found)
    assert why is not None
    assert "sampling, where it was, changed by \u2212340" in sentence(why)


def test_without_findings_on_either_side_there_is_no_outcome():
    plain = make_trace([step(i, 100 * i, 100 * i + 90) for i in range(6)], [op("aten::mm", 10, 40)])
    with pytest.raises(MissingData, match="Neither run"):
        outcome([plain], [plain])


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (20, 30, "as_predicted"),
        (5, 11, "as_predicted"),
        (38, 60, "as_predicted"),
        (1, 9, "less_than_predicted"),
        (-20, -5, "less_than_predicted"),
        (-3, 4, "less_than_predicted"),
        (-3, 14, "cannot_be_told"),
        (41, 50, "more_than_predicted"),
    ],
)
def test_the_word_says_whether_the_measured_interval_meets_the_predicted_range(low: float, high: float, word: str):
    assert Comparison(Saving(10, 30, 40), (low + high) / 2, Interval(low, high)).word == word


@pytest.mark.parametrize("pair", sorted(path.name.removesuffix("_before") for path in PAIRS.glob("*_before")))
def test_on_recordings_of_real_fixes_the_cause_is_gone_and_held_against_its_prediction(pair: str):
    before, after = load(PAIRS / f"{pair}_before"), load(PAIRS / f"{pair}_after")
    assert before.manifest is not None
    found = outcome([before], [after])
    assert statuses(found)[before.manifest.program["cause"]] == "gone"
    assert found.fates[0].status == "gone"
    if found.comparable:
        assert found.unprofiled is not None
        assert found.decisive is found.unprofiled
        assert found.word is not None


def test_of_the_dqn_one_finding_is_gone_and_the_other_still_there():
    found = outcome([load(PAIRS / "dqn_before")], [load(PAIRS / "dqn_after")])
    assert statuses(found) == {SAMPLING: "gone", OPTIMIZER: "still_there"}
    assert found.unprofiled
    assert found.unprofiled.predicted
    assert found.unprofiled.measured_ns >= found.unprofiled.predicted.expected_ns
    assert found.word in ("as_predicted", "more_than_predicted")
