import pytest
from replay_trace import waiting_trace

from longpole.analyze.findings import Text
from longpole.analyze.proposals import Proposal, Saving
from longpole.analyze.replayed import finding, replayed, together


def proposal(id: str, *changes: str, **more: object) -> Proposal:
    words = Text(id)
    return Proposal(id, words, words, words, "compute", "forward", (), changes=changes, **more)  # type: ignore[arg-type]


def test_a_removal_saves_what_its_replay_says():
    (found,) = replayed(waiting_trace(), [proposal("half", "kernel:gemm x0.5", least_share=1.0)], None)
    made = finding(found)
    assert (made.low_ns, made.saving_ns, made.high_ns, made.confidence) == (20_000, 20_000, 20_000, "high")
    assert (made.changes, made.assumes) == (("kernel:gemm x0.5",), ())


def test_of_a_replacement_a_part_is_expected_and_confidence_is_medium():
    (found,) = replayed(waiting_trace(), [proposal("part", "kernel:gemm x0.5", expected_share=0.25, assumes="it fits")], None)
    made = finding(found)
    assert (made.low_ns, made.saving_ns, made.high_ns, made.confidence) == (0, 5_000, 20_000, "medium")
    assert made.assumes == ("it fits",)


def test_a_proposal_that_knows_its_saving_is_not_replayed():
    (found,) = replayed(waiting_trace(), [proposal("known", saving=Saving(1, 2, 3))], None)
    assert (finding(found).low_ns, finding(found).saving_ns, finding(found).high_ns) == (1, 2, 3)


def test_without_a_saving_it_is_worth_knowing():
    (found,) = replayed(waiting_trace(), [proposal("note")], None)
    assert not finding(found).saves


def test_a_change_that_finds_nothing_in_the_trace_saves_nothing_and_says_why():
    (found,) = replayed(waiting_trace(), [proposal("lost", "kernel:conv x0.5")], None)
    made = finding(found)
    assert (made.saves, len(made.assumes)) == (False, 1)
    assert "conv" in made.assumes[0]


def test_several_at_once_come_from_one_replay_and_are_no_sum():
    trace = waiting_trace()
    found = replayed(trace, [proposal("wait", "sync x0"), proposal("half", "kernel:gemm x0.5")], None)
    ranked = sorted((finding(one) for one in found), key=lambda f: -f.saving_ns)
    (both,) = together(trace, ranked, {one.proposal.id: one for one in found})
    assert both.ids == ("wait", "half")
    assert [f.saving_ns for f in ranked] == [22_500, 20_000]
    assert (both.step_ns, both.after_ns) == (100_000, 57_500)  # the GPU's 20 + 35 µs, and 10 of the first launches in four steps


def test_what_both_make_faster_is_not_made_faster_twice():
    trace = waiting_trace()
    found = replayed(trace, [proposal("half", "kernel:gemm x0.5"), proposal("most", "kernel:some_gemm x0.75")], None)
    ranked = [finding(one) for one in found]
    (both,) = together(trace, ranked, {one.proposal.id: one for one in found})
    assert both.after_ns == 80_000


def test_without_the_profiler_the_host_is_faster_and_the_device_is_not():
    (found,) = replayed(waiting_trace(), [proposal("half", "kernel:gemm x0.5")], 2.0)
    assert found.unprofiled_ns == pytest.approx(20_000)
    (found,) = replayed(waiting_trace(), [proposal("host", "host x0.5")], 2.0)
    assert found.unprofiled_ns == pytest.approx(0)  # the host is at half already


def test_shares_out_of_order_are_refused():
    with pytest.raises(ValueError, match="out of order"):
        proposal("odd", "sync x0", expected_share=0.2, least_share=0.5)
    with pytest.raises(ValueError, match="both"):
        proposal("odd", "sync x0", saving=Saving(1, 2, 3))
