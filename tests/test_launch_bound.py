from make_trace import annotation, host, kernel, launch, make_trace, op, step

from longpole.analyze.advice.launch_bound import launch_bound


def test_many_tiny_kernels_with_gaps_before_them_are_launch_bound():
    (found,) = launch_bound(make_trace(*tiny(50)))
    assert (found.id, found.changes, found.bound) == ("launch_bound", ("graph",), "launch")
    assert {e.name: e.value for e in found.evidence} == {
        "gaps_count": 50,
        "gap_ns": 398_000,
        "kernel_ns": 2_000,
        "median_ns": 8_000,
    }
    assert all(word in found.advice.template for word in ("torch.compile", "CUDA graphs", "larger batch"))


def test_compiled_code_needs_only_another_mode():
    calls, work = tiny(50)
    (found,) = launch_bound(make_trace([*calls, op("Torch-Compiled Region: 0/0", 0, 500)], work))
    assert found.advice.template.startswith('Pass mode="reduce-overhead" to torch.compile')


def test_recording_stacks_slows_the_host_and_lowers_the_confidence():
    slow, plain = (next(launch_bound(make_trace(*tiny(50), **fields))) for fields in ({"with_stack": 1}, {}))
    assert (slow.best_confidence, plain.best_confidence) == ("low", "medium")
    assert slow.problem.template.endswith("without that the gaps are shorter.")


def test_few_gaps_are_a_few_slow_operators():
    assert list(launch_bound(make_trace(*tiny(10))))
    assert not list(launch_bound(make_trace(*tiny(9))))


def test_kernels_launched_long_before_they_run_wait_for_the_gpu():
    calls = [launch(k + 1, 2 * k, 2 * k + 1) for k in range(50)]
    assert not list(
        launch_bound(make_trace(calls, [kernel("k", 200 + 10 * k, 202 + 10 * k, correlation=k + 1) for k in range(50)]))
    )


def test_long_kernels_leave_time_to_launch_the_next():
    calls = [launch(k + 1, 100 * k, 100 * k + 5) for k in range(50)]
    assert not list(
        launch_bound(make_trace(calls, [kernel("k", 100 * k + 8, 100 * k + 60, correlation=k + 1) for k in range(50)]))
    )


def test_long_gaps_have_another_cause():
    calls = [launch(k + 1, 300 * k, 300 * k + 5) for k in range(50)]
    assert not list(
        launch_bound(make_trace(calls, [kernel("k", 300 * k + 8, 300 * k + 10, correlation=k + 1) for k in range(50)]))
    )


def test_gaps_after_waits_during_loading_or_by_the_profiler_have_that_cause():
    calls, work = tiny(50)
    waits = [host("cuda_runtime", "cudaStreamSynchronize", 10 * k + 9, 10 * k + 10) for k in range(50)]
    assert not list(launch_bound(make_trace([*calls, *waits], work)))
    assert not list(launch_bound(make_trace([*calls, annotation("enumerate(DataLoader)#_X.__next__", 0, 500)], work)))
    assert not list(launch_bound(make_trace([*calls, host("overhead", "Buffer Flush", 0, 500)], work)))


def test_kernels_of_a_graph_are_launched_together():
    call = launch(1, 0, 5, name="cudaGraphLaunch")
    assert not list(launch_bound(make_trace([call], [kernel("k", 10 * k + 8, 10 * k + 10, correlation=1) for k in range(50)])))


def test_without_gpu_work_or_with_missing_work_nothing_can_be_told():
    calls, work = tiny(50)
    assert not list(launch_bound(make_trace([step(1, 0, 100), op("aten::mm", 0, 90)])))
    assert not list(launch_bound(make_trace(calls, work[:-1])))


def tiny(count):
    """A kernel of 2 µs every 10 µs, each launched when the one before it is done."""
    calls = [launch(k + 1, 10 * k, 10 * k + 5) for k in range(count)]
    return [step(1, 0, 10 * count), *calls], [kernel("k", 10 * k + 6, 10 * k + 8, correlation=k + 1) for k in range(count)]
