import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from make_trace import Event, annotation, kernel, launch, make_trace, memcpy, op, step
from shared_data import TRACES, shared_trace

from longpole.analyze.analyses.gpu_steps import gpu_steps
from longpole.analyze.analyses.idle_causes import idle_causes
from longpole.analyze.step_buckets import StepBuckets, step_buckets
from longpole.analyze.trace import Trace

BACK_TO_BACK = [step(1, 0, 100), step(2, 100, 200)]


def parts(found: StepBuckets, row: int = 0, device: int = 0) -> dict[str, int]:
    """In microseconds, those of a step that hold time."""
    return {kind + of: ns // 1000 for (kind, of), ns in found.rows.loc[(row, device)].items() if ns}


def of(*events: Event) -> dict[str, int]:
    return parts(step_buckets(make_trace([step(1, 0, 100)], list(events))))


def test_computing_counts_for_the_phase_in_which_it_was_launched_wherever_it_runs():
    marks = [annotation("forward", 0, 40), annotation("backward", 40, 80)]
    calls = [launch(1, 30, 32), launch(2, 60, 62), launch(3, 90, 92)]
    work = [kernel("a", 50, 70, correlation=1), kernel("b", 70, 80, correlation=2), kernel("c", 95, 100, correlation=3)]
    found = of(*marks, *calls, *work)
    assert {name: us for name, us in found.items() if not name.startswith("idle")} == {
        "computeforward": 20, "computebackward": 10, "computeother": 5,
    }  # fmt: skip
    assert sum(found.values()) == 100


def test_of_two_phases_that_compute_at_once_the_work_that_started_last_has_the_instant():
    marks = [annotation("forward", 0, 10), annotation("backward", 10, 20)]
    calls = [launch(1, 1, 2), launch(2, 11, 12)]
    work = [kernel("a", 20, 60, correlation=1), kernel("b", 30, 50, stream=8, correlation=2)]
    found = of(*marks, *calls, *work)
    assert (found["computeforward"], found["computebackward"]) == (20, 20)


def test_communication_and_copies_count_where_nothing_computes():
    work = [kernel("gemm", 0, 40), kernel("ncclKernel", 30, 60, stream=8), memcpy("HtoD", 50, 90, stream=9)]
    assert of(*work) == {"computeother": 40, "comm_exposed": 20, "copy_exposed": 30, "idleother": 10}


def test_work_without_a_call_has_the_phase_of_its_operator_else_none():
    marks = [annotation("forward", 0, 40), op("aten::mm", 10, 20, **{"External id": 5}), launch(1, 12, 13)]
    work = [
        kernel("a", 20, 30, correlation=1), kernel("b", 40, 60, correlation=9, **{"External id": 5}),
        kernel("c", 70, 75, correlation=8),
    ]  # fmt: skip
    found = of(*marks, *work)
    assert (found["computeforward"], found["computeunlinked"]) == (30, 5)


def test_a_gap_over_the_border_of_two_steps_is_cut_there_and_keeps_its_causes():
    work = [kernel("a", 0, 60), kernel("b", 150, 200, correlation=1)]
    found = step_buckets(make_trace(BACK_TO_BACK, [launch(1, 140, 145)], work))
    assert parts(found, 0) == {"computeother": 60, "idlehost": 40}
    assert parts(found, 1) == {"computeother": 50, "idlehost": 30, "idlelaunch": 20}


def test_what_runs_after_the_last_step_is_in_none_and_is_told():
    found = step_buckets(make_trace(BACK_TO_BACK, [kernel("a", 0, 200), kernel("b", 200, 230)]))
    assert parts(found, 1) == {"computeother": 100}
    assert found.after_ns == {0: 30_000}


def test_each_device_adds_up_by_itself():
    found = step_buckets(make_trace(BACK_TO_BACK, [kernel("a", 0, 150), kernel("b", 50, 60, device=1)]))
    assert parts(found, 1, 0) == {"computeother": 50, "idleother": 50}
    assert parts(found, 0, 1) == {"computeother": 10, "idleother": 90}


def test_serving_work_has_the_phase_of_the_step_that_launched_it():
    marks = [annotation("step[EXTEND bs=1]", 0, 50), annotation("step[DECODE bs=1]", 50, 100)]
    calls = [launch(1, 10, 12), launch(2, 60, 62)]
    work = [kernel("a", 20, 70, correlation=1), kernel("b", 70, 90, correlation=2)]
    found = step_buckets(make_trace(marks, calls, work))
    assert parts(found, 0)["computeprefill"] == 30
    assert (parts(found, 1)["computeprefill"], parts(found, 1)["computedecode"]) == (20, 20)
    assert found.rows.columns.tolist()[:2] == [("compute", "prefill"), ("compute", "decode")]


def test_without_steps_the_recording_is_the_step():
    assert parts(step_buckets(make_trace([op("aten::mm", 0, 100)], [kernel("a", 20, 60)])))["computeother"] == 40


def test_steps_that_may_lack_work_have_no_rows():
    launches = [launch(1, 10, 12), launch(7, 50, 52), launch(2, 110, 112), launch(3, 210, 212)]
    work = [kernel("a", 20, 40, correlation=1), kernel("b", 120, 140, correlation=2), kernel("c", 220, 240, correlation=3)]
    found = step_buckets(make_trace([*BACK_TO_BACK, step(3, 200, 300)], launches, work))
    assert found.rows.index.tolist() == [(2, 0)]
    assert found.work.gaps == "launch calls without a record of their work: 1 of 4"


def test_a_graph_of_which_only_a_copy_is_recorded_may_have_held_kernels():
    calls = [launch(1, 10, 12, name="cudaGraphLaunch"), launch(2, 110, 112)]
    found = step_buckets(
        make_trace(BACK_TO_BACK, calls, [memcpy("HtoD", 20, 30, correlation=1), kernel("b", 115, 140, correlation=2)])
    )
    assert found.rows.empty
    assert found.work.gaps == "graph launches without a record of the kernels inside: 1 of 1"


def test_two_clocks_leave_nothing():
    found = step_buckets(make_trace([step(1, 0, 100), launch(1, 10, 15)], [kernel("a", 2, 60, correlation=1)]))
    assert found.rows.empty


MARKS = {"forward": (0, 12), "backward": (12, 30), "Optimizer.step#A.step": (30, 38)}
STEPS = [(0, 20), (22, 40)]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["gemm", "nccl", "copy"]), st.integers(0, 38), st.integers(0, 39), st.integers(1, 9)), max_size=9
)


