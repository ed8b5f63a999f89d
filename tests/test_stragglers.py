"""Who is late to collectives, and what being on time would save."""

from dataclasses import replace

import pytest
from make_trace import Event, annotation, kernel, loop, make_trace, op, step

from longpole.analyze.analyses.ranks import Ranks, ranks
from longpole.analyze.contents import ACROSS_RANKS, analyses_for
from longpole.analyze.findings import Finding
from longpole.analyze.joint import Together, of_these
from longpole.analyze.run import run
from longpole.analyze.trace import Trace
from longpole.reports.formats import plain
from longpole.reports.measures import measures_of
from longpole.reports.model import Report, of_ranks, run_report
from longpole.reports.prose import sentence


def rank(number: int, *events: Event | list[Event], of: int = 2, **top_level: object) -> Trace:
    """With two steps of 1000 µs."""
    return make_trace(loop([1000, 1000]), *events, distributedInfo={"rank": number, "world_size": of}, **top_level)


def all_reduce(start: float, end: float, stream: int = 20) -> Event:
    return kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, stream)


def twice(*calls: tuple[float, float]) -> list[Event]:
    """A computing kernel up to each collective, in both steps."""
    begun = [0.0, *(end for _, end in calls)]
    return [
        event
        for at in (0, 1000)
        for since, (start, end) in zip(begun, calls, strict=False)
        for event in (kernel("gemm", at + since, at + start), all_reduce(at + start, at + end))
    ]


def late(*traces: Trace) -> Finding:
    (found,) = ranks(*traces).findings
    return found


def report(*traces: Trace, shown: int = 0) -> Report:
    return of_ranks([report_on(trace) for trace in traces], shown, run(ACROSS_RANKS, *traces))


def report_on(trace: Trace) -> Report:
    return run_report(run(analyses_for(trace), trace), trace)


EARLY, LATE = rank(0, twice((100, 900))), rank(1, twice((800, 900)))


def test_what_the_others_wait_for_one_rank_is_saved_where_it_is_on_time():
    found = late(EARLY, LATE)
    assert (found.id, found.title.values["rank"], found.confidence) == ("straggler", "1", "medium")
    assert (found.low_ns, found.saving_ns, found.high_ns) == (350_000, 700_000, 700_000)  # of 700 two ranks can share 350
    assert found.bound == "compute"
    worst = found.evidence[-1]
    assert (worst.rank, worst.value, worst.start_ns, worst.end_ns) == (0, 700_000, 100_000, 800_000)


def test_of_three_ranks_only_what_the_last_but_one_waits_is_saved():
    found = late(*(rank(i, twice((at, 900)), of=3) for i, at in enumerate((100, 800, 400))))
    assert found.title.values["rank"] == "1"
    assert found.saving_ns == 400_000


def test_two_calls_at_once_wait_once():
    def of(number: int, at: float) -> Trace:
        return rank(number, twice((at, 900)), [all_reduce(at, 900, 21), all_reduce(1000 + at, 1900, 21)])

    assert late(of(0, 100), of(1, 800)).saving_ns == 700_000


def test_a_wait_beside_which_the_rank_computes_costs_it_nothing():
    beside = [kernel("gemm", 200, 500), kernel("gemm", 1200, 1500)]
    found = late(rank(0, twice((100, 900)), beside), LATE)
    assert (found.saving_ns, found.high_ns) == (400_000, 700_000)


def test_a_rank_that_waits_as_long_elsewhere_is_no_straggler():
    turns = rank(0, twice((100, 300), (700, 800))), rank(1, twice((250, 300), (550, 800)))
    assert not ranks(*turns).findings


def test_a_late_rank_that_does_not_compute_is_held_up_on_its_host():
    asleep = rank(1, [event for at in (0, 1000) for event in (kernel("gemm", at, at + 100), all_reduce(at + 800, at + 900))])
    found = late(EARLY, asleep)
    assert found.bound == "host"
    assert "garbage collection" in found.advice.template


def test_where_a_rank_was_not_given_another_may_be_later_still():
    assert late(rank(0, twice((100, 900)), of=3), rank(1, twice((800, 900)), of=3)).confidence == "low"


def test_many_calls_with_one_late_rank_are_sure():
    calls = [(at, at + 90) for at in range(10, 1000, 100)]
    first = rank(0, twice(*calls))
    assert late(first, rank(1, twice(*((start + 60, end) for start, end in calls)))).confidence == "high"


def test_a_first_collective_that_waits_for_another_profiler_makes_no_straggler():
    calls = [(100 * i, 100 * i + 2) for i in range(10, 15)]
    first = rank(0, [all_reduce(0, 900), *(all_reduce(*call) for call in calls)])
    later = {"baseTimeNanoseconds": 1_700_000_000_000_800_000}
    second = rank(1, [all_reduce(start - 800, end - 800) for start, end in [(890, 900), *calls]], **later)
    found: Ranks = ranks(first, second)
    assert (found.findings, found.late, found.spinning_ns) == ((), None, 890_000)


