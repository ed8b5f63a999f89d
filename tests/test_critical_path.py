import pytest
from make_trace import make_trace, op, step
from replay_trace import waiting_events, waiting_trace

from longpole.analyze.analyses.critical_path import critical_path
from longpole.capture.errors import MissingData


def test_the_parts_of_the_path_add_up_to_the_step():
    found = critical_path(waiting_trace())
    assert (found.step_ns, found.steps_count) == (100_000, 3)
    assert found.bounds.set_index("bound")["path_ns"].to_dict() == {
        "compute": 75_000,
        "host": 10_000,
        "launch": 10_000,
        "synchronization": 5_000,
    }
    assert found.bounds["path_share"].sum() == pytest.approx(1)


def test_names_on_the_path_stand_beside_what_they_take_in_all():
    rows = critical_path(waiting_trace()).names.set_index("name")
    assert rows.loc["some_gemm", ["path_ns", "total_ns"]].tolist() == [40_000, 40_000]
    assert rows.loc["some_softmax", "path_share"] == pytest.approx(0.35)


def test_a_long_kernel_beside_the_path_is_told_apart():
    steps, calls, work = waiting_events()
    beside = [
        dict(k, name="beside", tid=9, args={**k["args"], "stream": 9, "correlation": 100 + n}) for n, k in enumerate(work[::2])
    ]
    launches = [dict(calls[3 * n], args={"correlation": 100 + n}, ts=calls[3 * n]["ts"] + 4, dur=1) for n in range(4)]
    found = critical_path(make_trace(steps, calls, launches, work, beside))
    (off,) = found.off_path.to_dict("records")
    assert (off["name"], off["total_ns"], off["path_ns"]) == ("beside", 40_000, 0)
    assert off["least_slack_ns"] > 0
    assert "beside" not in set(found.names["name"])


def test_without_gpu_work_each_part_of_the_step_is_waited_for():
    with pytest.raises(MissingData, match="no GPU work"):
        critical_path(make_trace([step(1, 0, 100), op("aten::mm", 0, 50)]))