def drawn(events: list[tuple[str, int, int, int]]) -> list[Event]:
    """Work with its launch at the first time and its start at the second or right after the launch; 1 in 4 has no call."""
    made: list[Event] = []
    for i, (name, at, start, length) in enumerate(events, 1):
        begin, link = max(at, start), {} if length % 4 == 0 else {"correlation": i}
        end = min(begin + length, 44)
        work = memcpy("c", begin, end, stream=i, **link) if name == "copy" else kernel(name, begin, end, stream=i, **link)
        made += [work, *([launch(i, at, at + 1)] if link else [])]
    return made


def phase_by_hand(at: int) -> str:
    return next(("optimizer" if "#" in name else name for name, (a, b) in MARKS.items() if a <= at < b), "other")


def by_instant(events: list[tuple[str, int, int, int]], begin: int, end: int) -> dict[str, int]:
    """What is not idle of a step, one microsecond after the other."""
    times = [(name, at, max(at, start), min(max(at, start) + n, 44), n) for name, at, start, n in events]
    linked = any(phase_by_hand(at) != "other" and n % 4 for _, at, _, _, n in times)
    found: dict[str, int] = {}
    for instant in range(begin, end):
        around = [(start, -stop, i) for i, (_, _, start, stop, _) in enumerate(times) if start <= instant < stop]
        names = {times[i][0] for _, _, i in around}
        if "gemm" in names:
            _, at, _, _, n = times[max(row for row in around if times[row[2]][0] == "gemm")[2]]
            bucket = "compute" + ("other" if not linked else phase_by_hand(at) if n % 4 else "unlinked")
        else:
            bucket = "comm_exposed" if "nccl" in names else "copy_exposed" if names else "idle"
        found[bucket] = found.get(bucket, 0) + 1
    return found


