import pytest
from make_trace import Event, annotation, kernel, launch, loop, make_bundle, make_trace, memcpy, op, phase, step

from longpole.analyze.contents import ANALYSES
from longpole.analyze.diffs import DIFFS
from longpole.analyze.findings import Verdict
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.analyze.verdict import diff_verdict, run_verdict

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def verdict(*events: list[Event]) -> Verdict:
    return run_verdict(run(ANALYSES, make_trace(*events)))


def change(before: Trace, after: Trace) -> Verdict:
    return diff_verdict(run(DIFFS, [before], [after]))


def one_op(share: float, durations: tuple[float, ...] = (100,) * 10) -> list[Event]:
    """Steps of which one operator holds a share."""
    return loop(durations, lambda start, end: [op("aten::mm", start, start + share * (end - start))])


# One run


def test_a_large_operator_makes_the_step_bound_by_computing():
    found = verdict(one_op(0.6))
    assert (found.bound, found.tag, found.confidence, found.top) == ("compute", "Compute-bound", "high", None)
    assert found.sentence.values["lead"] == "aten::mm"
    assert found.sentence.values["lead_share"] == pytest.approx(0.6)


def test_time_outside_operators_is_the_hosts():
    found = verdict(one_op(0.4))
    assert (found.bound, found.sentence.values["lead"]) == ("host", "Time outside operators")


def test_many_equal_operators_are_balanced():
    names = [f"aten::op{i}" for i in range(10)]
    found = verdict(loop([100] * 4, lambda start, end: [op(n, start + 10 * i, start + 10 * i + 10) for i, n in enumerate(names)]))
    assert found.bound == "balanced"
    assert found.sentence.template.startswith("No single part")


def test_a_decisive_finding_says_what_limits_the_step():
    found = verdict([step(1, 0, 10_000), annotation(LOADER, 0, 4_000), op("aten::mm", 4_000, 10_000)])
    assert (found.bound, found.top, found.sentence.values["lead"]) == ("input_pipeline", "data_wait", "Data loading")
    assert found.lede.values["after_ns"] == 6_700_000


def test_a_finding_that_saves_little_does_not():
    found = verdict([step(1, 0, 20_000), annotation(LOADER, 0, 2_000), op("aten::mm", 2_000, 20_000)])
    assert (found.bound, found.top) == ("compute", "data_wait")


@pytest.mark.parametrize(
    ("durations", "confidence"),
    [((100,) * 10, "high"), ((100,) * 9, "medium"), ((60, 140) * 6, "medium"), ((100,) * 3, "low")],
    ids=["many steady steps", "fewer steps", "steps that vary", "too few steps"],
)
def test_confidence_comes_from_the_number_of_steps_and_their_spread(durations: tuple[float, ...], confidence: str):
    assert verdict(one_op(0.6, durations)).confidence == confidence


def test_a_gpu_that_computes_seven_tenths_of_the_step_limits_it():
    assert verdict([step(1, 0, 100)], [kernel("gemm", 0, 70)]).bound == "compute"
    assert verdict([step(1, 0, 100)], [kernel("gemm", 0, 69)]).bound != "compute"


def test_a_gpu_that_copies_or_communicates_is_not_computing():
    assert verdict([step(1, 0, 100)], [kernel("gemm", 0, 40), memcpy("HtoD", 40, 100)]).bound == "copy"
    assert verdict([step(1, 0, 100)], [kernel("gemm", 0, 40), kernel("ncclKernel", 40, 100)]).bound == "communication"


def test_missing_work_makes_the_busy_share_a_lower_bound():
    found = verdict([step(1, 0, 100), launch(1, 0, 5)], [kernel("gemm", 0, 95)])
    assert "at least {busy_share}" in found.sentence.template
    assert (found.bound, found.confidence) == ("unknown", "low")


def test_two_clocks_give_no_busy_share():
    found = verdict([step(1, 0, 100), launch(1, 50, 55)], [kernel("gemm", 0, 95, correlation=1)])
    assert "{busy_share}" not in found.sentence.template
    assert (found.sentence.values["busy_ns"], found.bound) == (95_000, "unknown")


