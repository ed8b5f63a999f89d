from make_trace import annotation, host, kernel, loop, make_trace, op

from longpole.analyze.advice.first_step import first_step


def test_a_first_step_that_takes_longer_than_the_others_is_worth_knowing():
    (found,) = first_step(slow_first())
    assert (found.id, found.changes, found.saving) == ("first_step", (), None)
    assert found.problem.values == {"first_ns": 500_000, "median_ns": 100_000}


def test_what_happens_in_it_is_named():
    compiles = annotation("entire_frame_compile (dynamo_timed)", 10, 300)
    asks = [host("cuda_runtime", "cudaMalloc", 300 + 20 * k, 310 + 20 * k) for k in range(4)]
    (found,) = first_step(slow_first(compiles, *asks))
    assert found.problem.values["causes"] == "torch.compile compiles and the allocator asks for memory"


def test_a_collective_that_waits_for_other_profilers_is_named():
    (found,) = first_step(slow_first(work=kernel("ncclDevKernel_AllReduce", 100, 480)))
    assert found.problem.values["causes"].startswith("a collective waits for other ranks")


def test_calls_that_take_little_explain_nothing():
    (found,) = first_step(slow_first(host("cuda_runtime", "cudaMalloc", 10, 49)))
    assert "causes" not in found.problem.values


def test_a_first_step_like_the_others_is_not_worth_a_word():
    assert not list(first_step(run([150, 100, 100, 100])))
    assert not list(first_step(run([50, 100, 100, 100])))


def test_where_steps_vary_anyway_the_first_is_not_special():
    assert not list(first_step(run([500, 100, 300, 100])))


def test_two_steps_are_too_few_and_cpu_runs_have_their_own_sections():
    assert not list(first_step(run([500, 100])))
    assert not list(first_step(make_trace(loop([500, 100, 100], lambda start, end: [op("aten::mm", start, end)]))))


def slow_first(*events, work=None):
    return run([500, 100, 100, 100], *events, work=work)


def run(durations, *events, work=None):
    calls = loop(durations, lambda start, end: [op("aten::mm", start, start + 10)])
    return make_trace([*calls, *events], [work or kernel("k", 1, 2)])
