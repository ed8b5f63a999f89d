import pytest
from make_trace import annotation, kernel, launch, loop, make_bundle, make_trace, op, step

from longpole.analyze.advice.input_pipeline import input_pipeline

ALONE, SPREAD = (
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
)


def test_loading_without_workers_is_to_run_beside_the_step():
    (found,) = input_pipeline(make_trace(*waiting(ALONE)))
    assert (found.id, found.changes, found.bound) == ("input_pipeline", ("data x0",), "input_pipeline")
    assert found.expected_share == pytest.approx(4 / 6)  # one worker: 6 for a batch, beside the 4 of the rest
    assert {e.name: e.value for e in found.evidence} == {
        "idle_ns": 18_000_000,
        "loading_ns": 6_000_000,
        "rest_ns": 4_000_000,
        "longest_ns": 6_000_000,
    }
    assert "num_workers={workers_count}" in found.advice.template
    assert found.advice.values["workers_count"] == 1
    assert "if the machine has a free core" in found.advice.template


def test_workers_that_are_too_slow_do_not_get_company_where_cores_are_not_known_to_be_free():
    (found,) = input_pipeline(make_trace(*waiting(SPREAD)))
    assert (found.title.template, found.best_confidence) == ("Make batches cheaper to load", "low")
    assert "num_workers" not in found.advice.template


def test_more_workers_where_the_recorder_knows_of_free_cores():
    (found,) = input_pipeline(recorded(SPREAD, cores=8, workers=2))
    assert found.advice.values == {"now_count": 2, "workers_count": 5}  # 2 make a batch in 10, 5 in 4
    assert found.expected_share == pytest.approx((10 - 4.7) / 6)  # 0.7 for the way between processes


def test_only_as_many_workers_as_there_are_free_cores():
    (found,) = input_pipeline(recorded(SPREAD, cores=4, workers=2))
    assert found.advice.values == {"now_count": 2, "workers_count": 3}
    assert found.expected_share == pytest.approx((10 - 10 * 2 / 3) / 6)


def test_no_workers_where_all_cores_are_taken():
    for name, workers in ((SPREAD, 3), (ALONE, 0)):
        (found,) = input_pipeline(recorded(name, cores=max(1, workers), workers=workers))
        assert found.title.template == "Make batches cheaper to load"
        assert "No core of the machine is free" in found.advice.template


def test_other_ranks_may_need_the_cores():
    (found,) = input_pipeline(recorded(SPREAD, cores=8, workers=2, world_size=2))
    assert found.title.template == "Make batches cheaper to load"


def test_every_fourth_batch_late_is_told():
    waits = [40_000 if number % 4 == 0 else 200 for number in range(16)]
    (found,) = input_pipeline(make_trace(*waiting(SPREAD, waits)))
    assert {key: found.problem.values[key] for key in ("late_count", "batches_count", "distance_count")} == {
        "late_count": 4, "batches_count": 16, "distance_count": 4,
    }  # fmt: skip


def test_where_the_way_from_a_worker_takes_as_long_as_loading_batches_are_to_be_cheaper():
    (found,) = input_pipeline(make_trace(*waiting(ALONE, [600, 600, 600])))
    assert (found.title.template, found.expected_share) == ("Make batches cheaper to load", 0.5)
    assert found.advice.template.startswith("With num_workers a batch's way from its worker")


def test_no_more_goes_than_the_gpu_idles():
    """Of the 6 ms that a batch takes the GPU idles 2, but for the first; one worker leaves 6 of the 10 ms of a step."""
    starts = (0, 10_000, 20_000)

    def one(start, end):
        return [annotation(ALONE, start, start + 6000), launch(int(end), start + 6000, start + 6005)]

    work = [kernel("k", start + 6000, start + 14_000, correlation=start + 10_000) for start in starts]
    (found,) = input_pipeline(make_trace(loop([10_000] * 3, one), work))
    assert found.expected_share == 1


def test_single_late_batches_are_told_apart():
    waits = [40_000 if number in (2, 3, 11) else 200 for number in range(16)]
    (found,) = input_pipeline(make_trace(*waiting(SPREAD, waits)))
    assert found.problem.values["late_count"] == 3
    assert "distance_count" not in found.problem.values


def test_a_phase_of_the_users_own_is_loading_too():
    (found,) = input_pipeline(make_trace(*waiting("longpole.phase#data_loading")))
    assert found.title.template == "Make the next batch while the GPU works"


def test_loading_beside_a_busy_gpu_costs_nothing():
    calls, work = waiting(ALONE)
    assert not list(input_pipeline(make_trace(calls, [*work, kernel("other", 0, 30_000, stream=8)])))


def test_loading_by_another_thread_holds_nobody():
    calls, work = waiting("input")
    elsewhere = annotation(ALONE, 0, 30_000, tid=2)
    assert not list(input_pipeline(make_trace([*calls, elsewhere], work)))


def test_below_a_hundredth_of_the_recording_it_is_not_worth_a_change():
    assert not list(input_pipeline(make_trace(*waiting(ALONE, [30, 30, 30]))))
    assert list(input_pipeline(make_trace(*waiting(ALONE, [50, 50, 50]))))


def test_without_a_gpu_or_loading_there_is_nothing_to_say():
    assert not list(input_pipeline(make_trace([step(1, 0, 100), annotation(ALONE, 0, 50), op("aten::mm", 50, 100)])))
    assert not list(input_pipeline(make_trace([step(1, 0, 100), launch(1, 0, 5)], [kernel("k", 6, 20, correlation=1)])))


def waiting(name, waits=(6000, 6000, 6000)):
    """Steps that fetch a batch and then take 4 ms, nearly all of it on the GPU."""
    starts = [sum(waits[:k]) + 4000 * k for k in range(len(waits))]

    def one(start, end):
        return [annotation(name, start, end - 4000), launch(int(end), end - 4000, end - 3995)]

    work = [kernel("k", s + w + 5, s + w + 3995, correlation=int(s + w + 4000)) for s, w in zip(starts, waits, strict=True)]
    return loop([wait + 4000 for wait in waits], one), work


def recorded(name, cores, workers, **fields):
    """The process itself keeps one core busy."""
    options = {"loader_workers": workers, "unprofiled_cpu_ns": 1_000_000}
    machine = {"cpu_usable_count": cores}
    return make_bundle(*waiting(name), machine=machine, options=options, unprofiled_step_ns=(1_000_000,), **fields)


def test_of_several_gpus_the_one_that_idles_most_is_named():
    calls, work = waiting(ALONE)
    (found,) = input_pipeline(make_trace(calls, work, [kernel("other", 0, 25_000, device=1)]))
    assert (found.problem.values["gpu"], found.problem.values["idle_ns"]) == ("GPU 0", 18_000_000)


def test_loading_before_the_marks_of_steps_counts_for_them():
    calls, work = waiting(ALONE)
    marks = [step(number, 10_000 * number + 6_000, 10_000 * number + 10_000) for number in range(3)]
    (found,) = input_pipeline(make_trace([c for c in calls if not c["name"].startswith("ProfilerStep")], marks, work))
    values = {e.name: e.value for e in found.evidence}
    assert (values["loading_ns"], values["rest_ns"]) == (4_000_000, 4_000_000)  # 6 ms before each step but the first
