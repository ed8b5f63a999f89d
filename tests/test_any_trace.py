"""Whatever ranges a file holds, each analysis answers or says what is missing."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from make_trace import Event, allocation, annotation, backward, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.contents import ANALYSES
from longpole.analyze.diffs import DIFFS
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.analyze.verdict import diff_verdict, run_verdict
from longpole.capture.errors import BundleError

NAMES = st.sampled_from([
    "aten::mm", "aten::item", "aten::add_", "aten::_foreach_add_", "forward", "longpole.phase#x", "Optimizer.step#Adam.step",
    "enumerate(DataLoader)#x", "autograd::engine::evaluate_function: A", "step[DECODE 1]", "step[EXTEND 2]", "ncclKernel",
])  # fmt: skip
NUMBERS = st.integers(0, 3)


@st.composite
def events(draw: st.DrawFn) -> Event:
    name, number, tid = draw(NAMES), draw(NUMBERS), draw(st.integers(1, 2))
    start = draw(st.integers(0, 20))
    end = start + draw(st.integers(0, 10))
    return draw(st.sampled_from([
        step(number, start, end),
        op(name, start, end, tid, **{"External id": number}),
        annotation(name, start, end, tid, finished=number > 0),
        backward(name, start, end, tid, sequence=number),
        launch(number, start, end),
        launch(number, start, end, name="cudaGraphLaunch"),
        launch(number, start, end, name="cudaDeviceSynchronize"),
        kernel(name, start, end, correlation=number, **{"External id": number}),
        memcpy("Memcpy HtoD", start, end, device=1),
        kernel(name, start, end, category="gpu_user_annotation"),
        allocation(start, 64 - 32 * number),
    ]))  # fmt: skip


def made(drawn: list[Event]) -> Trace | None:
    try:
        return make_trace(drawn)
    except BundleError:
        return None


@given(st.lists(events(), min_size=1, max_size=10), st.lists(events(), min_size=1, max_size=10))
@settings(max_examples=25)
def test_every_analysis_answers_or_says_what_is_missing(before: list[Event], after: list[Event]):
    old, new = made(before), made(after)
    assume(old and new)
    assert old is not None
    assert new is not None
    sections = run(ANALYSES, old)
    assert [(section.result is None) != (section.missing is None) for section in sections] == [True] * len(ANALYSES)
    assert run_verdict(sections).sentence.template
    assert diff_verdict(run(DIFFS, [old], [new])).sentence.template
