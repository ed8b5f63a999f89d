"""Of a long recording steps in a row are replayed, and every answer says so; of one that fits, all."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, frame, kernel, launch, loop, make_trace, op
from shared_data import shared_trace

from longpole.analyze.analyses.critical_path import critical_path
from longpole.analyze.analyses.savings import savings
from longpole.analyze.replay import excerpt as module
from longpole.analyze.replay.excerpt import excerpt
from longpole.analyze.replay.graph import graph
from longpole.analyze.replay.quality import quality
from longpole.analyze.replay.whatif import parse, predict
from longpole.analyze.step_marks import marked_steps
from longpole.analyze.trace import Trace
from longpole.capture.errors import ChangeError, MissingData
from longpole.reports.saving_words import excerpt_line
from longpole.reports.whatif import whatif_json

LENGTHS = (200, 110, 101, 100, 102, 103, 400, 104, 120)
OF_STEP = 4  # the borders of a call and of a kernel


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Room for five steps of `steps`."""
    monkeypatch.setattr(module, "MOST_MOMENTS", 5 * OF_STEP)
    yield monkeypatch


def calls(start: float, end: float) -> list[Event]:
    return [
        launch(int(start) + 1, start + 10, start + 15), op("aten::mm", start + 5, start + 20), frame("a.py(1): f", start, end),
    ]  # fmt: skip


def kernels(start: float, end: float) -> list[Event]:
    return [kernel("gemm", start + 30, end - 5, correlation=int(start) + 1)]


def steps(lengths: tuple[int, ...] = LENGTHS) -> Trace:
    """Each launches a kernel that runs from 30 after its start until 5 before its end."""
    return make_trace(loop(lengths, calls), [event for event in loop(lengths, kernels) if event["cat"] == "kernel"])


def names(trace: Trace) -> list[str]:
    return marked_steps(trace)["name"].tolist()


def test_a_trace_that_fits_is_replayed_as_it_is():
    trace = steps()
    assert excerpt(trace) is trace
    assert quality(trace).of_steps_count is None
    assert not excerpt_line(quality(trace))


@pytest.mark.usefixtures("room")
def test_of_a_longer_one_the_steps_around_the_median_one_are():
    """The median of 100 to 400 is 104, ProfilerStep#7; five steps fit: three before it and the last one beside it."""
    trace = steps()
    assert names(excerpt(trace)) == [f"ProfilerStep#{number}" for number in (4, 5, 6, 7, 8)]
    assert quality(trace).steps_count == 4
    assert quality(trace).of_steps_count == len(LENGTHS)
    assert excerpt_line(quality(trace)) == "4 of 9 steps are replayed: those in a row around the one of median length."


@pytest.mark.usefixtures("room")
def test_a_step_takes_in_the_excerpt_what_it_takes_in_the_recording():
    trace = steps()
    cut = graph(trace).steps
    module.MOST_MOMENTS = 1000
    graph.cache_clear()
    excerpt.cache_clear()
    whole = graph(trace).steps
    known = dict(zip(whole["name"], whole["measured_ns"], strict=True))
    assert [known[name] for name in cut["name"]] == cut["measured_ns"].tolist()


@pytest.mark.usefixtures("room")
def test_every_answer_is_of_the_steps_that_are_replayed():
    trace = steps()
    (found,) = predict(trace, [(parse("kernel:gemm x0"),)])
    assert len(found.measured_ns) == critical_path(trace).steps_count == savings(trace).steps_count == 4
    told = json.loads(whatif_json([found], quality(trace)))
    assert (told["steps"], told["of_steps"]) == (4, 9)
    with pytest.raises(ChangeError, match="The replayed steps hold no kernel of communication"):
        predict(trace, [(parse("comm x0"),)])


def test_few_large_steps_get_more_room(room: pytest.MonkeyPatch):
    """Of steps that need more than there is room for four are taken, three of them replayed."""
    room.setattr(module, "MOST_MOMENTS", OF_STEP)
    assert len(excerpt(steps()).excerpt.steps) == module.FEWEST_STEPS  # type: ignore[union-attr]
    assert quality(steps()).steps_count == 3


def test_a_single_step_that_is_too_long_is_refused_with_a_reason(room: pytest.MonkeyPatch):
    room.setattr(module, "MOST_MOMENTS", 1)
    room.setattr(module, "MOST_OF_FEW", OF_STEP - 1)
    trace = steps()
    with pytest.raises(MissingData, match="Not replayed: one step holds 2 launches"):
        critical_path(trace)
    found = savings(trace)
    assert found.quality is None
    assert found.rows.empty
    assert (found.reason or "").startswith("one step holds 2 launches")


def test_an_unmarked_recording_is_one_step(room: pytest.MonkeyPatch):
    trace = make_trace(calls(0, 100), kernels(0, 100))
    room.setattr(module, "MOST_MOMENTS", 1)
    assert excerpt(trace) is trace
    excerpt.cache_clear()
    room.setattr(module, "MOST_OF_FEW", 1)
    with pytest.raises(MissingData):
        excerpt(trace)


@given(st.lists(st.integers(60, 90), min_size=2, max_size=12), st.integers(1, 8), st.integers(1, 8))
def test_an_excerpt_holds_whole_steps_and_fits(lengths: list[int], most: int, few: int):
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(module, "MOST_MOMENTS", most * OF_STEP)
        limits.setattr(module, "MOST_OF_FEW", max(most, few) * OF_STEP)
        found = excerpt(steps(tuple(lengths)))
    if len(lengths) > most:
        assert found.excerpt is not None
        assert len(found.excerpt.steps) == min(len(lengths), max(most, min(max(most, few), module.FEWEST_STEPS)))
        assert len(found.device) >= len(found.excerpt.steps)


@pytest.mark.parametrize("name", ["hta_ns", "hta_control", "mi300_resnet_act_ckpt"])
def test_real_steps_take_in_an_excerpt_what_they_take_in_the_recording(shared: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    trace = shared_trace(f"traces/{name}.json.gz")
    whole = graph(trace).steps
    monkeypatch.setattr(module, "MOST_MOMENTS", 15_000)
    for cached in (graph, excerpt, quality):
        cached.cache_clear()
    cut = graph(trace).steps
    known = dict(zip(whole["name"], whole["measured_ns"], strict=True))
    assert [known[name] for name in cut["name"]] == cut["measured_ns"].tolist()
    assert quality(trace).worst_structural < 0.01
    for cached in (graph, excerpt, quality):
        cached.cache_clear()