def test_a_rank_that_is_late_to_the_first_collective_it_recorded_is_late():
    calls = [(100 * i, 100 * i + 2) for i in range(10, 15)]
    first, second = (rank(i, [all_reduce(*call) for call in [(at, 900), *calls]]) for i, at in ((0, 10), (1, 890)))
    assert late(first, second).saving_ns == 440_000


def test_on_a_cpu_run_operators_tell_what_the_late_rank_does():
    def of(number: int, at: float, *ops: Event) -> Trace:
        calls = [annotation("gloo:all_reduce", start + at, start + 900) for start in (0, 1000)]
        return make_trace(loop([1000, 1000]), calls, list(ops), distributedInfo={"rank": number, "world_size": 2})

    working = [op("aten::mm", start + 100, start + 800) for start in (0, 1000)]
    assert (late(of(0, 100), of(1, 800)).bound, late(of(0, 100), of(1, 800, *working)).bound) == ("host", "compute")


def test_the_report_on_a_rank_that_waits_is_about_the_one_that_is_late():
    found = report(EARLY, LATE)
    assert (found.verdict.tag, found.verdict.bound, found.verdict.top) == ("Straggler", "compute", "straggler")
    assert found.verdict.sentence.values == {"rank": "1", "saving_share": pytest.approx(0.7)}
    assert "exposed_communication" not in [finding.id for finding in found.findings]


def test_what_a_rank_waits_is_no_communication_that_could_be_hidden():
    def of(number: int, at: float) -> Trace:
        events = [kernel("gemm", 0, at), all_reduce(at, 900)]
        return make_trace([step(1, 0, 1000)], events, distributedInfo={"rank": number, "world_size": 2})

    shown = [{f.id: (f.saving_ns, f.high_ns) for f in report(of(0, 100), of(1, 400), shown=shown).findings} for shown in (0, 1)]
    assert shown[0] == shown[1] == {"straggler": (300_000, 300_000), "exposed_communication": (250_000, 500_000)}


def test_ranks_without_collectives_have_no_straggler():
    assert not ranks(*(make_trace([step(1, 0, 100)], [kernel("gemm", 0, 50)]) for _ in range(2))).findings


def one_step(number: int, at: float, *, of: int = 2) -> Trace:
    """Computes up to a collective that ends at 900."""
    events = [kernel("gemm", 0, at), all_reduce(at, 900)]
    return make_trace([step(1, 0, 1000)], events, distributedInfo={"rank": number, "world_size": of})


def test_each_rank_speaks_of_the_others_and_not_only_the_one_that_is_shown():
    told = report(EARLY, LATE, shown=1).ranks
    assert [(one.verdict.tag, one.verdict.top) for one in told] == [("Straggler", "straggler")] * 2
    assert [measures_of(one)["saving_upper_bound_us"] for one in told] == [700, 700]


def test_what_each_rank_waits_is_its_own():
    found = report(*(one_step(i, at, of=3) for i, at in enumerate((100, 800, 600)))).ranks
    waits = [f.problem.values["waits_ns"] for one in found for f in one.findings if f.id == "exposed_communication"]
    assert waits == [700_000, 0, 200_000]


def test_where_all_ranks_are_there_nothing_is_said_of_one_alone():
    (found,) = (f for f in report(one_step(0, 100), one_step(1, 400)).findings if f.id == "exposed_communication")
    said = plain(sentence(found.problem))
    assert "one rank alone" not in said
    assert said.endswith("of that it waits 300 us a step for other ranks, which is not counted.")
    assert "Look at all ranks" not in found.advice.template
    assert found.assumes[0] == "a part of it can run beside computing"


def test_where_ranks_cannot_be_matched_the_reason_is_told():
    both = one_step(0, 100), make_trace([step(1, 0, 1000)], [all_reduce(950, 960)], distributedInfo={"rank": 1, "world_size": 2})
    (found,) = (f for f in report(*both).findings if f.id == "exposed_communication")
    assert "cannot be told: collectives, matched by their order, do not run at the same time" in sentence(found.problem)


def test_without_lateness_the_most_that_can_go_is_all_of_the_communication():
    """Both ranks wait 200 of 1,000 for each other."""
    turns = rank(0, twice((100, 400), (700, 900))), rank(1, twice((300, 400), (500, 900)))
    alone, told = report_on(turns[0]), report(*turns)
    (before, after) = (f for one in (alone, told) for f in one.findings if f.id == "exposed_communication")
    assert (before.saving_ns - after.saving_ns, before.high_ns - after.high_ns) == (100_000, 0)  # half is expected to go


def test_changes_at_once_are_not_told_where_one_of_them_is_another_ranks():
    first = report(one_step(0, 100))
    joint = Together(("exposed_communication", "x"), 1, 1, 1, 1, 1)
    assert of_these([joint], [replace(first.findings[0], saving_ns=1.0)], first.findings) == ()
