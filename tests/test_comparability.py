from typing import Any

import pytest
from make_trace import (
    annotation,
    average,
    backward,
    kernel,
    make_bundle,
    make_ranges,
    make_snapshot,
    make_trace,
    on_thread,
    op,
    step,
)

from longpole.analyze.diffs.comparability import Comparability, comparability

EVENTS = [step(1, 0, 100), op("aten::mm", 0, 40)]


def status(found: Comparability) -> dict[str, str]:
    return dict(zip(found.rows["fact"], found.rows["status"], strict=True))


def test_a_trace_and_itself_are_comparable():
    trace = make_trace(EVENTS)
    found = comparability([trace], [trace])
    assert (found.comparable, found.reasons) == (True, [])
    assert "different" not in status(found).values()


def test_what_a_bare_trace_does_not_say_is_unknown():
    found = comparability([make_trace(EVENTS)], [make_bundle(EVENTS, machine={"cpu": "Xeon"})])
    assert status(found)["CPU"] == "unknown"
    assert found.rows.set_index("fact").loc["CPU", ["before", "after"]].tolist() == ["–", "Xeon"]
    assert found.comparable


@pytest.mark.parametrize(
    ("fact", "fields"),
    [
        ("CPU", [{"machine": {"cpu": "Xeon"}}, {"machine": {"cpu": "EPYC"}}]),
        ("Samples per step", [{"samples_per_step": 64}, {"samples_per_step": 32}]),
    ],
    ids=["CPU", "samples"],
)  # fmt: skip
def test_another_machine_or_batch_makes_times_incomparable(fact: str, fields: list[dict[str, Any]]):
    found = comparability(*([make_bundle(EVENTS, **each)] for each in fields))
    assert not found.comparable
    assert len(found.reasons) == 1
    assert found.reasons[0].startswith(f"{fact}: ")


def test_training_and_inference_are_not_comparable():
    found = comparability([make_trace(EVENTS, [backward("MmBackward0", 50, 60)])], [make_trace(EVENTS)])
    assert found.reasons == ["Mode: training before, inference after"]


def test_other_gpus_are_not_comparable():
    before, after = (make_trace(EVENTS, [kernel("k", 0, 9)], deviceProperties=[{"name": name}]) for name in ("A100", "H100"))
    assert comparability([before], [after]).reasons == ["GPU: A100 before, H100 after"]
    assert comparability([before], [make_trace(EVENTS)]).reasons == ["GPU: A100 before, no GPU after"]


def test_what_was_recorded_must_be_the_same():
    assert comparability([make_trace(EVENTS)], [make_trace(EVENTS, with_stack=1)]).reasons == [
        "Stacks recorded: no before, yes after"
    ]


def test_another_version_or_number_of_steps_is_shown_and_does_no_harm():
    before = make_bundle(EVENTS, versions={"torch": "2.12.1"})
    after = make_bundle(EVENTS, [step(2, 100, 200), op("aten::mm", 100, 140)], versions={"torch": "2.13.0"})
    found = comparability([before], [after])
    assert [status(found)[fact] for fact in ("PyTorch", "Steps")] == ["different", "different"]
    assert found.comparable


def test_a_whole_recording_and_a_step_or_prefill_and_decode_are_not_comparable():
    unmarked, marked = make_trace([op("aten::mm", 0, 90)]), make_trace([step(1, 0, 100), op("aten::mm", 0, 90)])
    assert status(comparability([unmarked], [marked]))["Steps marked"] == "different"
    decode, prefill = (make_trace([annotation(f"step[{kind} bs=2]", 0, 100)]) for kind in ("DECODE", "PREFILL"))
    assert not comparability([decode], [prefill]).comparable


def test_models_of_other_sizes_are_not_comparable():
    events = [step(1, 0, 100), op("aten::mm", 0, 90)]
    small, large = (make_bundle(events, program={"parameters": count}) for count in (10, 20))
    assert comparability([small], [large]).reasons == ["Parameters of the model: 10 before, 20 after"]


def test_of_snapshots_and_other_tools_what_they_were_recorded_by_is_known_and_their_steps_where_marked():
    mark = average("ProfilerStep*", 3, 10, 30)
    found = comparability([make_snapshot(mark, torch="2.12.1")], [make_trace(EVENTS)]).rows.set_index("fact")
    assert found.loc["Recorded by", ["before", "after"]].tolist() == ["key_averages()", "torch.profiler"]
    assert found.loc["Steps", ["before", "after"]].tolist() == ["3", "1"]
    assert found.loc["PyTorch", ["before", "after"]].tolist() == ["2.12.1", "–"]
    ranges = make_ranges(on_thread("f", 0, 10))
    assert status(comparability([ranges], [ranges])) == {
        "Recorded by": "same", "CPU": "unknown", "PyTorch": "unknown", "Steps": "unknown",
    }  # fmt: skip