def test_several_gpus_give_the_least_and_the_most_busy():
    found = verdict([step(1, 0, 100)], [kernel("gemm", 0, 95), kernel("gemm", 0, 30, device=1)])
    assert (found.sentence.values["low_share"], found.sentence.values["busy_share"], found.bound) == (0.3, 0.95, "compute")


# A change


def test_a_faster_run_is_called_so_with_the_phase_that_did_it():
    def trace(width: float) -> Trace:
        def parts(start: float, end: float) -> list[Event]:
            return [phase("sampling", start, start + width), op("aten::mm", start, end)]

        return make_trace(loop([40 + width] * 6, parts))

    found = change(trace(60), trace(10))
    assert (found.tag, found.bound, found.confidence) == ("Faster", "faster", "high")
    assert found.sentence.values["speedup_ratio"] == 2
    assert (found.lede.values["phase"], found.lede.values["phase_change_ns"]) == ("sampling", -50_000)


def test_a_slower_run_has_its_ratio_the_other_way_round():
    found = change(make_trace(one_op(1, (50,) * 6)), make_trace(one_op(1, (100,) * 6)))
    assert (found.tag, found.sentence.values["speedup_ratio"]) == ("Slower", 2)


def test_runs_whose_steps_overlap_are_less_certain():
    before, after = make_trace(one_op(1, (90, 100, 110) * 4)), make_trace(one_op(1, (80, 90, 100) * 4))
    assert (change(before, after).tag, change(before, after).confidence) == ("Faster", "medium")


def test_a_run_against_itself_is_within_noise():
    trace = make_trace(one_op(0.6))
    assert change(trace, trace).tag == "Within noise"


def test_too_few_steps_cannot_tell():
    found = change(make_trace(one_op(1, (100,) * 5)), make_trace(one_op(1, (50,) * 6)))
    assert (found.tag, found.confidence) == ("Too few steps", "low")


def test_runs_that_cannot_be_compared_are_called_so():
    events = one_op(1, (100,) * 4)
    found = change(make_bundle(events, samples_per_step=64), make_bundle(events, samples_per_step=32))
    assert (found.tag, found.confidence) == ("Not comparable", "low")
    assert (found.bound, found.sentence.values["reasons"]) == ("not_comparable", "Samples per step: 64 before, 32 after")


def test_the_largest_part_leads_even_when_the_first_finding_is_about_another():
    adds = [op("aten::add_", 700 + 10 * i, 704 + 10 * i) for i in range(20)]
    found = verdict([step(1, 0, 1000), annotation("Optimizer.step#SGD.step", 700, 900), phase("forward", 0, 650)], adds)
    assert (found.top, found.sentence.values["lead"]) == ("optimizer_step", "Forward")


def test_waiting_for_the_gpu_is_not_computing():
    assert verdict([step(1, 0, 100), launch(1, 0, 90, name="cudaDeviceSynchronize")]).bound == "unknown"


def test_a_recording_of_the_gpu_alone_claims_no_host_step():
    assert "a step takes" not in verdict([kernel("k", 0, 10)]).lede.template


def test_the_part_that_made_it_faster_is_one_that_got_faster():
    def side(forward: float, loss: float, act: float) -> list[Event]:
        total = forward + loss + act
        return loop([total] * 6, lambda s, e: [
            phase("forward", s, s + forward), phase("loss", s + forward, s + forward + loss), phase("act", s + forward + loss, e),
        ])  # fmt: skip

    found = change(make_trace(side(10, 50, 40)), make_trace(side(45, 25, 20)))
    assert (found.tag, found.lede.values["phase"]) == ("Faster", "loss")


def test_a_change_of_every_phase_alike_may_be_the_machine():
    def side(scale: float) -> list[Event]:
        names = ("act", "forward", "loss", "optimizer")
        return loop([100 * scale] * 6, lambda s, e: [
            phase(name, s + 25 * scale * i, s + 25 * scale * (i + 1)) for i, name in enumerate(names)
        ])  # fmt: skip

    found = change(make_trace(side(1)), make_trace(side(0.8)))
    assert found.lede.values["least_share"] == pytest.approx(0.2)
