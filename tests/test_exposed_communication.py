from make_trace import kernel, loop, make_trace, step

from longpole.analyze.advice.exposed_communication import exposed_communication

REDUCE, GATHER, EXCHANGE = (f"ncclDevKernel_{kind}_RING_LL(Args)" for kind in ("AllReduce_Sum_f32", "AllGather", "SendRecv"))


def test_what_no_kernel_computes_beside_could_be_hidden():
    (found,) = exposed_communication(make_trace([step(1, 0, 100)], [kernel("gemm", 0, 50), kernel(REDUCE, 40, 60, stream=8)]))
    assert (found.changes, found.best_confidence) == (("comm x0",), "low")
    assert (found.problem.values["exposed_ns"], found.problem.values["exposed_share"]) == (10_000, 0.1)
    assert "bucket_cap_mb" in found.advice.template


def test_the_advice_is_that_of_the_kind_that_is_exposed_most():
    for name, word in ((GATHER, "backward_prefetch"), (EXCHANGE, "TrainPipelineSparseDist")):
        (found,) = exposed_communication(make_trace([step(1, 0, 100)], [kernel(name, 0, 20), kernel(REDUCE, 30, 40)]))
        assert word in found.advice.template


def test_communication_under_computing_is_as_it_should_be():
    assert not list(
        exposed_communication(make_trace([step(1, 0, 100)], [kernel("gemm", 0, 50), kernel(REDUCE, 10, 30, stream=8)]))
    )


def test_one_percent_of_the_recording_is_left_alone():
    assert not list(exposed_communication(make_trace([step(1, 0, 100)], [kernel(REDUCE, 0, 1), kernel("gemm", 1, 90)])))


def test_a_run_without_collectives_gets_no_advice():
    assert not list(exposed_communication(make_trace([step(1, 0, 100)], [kernel("gemm", 0, 50)])))


def test_a_first_collective_that_waits_for_another_profiler_is_no_communication():
    spin, others = kernel(REDUCE, 0, 9000), [kernel(REDUCE, 9000 + 100 * i, 9010 + 100 * i) for i in range(1, 8)]
    assert not list(exposed_communication(make_trace(loop([9000, 1000]), [spin, *others])))
    longer = [kernel(REDUCE, 9000 + 100 * i, 9090 + 100 * i) for i in range(1, 9)]
    (found,) = exposed_communication(make_trace(loop([9000, 1000]), [spin, *longer]))
    assert found.saving is not None
    assert (found.changes, found.saving.high_ns) == ((), 360_000)  # 8 x 90 us in 2 steps
