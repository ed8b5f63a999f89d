from make_trace import annotation, frame, host, kernel, launch, loop, make_trace, memcpy, op, step

from longpole.analyze.advice.host_syncs import host_syncs

BACK, THERE = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"


def test_a_number_that_is_read_in_each_step_lets_the_gpu_run_dry():
    (found,) = host_syncs(make_trace(*reading()))
    assert (found.id, found.changes) == ("host_syncs:reads", ("sync:aten::_local_scalar_dense x0",))
    assert {e.name: e.value for e in found.evidence} == {
        "waits_count": 2,
        "waited_ns": 116_000,
        "filled_ns": 34_000,
        "worst_ns": 34_000,
    }
    assert (found.evidence[-1].start_ns, found.evidence[-1].end_ns) == (22_000, 81_000)
    assert ".item()" in found.advice.template


def test_the_line_that_reads_is_named():
    calls, work = reading()
    (found,) = host_syncs(make_trace([*calls, frame("train.py(12): step", 1, 199)], work))
    assert found.problem.values["line"] == "train.py(12): step"


def test_a_wait_for_a_gpu_that_has_more_to_do_costs_nothing():
    calls, work = reading()
    assert not list(host_syncs(make_trace(calls, [*work, kernel("other", 0, 200, stream=8)])))


def test_a_wait_that_finds_the_gpu_idle_costs_nothing():
    calls = [step(1, 0, 500), launch(1, 5, 10), wait(100, 103), launch(2, 400, 405)]
    assert not list(host_syncs(make_trace(calls, [kernel("k", 11, 50, correlation=1), kernel("k", 406, 450, correlation=2)])))


def test_the_wait_at_the_end_of_the_recording_is_of_the_profiler():
    calls = [step(1, 0, 100), launch(1, 5, 10), wait(20, 90, "cudaDeviceSynchronize")]
    assert not list(host_syncs(make_trace(calls, [kernel("k", 11, 90, correlation=1)])))


def test_a_wait_before_all_launches_is_of_the_profiler():
    calls = [step(1, 0, 400), wait(1, 90, "cudaDeviceSynchronize"), launch(2, 200, 205)]
    assert not list(host_syncs(make_trace(calls, [kernel("before", 0, 90), kernel("k", 210, 390, correlation=2)])))


def test_waits_between_steps_are_not_of_the_loop():
    calls = [step(1, 0, 20), launch(1, 5, 10), wait(25, 90, "cudaDeviceSynchronize"), step(2, 150, 300), launch(2, 160, 165)]
    assert not list(host_syncs(make_trace(calls, [kernel("k", 11, 90, correlation=1), kernel("k", 166, 290, correlation=2)])))


def test_an_explicit_synchronisation_in_the_loop_is_told_by_its_call():
    calls = [step(1, 0, 300), launch(1, 5, 10), wait(15, 91, "cudaDeviceSynchronize"), launch(2, 160, 165)]
    (found,) = host_syncs(make_trace(calls, [kernel("k", 11, 90, correlation=1), kernel("k", 166, 290, correlation=2)]))
    assert (found.id, found.changes) == ("host_syncs:explicit", ("sync:cudaDeviceSynchronize x0",))


def test_boolean_masks_are_told_apart_from_reads():
    (found,) = host_syncs(make_trace(*reading("aten::nonzero")))
    assert found.id == "host_syncs:masks"


def test_copies_that_wait_are_told_apart_by_their_direction():
    (back,), (there,) = (host_syncs(make_trace(*reading("aten::copy_", name))) for name in (BACK, THERE))
    assert (back.id, there.id) == ("host_syncs:copies_back", "host_syncs:copies_to_gpu")
    assert back.changes == there.changes == ("sync:aten::copy_ x0",)


def test_kinds_that_only_help_together_are_one_proposal():
    """Two waits for the same work: without one of them the host waits at the other."""
    calls = [
        step(1, 0, 700), launch(1, 0, 4),
        op("aten::item", 10, 200), wait(11, 200), launch(2, 201, 203),
        op("aten::nonzero", 204, 260), wait(205, 260), launch(3, 600, 605),
    ]  # fmt: skip
    work = [(1, 5, 200), (2, 203, 260), (3, 606, 700)]
    (found,) = host_syncs(make_trace(calls, [kernel("k", a, b, correlation=c) for c, a, b in work]))
    assert (found.id, found.changes) == ("host_syncs", ("sync:aten::item x0", "sync:aten::nonzero x0"))


def test_without_a_gpu_or_waits_there_is_nothing_to_say():
    assert not list(host_syncs(make_trace([step(1, 0, 100), op("aten::item", 0, 50)])))
    assert not list(host_syncs(make_trace([step(1, 0, 100), launch(1, 0, 5)], [kernel("k", 6, 20, correlation=1)])))


def test_missing_work_leaves_waits_untold():
    calls, work = reading()
    assert not list(host_syncs(make_trace([*calls, launch(99, 190, 192), annotation("x", 0, 1)], work)))


def wait(start, end, name="cudaStreamSynchronize"):
    return host("cuda_runtime", name, start, end)


def reading(name="aten::_local_scalar_dense", copy=BACK):
    """Two steps of 100 µs: a kernel from 15 to 78, a copy to 80, a read until 81; the next kernel starts 34 µs after that."""

    def one(start, end):
        number = int(start)
        return [
            launch(number + 1, start + 10, start + 14), op(name, start + 20, start + 81),
            launch(number + 2, start + 20, start + 22, name="cudaMemcpyAsync"), wait(start + 22, start + 81),
        ]  # fmt: skip

    work = []
    for start in (0, 100):
        work.append(kernel("k", start + 15, start + 78, correlation=start + 1))
        work.append(memcpy(copy, start + 78, start + 80, correlation=start + 2))
    return loop([100, 100], one), work
