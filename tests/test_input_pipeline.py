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
    assert found.expected_share == pytest.approx(400 / 600)  # one worker: 600 for a batch, beside the 400 of the rest
    assert {e.name: e.value for e in found.evidence} == {
        "idle_ns": 1_800_000,
        "loading_ns": 600_000,
        "rest_ns": 400_000,
        "longest_ns": 600_000,
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
    assert found.advice.values == {"now_count": 2, "workers_count": 5}  # 2 make a batch in 1000, 5 in 400
    assert found.expected_share == 1


def test_only_as_many_workers_as_there_are_free_cores():
    (found,) = input_pipeline(recorded(SPREAD, cores=4, workers=2))
    assert found.advice.values == {"now_count": 2, "workers_count": 3}
    assert found.expected_share == pytest.approx((1000 - 1000 * 2 / 3) / 600)


def test_no_workers_where_all_cores_are_taken():
    for name, workers in ((SPREAD, 3), (ALONE, 0)):
        (found,) = input_pipeline(recorded(name, cores=max(1, workers), workers=workers))
        assert found.title.template == "Make batches cheaper to load"
        assert "No core of the machine is free" in found.advice.template


def test_other_ranks_may_need_the_cores():
    (found,) = input_pipeline(recorded(SPREAD, cores=8, workers=2, world_size=2))
    assert found.title.template == "Make batches cheaper to load"


def test_every_fourth_batch_late_is_told():
    waits = [4_000 if number % 4 == 0 else 20 for number in range(16)]
    (found,) = input_pipeline(make_trace(*waiting(SPREAD, waits)))
    assert {key: found.problem.values[key] for key in ("late_count", "batches_count", "distance_count")} == {
        "late_count": 4, "batches_count": 16, "distance_count": 4,
    }  # fmt: skip


def test_single_late_batches_are_told_apart():
    waits = [4_000 if number in (2, 3, 11) else 20 for number in range(16)]
    (found,) = input_pipeline(make_trace(*waiting(SPREAD, waits)))
    assert found.problem.values["late_count"] == 3
    assert "distance_count" not in found.problem.values


def test_a_phase_of_the_users_own_is_loading_too():
    (found,) = input_pipeline(make_trace(*waiting("longpole.phase#data_loading")))
    assert found.title.template == "Make the next batch while the GPU works"


def test_loading_beside_a_busy_gpu_costs_nothing():
    calls, work = waiting(ALONE)
    assert not list(input_pipeline(make_trace(calls, [*work, kernel("other", 0, 3000, stream=8)])))


def test_loading_by_another_thread_holds_nobody():
    calls, work = waiting("input")
    elsewhere = annotation(ALONE, 0, 3000, tid=2)
    assert not list(input_pipeline(make_trace([*calls, elsewhere], work)))


def test_below_a_hundredth_of_the_recording_it_is_not_worth_a_change():
    assert not list(input_pipeline(make_trace(*waiting(ALONE, [3, 3, 3]))))
    assert list(input_pipeline(make_trace(*waiting(ALONE, [5, 5, 5]))))


def test_without_a_gpu_or_loading_there_is_nothing_to_say():
    assert not list(input_pipeline(make_trace([step(1, 0, 100), annotation(ALONE, 0, 50), op("aten::mm", 50, 100)])))
    assert not list(input_pipeline(make_trace([step(1, 0, 100), launch(1, 0, 5)], [kernel("k", 6, 20, correlation=1)])))


def waiting(name, waits=(600, 600, 600)):
    """Steps that fetch a batch and then take 400 µs, 390 of them on the GPU."""
    starts = [sum(waits[:k]) + 400 * k for k in range(len(waits))]

    def one(start, end):
        return [annotation(name, start, end - 400), launch(int(end), end - 400, end - 395)]

    work = [kernel("k", s + w + 5, s + w + 395, correlation=int(s + w + 400)) for s, w in zip(starts, waits, strict=True)]
    return loop([wait + 400 for wait in waits], one), work


def recorded(name, cores, workers, **fields):
    """The process itself keeps one core busy."""
    options = {"loader_workers": workers, "unprofiled_cpu_ns": 1_000_000}
    machine = {"cpu_usable_count": cores}
    return make_bundle(*waiting(name), machine=machine, options=options, unprofiled_step_ns=(1_000_000,), **fields)
