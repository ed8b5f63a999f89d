from make_trace import kernel, make_trace, memcpy, step

from longpole.analyze.advice.pageable_copies import pageable_copies

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"


def test_copies_from_pageable_memory_are_to_be_as_fast_as_the_pinned_ones():
    (found,) = pageable_copies(
        make_trace([step(1, 0, 100)], [memcpy(PAGEABLE, 0, 40, bytes=80_000), memcpy(PINNED, 50, 60, bytes=80_000)])
    )
    assert (found.id, found.changes) == ("pageable_copies", ("copy:h2d pinned",))
    assert {e.name: e.value for e in found.evidence} == {"copies_count": 1, "copies_ns": 40_000, "pinned_ns": 10_000}


def test_without_a_pinned_copy_their_whole_time_is_the_most_that_can_go():
    (found,) = pageable_copies(make_trace([step(1, 0, 100)], [memcpy(PAGEABLE, 0, 40, bytes=80_000)]))
    assert (found.changes, found.expected_share) == (("copy:pageable x0",), 0.5)


def test_pinned_copies_and_runs_without_copies_need_no_change():
    assert not list(pageable_copies(make_trace([step(1, 0, 100)], [memcpy(PINNED, 0, 40, bytes=80_000)])))
    assert not list(pageable_copies(make_trace([step(1, 0, 100)], [kernel("k", 0, 40)])))
