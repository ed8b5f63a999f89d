"""Whose trace it is decides which questions are asked of it, and what is said of the others."""

import pytest
from make_trace import average, make_ranges, make_snapshot, make_trace, on_thread, op

from longpole.analyze.analyses.op_table import op_table, op_table_by_shape
from longpole.analyze.contents import ANALYSES, RANGES, SNAPSHOT, analyses_for
from longpole.analyze.diffs import DIFFS, TOTALS, diffs_for
from longpole.analyze.forms import LEGACY, form, withheld
from longpole.capture.errors import MissingData

PYTORCH = make_trace([op("aten::mm", 0, 10)])
JAX, ONNX = (make_ranges(on_thread("f", 0, 10), producer=producer) for producer in ("JAX/XLA", "ONNX Runtime"))
SNAPSHOT_ALONE = make_snapshot(average("aten::mm", 1, 10))


def test_what_the_loader_filled_tells_the_form():
    assert [form(trace) for trace in (PYTORCH, JAX, SNAPSHOT_ALONE)] == ["pytorch", "ranges", "snapshot"]


def test_each_form_has_its_questions():
    assert [analyses_for(trace) for trace in (PYTORCH, JAX, SNAPSHOT_ALONE)] == [ANALYSES, RANGES, SNAPSHOT]


def test_nothing_is_withheld_of_a_trace_of_torch_profiler():
    assert withheld(PYTORCH) == ""


@pytest.mark.parametrize(
    ("producer", "begins"),
    [
        ("JAX/XLA", "JAX/XLA wrote this trace: steps, phases,"),
        ("unknown", "A tool the file does not name wrote this trace: "),
        (LEGACY, "The PyTorch legacy autograd profiler wrote this trace: "),
    ],
)
def test_what_is_withheld_of_another_tools_trace_names_the_tool(producer: str, begins: str):
    assert withheld(make_ranges(on_thread("f", 0, 10), producer=producer)).startswith(begins)


def test_a_snapshot_says_that_it_has_no_timeline():
    assert "no timeline" in withheld(SNAPSHOT_ALONE)


@pytest.mark.parametrize("table", [op_table, op_table_by_shape])
def test_operators_of_another_tool_are_refused_with_its_name(table):
    with pytest.raises(MissingData, match="JAX/XLA wrote this trace"):
        table(JAX)


def test_two_recordings_without_steps_are_compared_by_their_totals():
    assert diffs_for([PYTORCH], [PYTORCH]) == DIFFS
    assert [diffs_for([a], [b]) for a, b in [(JAX, JAX), (SNAPSHOT_ALONE, SNAPSHOT_ALONE), (SNAPSHOT_ALONE, PYTORCH)]] == [
        TOTALS
    ] * 3


@pytest.mark.parametrize("other", [PYTORCH, SNAPSHOT_ALONE, ONNX], ids=["torch.profiler", "key_averages", "ONNX"])
def test_recordings_of_two_tools_are_not_compared(other):
    with pytest.raises(MissingData, match=r"of .*, another of .*compare recordings of one tool"):
        diffs_for([JAX], [other])
