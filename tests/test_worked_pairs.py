"""On recordings of programs with one known cause the first finding names it, and on those without it the finding is gone."""

from pathlib import Path

import pytest
from make_report import run_report_of

PAIRS = sorted(path.name.removesuffix("_before") for path in (Path(__file__).parent / "data" / "pairs").glob("*_before"))


def report(pair: str, side: str):
    return run_report_of(Path(__file__).parent / "data" / "pairs" / f"{pair}_{side}")


def cause(pair: str) -> str:
    return str(report(pair, "before").recordings[0].manifest.program["cause"])


@pytest.mark.parametrize("pair", PAIRS)
def test_the_first_finding_names_the_cause(pair: str):
    found = report(pair, "before").findings
    assert [finding.id for finding in found][:1] == [cause(pair)]
    first = found[0]
    assert first.saving_unprofiled_ns is not None
    assert first.saving_unprofiled_ns > 0
    assert report(pair, "before").verdict.top == first.id


@pytest.mark.parametrize("pair", PAIRS)
def test_after_the_change_the_finding_is_gone(pair: str):
    assert cause(pair) not in [finding.id for finding in report(pair, "after").findings]


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\.:DeprecationWarning")  # torch.compile uses it itself
@pytest.mark.parametrize("pair", PAIRS)
def test_before_and_after_have_the_same_result(pair: str):
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    from worked_pairs import PAIRS as PROGRAMS
    from worked_pairs import Stopwatch

    if pair not in PROGRAMS:
        pytest.skip("torch.compile needs a C++ compiler")
    before, after = (program(Stopwatch(), 3) for program in (PROGRAMS[pair].before, PROGRAMS[pair].after))
    assert after == pytest.approx(before, rel=1e-3)
