import pytest
from make_trace import frame, kernel, launch, make_trace, memcpy, op, step

from longpole.analyze.advice.exposed_copies import exposed_copies
from longpole.analyze.analyses.savings import savings
from longpole.analyze.proposals import Proposal

PINNED, BACK, WITHIN = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)", "Memcpy DtoD (Device -> Device)"


def of(*work) -> list[Proposal]:
    return list(exposed_copies(make_trace([step(1, 0, 1_000)], list(work))))


@pytest.mark.parametrize(
    ("name", "id", "change", "share"),
    [
        (PINNED, "copies_to_gpu", "copy:h2d x0", 0.75),
        ("Memcpy HtoD (Host -> Device)", "copies_to_gpu", "copy:h2d x0", 0.75),  # ROCm does not tell the kind of memory
        (BACK, "copies_to_host", "copy:d2h x0", 0.5),
        (WITHIN, "copies_on_gpu", "copy:d2d x0", 0.5),
        ("Memcpy PtoP (Device -> Device)", "copies_on_gpu", "copy:d2d x0", 0.5),
    ],
)
def test_copies_beside_which_nothing_runs_are_told_by_their_way(name: str, id: str, change: str, share: float):
    (found,) = of(memcpy(name, 0, 300), kernel("gemm", 200, 900))
    assert (found.id, found.changes, found.expected_share) == (id, (change,), share)
    assert {e.name: e.value for e in found.evidence} == {"copies_count": 1, "exposed_ns": 200_000, "longest_ns": 300_000}


def test_copies_beside_computing_or_communication_cost_nothing():
    for beside in ("gemm", "ncclDevKernel_AllReduce"):
        assert not of(memcpy(PINNED, 0, 300), kernel(beside, 0, 300, stream=8))
    assert of(memcpy(PINNED, 0, 300), kernel("gemm", 0, 300, device=1))


def test_copies_with_an_advice_of_their_own_are_left_to_it():
    assert not of(memcpy("Memcpy HtoD (Pageable -> Device)", 0, 300), kernel("gemm", 300, 900))
    there_and_back = [
        memcpy(name, at, at + 50, bytes=100_000) for at, name in ((0, BACK), (50, PINNED), (100, BACK), (150, PINNED))
    ]
    assert not of(*there_and_back, kernel("gemm", 200, 900))


def test_only_the_part_without_advice_of_its_own_goes():
    pageable = memcpy("Memcpy HtoD (Pageable -> Device)", 0, 9)
    (found,) = of(pageable, memcpy(PINNED, 100, 127), kernel("gemm", 400, 900))
    assert found.changes == ("copy:h2d x0.25",)


def test_memory_is_pinned_first():
    assert not of(memcpy("Memcpy HtoD (Pageable -> Device)", 0, 10), memcpy(PINNED, 100, 127), kernel("gemm", 400, 900))


def test_short_copies_are_not_worth_a_change():
    assert not of(memcpy(BACK, 0, 19), kernel("gemm", 100, 900))
    assert of(memcpy(BACK, 0, 20), kernel("gemm", 100, 900))


def test_who_copies_is_named():
    calls = [frame("train.py(9): log", 0, 300), op("aten::copy_", 5, 290), launch(1, 10, 280, name="cudaMemcpyAsync")]
    (found,) = exposed_copies(make_trace([step(1, 0, 1_000)], calls, [memcpy(BACK, 20, 270, correlation=1)]))
    assert (found.problem.values["ops"], found.problem.values["line"]) == ("aten::copy_", "train.py(9): log")


def test_a_blocking_copy_to_the_host_between_kernels_can_go_in_part():
    """A step of 1000: a kernel of 400, a copy of 200 in a call that waits for it, a kernel of 390."""
    calls, work = [], []
    for at in (0, 1_000, 2_000):
        calls += [step(at // 1_000, at, at + 1_000), launch(at + 1, at, at + 2), launch(at + 3, at + 606, at + 608)]
        calls.append(launch(at + 2, at + 5, at + 605, name="cudaMemcpyAsync"))
        work += [kernel("a", at + 2, at + 402, correlation=at + 1), memcpy(BACK, at + 402, at + 602, correlation=at + 2)]
        work.append(kernel("b", at + 609, at + 999, correlation=at + 3))
    (found,) = (f for f in savings(make_trace(calls, work)).findings if f.id == "copies_to_host")
    assert found.high_ns == pytest.approx(200_000, rel=0.02)
    assert found.saving_ns == pytest.approx(100_000, rel=0.02)
    assert found.low_ns == 0
