from make_trace import annotation, kernel, launch, make_trace, op, step

from longpole.analyze.marked_work import marked_work


def test_work_belongs_to_the_range_in_which_its_thread_launched_it():
    calls = [
        step(1, 0, 100), annotation("Optimizer.step#SGD.step", 10, 50),
        op("aten::add_", 12, 20, **{"External id": 7}), launch(1, 13, 15), launch(2, 60, 65), launch(3, 20, 25, tid=2),
    ]  # fmt: skip
    work = [kernel("k", 90, 94, correlation=1, **{"External id": 7}), *(kernel("k", 95, 96, correlation=c) for c in (2, 3))]
    found = marked_work(make_trace(calls, work), "Optimizer.step#")
    assert (found.names, found.host_ns, found.device_ns) == (("Optimizer.step#SGD.step",), 40_000, 4_000)
    assert (found.ops.tolist(), found.steps) == (["aten::add_"], 1)


def test_ranges_outside_of_counted_steps_are_left_out():
    calls = [step(1, 0, 100), step(2, 100, 200), annotation("Optimizer.step#SGD.step", 210, 250)]
    assert marked_work(make_trace(calls), "Optimizer.step#").names == ()


def test_without_such_ranges_there_is_nothing():
    found = marked_work(make_trace([step(1, 0, 100)]), "Optimizer.step#")
    assert (len(found.rows), len(found.work), found.host_ns, found.device_ns) == (0, 0, 0, 0)