@given(EVENTS)
@settings(max_examples=50)
def test_buckets_agree_with_a_loop_over_instants(events: list[tuple[str, int, int, int]]):
    assume(any(max(at, start) < 44 for _, at, start, _ in events))
    marks = [annotation(name, a, b) for name, (a, b) in MARKS.items()]
    trace = make_trace([step(i, *borders) for i, borders in enumerate(STEPS)], marks, [op("end", 44, 45)], drawn(events))
    found = step_buckets(trace)
    for row in found.rows.index.get_level_values("step"):
        ours = parts(found, row)
        idle = sum(us for name, us in ours.items() if name.startswith("idle"))
        exact = {name: us for name, us in ours.items() if not name.startswith("idle")} | ({"idle": idle} if idle else {})
        assert exact == by_instant(events, *STEPS[row])


def holds(trace: Trace) -> None:
    """Sums are exact, busy parts are the union of work, and idle parts those of the whole recording where no step misses them."""
    found = step_buckets(trace)
    if found.rows.empty:
        return
    rows, steps = found.rows, found.work.steps["step_ns"]
    assert (rows.to_numpy() >= 0).all()
    assert rows.sum(axis=1).tolist() == steps[rows.index.get_level_values("step")].tolist()
    busy = gpu_steps(trace).rows.set_index(["step", "device"])["busy_ns"]
    assert rows.drop(columns="idle", level="kind").sum(axis=1).tolist() == busy[rows.index].tolist()
    if len(steps) == 1 and int(steps.iloc[0]) == trace.window_ns:
        whole = idle_causes(trace).rows.groupby("cause")["idle_ns"].sum()
        assert rows["idle"].sum().to_dict() == whole[rows["idle"].columns].to_dict()


@pytest.mark.parametrize("name", TRACES)
def test_real_traces_add_up_exactly(shared: object, name: str):
    trace = shared_trace(f"traces/{name}.json.gz")
    if len(trace.device):
        holds(trace)


@given(EVENTS)
@settings(max_examples=50)
def test_any_work_adds_up_exactly(events: list[tuple[str, int, int, int]]):
    assume(any(max(at, start) < 44 for _, at, start, _ in events))
    holds(make_trace([op("a", 0, 45)], drawn(events)))


def test_times_are_whole_nanoseconds():
    assert (step_buckets(make_trace(BACK_TO_BACK, [kernel("a", 0, 33.333)])).rows.dtypes == np.int64).all()


def test_what_falls_between_two_steps_is_told_apart():
    marks = [step(1, 0, 100), step(2, 160, 200)]
    found = step_buckets(make_trace(marks, [launch(1, 150, 155)], [kernel("a", 0, 120), kernel("b", 160, 200, correlation=1)]))
    assert found.before.loc[(1, 0)].to_numpy().sum() == 60_000
    assert found.before.loc[(1, 0), ("compute", "other")] == 20_000
    assert found.before.loc[(0, 0)].to_numpy().sum() == 0  # what comes before the first step is not known


def test_idle_time_while_another_gpu_computes_is_told():
    calls = [launch(1, 0, 5), launch(2, 6, 10)]
    work = [kernel("a", 10, 50, correlation=1), kernel("b", 50, 90, device=1, correlation=2)]
    found = step_buckets(make_trace([step(1, 0, 100)], calls, work))
    assert found.turns.to_dict() == {(0, 0): 0, (0, 1): 30_000}  # GPU 1 waits from 10 after its launch; nothing follows on GPU 0
