from make_trace import host, kernel, launch, make_bundle, make_trace, op, step

from longpole.analyze.advice.profiler_overhead import profiler_overhead


def test_launches_that_the_profiler_slows_down_are_told():
    (found,) = profiler_overhead(flushing(900))
    assert (found.id, found.changes, found.saving) == ("profiler_overhead", (), None)
    assert {e.name: e.value for e in found.evidence} == {"overhead_ns": 900_000, "inside_ns": 900_000, "overlapped_count": 1}


def test_a_little_overhead_is_usual():
    assert not list(profiler_overhead(flushing(40)))


def test_steps_far_slower_than_without_the_profiler_are_told():
    (found,) = profiler_overhead(recorded(unprofiled_us=50))
    assert found.problem.values == {"slow_ratio": 2}


def test_a_step_of_less_than_one_and_a_half_times_is_usual():
    assert list(profiler_overhead(recorded(unprofiled_us=66)))
    assert not list(profiler_overhead(recorded(unprofiled_us=67)))


def test_options_that_cost_are_named():
    events = [step(1, 0, 2000), launch(1, 50, 960), host("overhead", "Buffer Flush", 55, 955)]
    (found,) = profiler_overhead(make_trace(events, [kernel("k", 970, 980, correlation=1)], with_stack=1, profile_memory=1))
    assert found.advice.template.startswith("Record without with_stack and profile_memory")


def test_without_either_there_is_nothing_to_say():
    assert not list(profiler_overhead(make_trace([step(1, 0, 100), op("aten::mm", 0, 50)])))


def flushing(overhead_us):
    """A launch of which the profiler's work is all but 10 µs, in 2 ms."""
    events = [step(1, 0, 2000), launch(1, 50, 60 + overhead_us), host("overhead", "Buffer Flush", 55, 55 + overhead_us)]
    return make_trace(events, [kernel("k", 1500, 1600, correlation=1)])


def recorded(unprofiled_us):
    return make_bundle([step(1, 0, 100), op("aten::mm", 0, 90)], unprofiled_step_ns=(1000 * unprofiled_us,))
