import math

import pytest
from make_trace import Event, kernel, make_trace, memcpy, op, step

from longpole.analyze.analyses.copies import copies
from longpole.capture.errors import MissingData

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
STEP = [step(1, 0, 100)]


def copy(name: str, start: float, end: float, size: int | None = None, device: int = 0) -> Event:
    return memcpy(name, start, end, device=device, **({} if size is None else {"bytes": size}))


def test_copies_are_summed_by_name_the_most_time_first():
    work = [copy(PINNED, 0, 10, 40_000), copy(PAGEABLE, 10, 40, 30_000), copy(PINNED, 40, 50, 60_000), kernel("k", 0, 90)]
    found = copies(make_trace(STEP, work))
    assert found.rows.to_dict("records") == [
        {"name": PAGEABLE, "count": 1, "size_bytes": 30_000, "total_ns": 30_000, "speed_gbps": 1.0, "unsized_count": 0},
        {"name": PINNED, "count": 2, "size_bytes": 100_000, "total_ns": 20_000, "speed_gbps": 5.0, "unsized_count": 0},
    ]  # fmt: skip


def test_pageable_copies_are_held_against_the_pinned_speed_of_the_same_trace():
    found = copies(
        make_trace(STEP, [copy(PAGEABLE, 0, 20, 40_000), copy(PAGEABLE, 20, 40, 40_000), copy(PINNED, 40, 50, 80_000)])
    )
    assert found.measures == {
        "pageable_h2d_count": 2, "pageable_h2d_ns": 40_000, "pageable_h2d_bytes": 80_000, "pageable_h2d_gbps": 2.0,
        "pinned_h2d_gbps": 8.0, "pageable_at_pinned_speed_ns": 10_000, "memcpy_bandwidth_gbps_over_nonzero": pytest.approx(3.2),
    }  # fmt: skip
    assert found.costly
    assert found.most_saved_ns == 30_000


def test_without_a_pinned_copy_there_is_no_speed_to_compare_with():
    found = copies(make_trace(STEP, [copy(PAGEABLE, 0, 20, 40_000)]))
    assert set(found.measures) == {
        "pageable_h2d_count", "pageable_h2d_ns", "pageable_h2d_bytes", "pageable_h2d_gbps", "memcpy_bandwidth_gbps_over_nonzero",
    }  # fmt: skip
    assert found.withheld == {}
    assert math.isnan(found.most_saved_ns)


def test_pageable_copies_below_a_hundredth_of_the_recording_are_not_worth_a_change():
    assert not copies(make_trace([step(1, 0, 1000)], [copy(PAGEABLE, 0, 9, 40)])).costly
    assert copies(make_trace([step(1, 0, 1000)], [copy(PAGEABLE, 0, 10, 40)])).costly


def test_copies_back_and_copies_between_devices_are_not_to_the_gpu():
    names = ["Memcpy DtoH (Device -> Pageable)", "Memcpy DtoD (Device -> Device)", "Memcpy PtoP (Device -> Device)"]
    found = copies(make_trace(STEP, [copy(name, 0, 10, 10) for name in names]))
    assert (found.measures["pageable_h2d_count"], found.untold_count, found.costly) == (0, 0, False)
    assert len(found.rows) == 3


def test_a_copy_that_takes_no_time_has_bytes_but_no_speed():
    found = copies(make_trace(STEP, [copy(PAGEABLE, 10, 10, 200), copy(PAGEABLE, 20, 30, 80_000)]))
    assert found.measures["pageable_h2d_bytes"] == 80_200
    assert found.measures["memcpy_bandwidth_gbps_over_nonzero"] == 8.0


def test_copies_without_a_size_withhold_the_bytes_and_leave_the_speed_of_the_others():
    found = copies(make_trace(STEP, [copy(PAGEABLE, 0, 10), copy(PAGEABLE, 10, 20, 50_000), copy(PINNED, 20, 30, 100_000)]))
    assert found.withheld == dict.fromkeys(
        ("pageable_h2d_bytes", "pageable_at_pinned_speed_ns"), "copies from pageable memory without a size: 1 of 2"
    )
    assert found.measures["pageable_h2d_gbps"] == 5.0
    assert found.rows["unsized_count"].tolist() == [1, 0]
    assert math.isnan(found.most_saved_ns)


@pytest.mark.parametrize("name", ["Memcpy HtoD (Host -> Device)", "CopyHostToDevice", "Memcpy M2D (MEMORY(Unknown) -> DEVICE)"])
def test_where_no_copy_tells_its_memory_none_is_counted_as_pageable(name: str):
    found = copies(make_trace(STEP, [copy(name, 0, 10, 1000)]))
    reason = "copies to the GPU that do not say which kind of host memory they read: 1"
    assert found.withheld == dict.fromkeys(("pageable_h2d_count", "pageable_h2d_ns", "pageable_h2d_bytes"), reason)
    assert found.measures == {"memcpy_bandwidth_gbps_over_nonzero": 0.1}


def test_beside_copies_that_tell_their_memory_the_others_are_counted_apart():
    work = [copy(PAGEABLE, 0, 10, 1000), copy("Memcpy HtoD (Unknown -> Device)", 10, 20, 1000)]
    found = copies(make_trace(STEP, [*work, copy("Memcpy HtoD (Managed -> Device)", 20, 30, 1000)]))
    assert (found.measures["pageable_h2d_count"], found.untold_count, found.withheld) == (1, 1, {})


def test_each_device_has_its_own_figures():
    found = copies(make_trace(STEP, [copy(PAGEABLE, 0, 10, 10_000), copy(PINNED, 10, 20, 40_000, device=1)]))
    assert found.measures["pageable_h2d_count"] == {0: 1, 1: 0}
    assert found.measures["pinned_h2d_gbps"] == {1: 4.0}
    assert found.total["pageable_at_pinned_speed_ns"] == 2500


def test_a_gpu_run_without_copies_says_so():
    with pytest.raises(MissingData, match=r"from a GPU\.$"):
        copies(make_trace(STEP, [kernel("k", 0, 10)]))


def test_a_cpu_run_has_no_copies():
    with pytest.raises(MissingData, match="CUDA activity"):
        copies(make_trace([op("a", 0, 10)]))
