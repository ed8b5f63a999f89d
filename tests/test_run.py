import pytest
from make_trace import make_trace, op

from longpole.analyze.findings import Finding
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.capture.errors import MissingData

TRACE = make_trace([op("aten::mm", 0, 10)])


def number_of_ranges(trace: Trace) -> int:
    return len(trace.host)


def without_gpu(trace: Trace) -> int:
    raise MissingData("No GPU here; capture on one.")


def with_a_bug(trace: Trace) -> int:
    raise KeyError("dur")


def longer(before: Trace, after: Trace) -> bool:
    return after.window_ns > before.window_ns


def test_each_analysis_becomes_a_section_in_order():
    sections = run({"Ranges": number_of_ranges, "GPU": without_gpu}, TRACE)
    assert [(s.name, s.title, s.result, s.missing) for s in sections] == [
        ("number_of_ranges", "Ranges", 1, None),
        ("without_gpu", "GPU", None, "No GPU here; capture on one."),
    ]


def test_a_section_without_findings_has_none():
    findings: tuple[Finding, ...] = run({"Ranges": number_of_ranges}, TRACE)[0].findings
    assert findings == ()


def test_a_section_without_trouble_has_no_warnings():
    assert run({"Ranges": number_of_ranges}, TRACE)[0].warnings == ()


def test_a_bug_is_no_missing_data():
    with pytest.raises(KeyError, match="dur"):
        run({"Ranges": number_of_ranges, "Bug": with_a_bug}, TRACE)


def test_a_comparison_takes_two_traces():
    assert run({"Longer": longer}, TRACE, make_trace([op("aten::mm", 0, 20)]))[0].result is True
