import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_trace import Event, annotation, frame, kernel, launch, make_trace, op, step
from shared_data import TRACES, names, shared_trace

from longpole.analyze.analyses.gpu_kernels import gpu_kernels
from longpole.analyze.analyses.idle_causes import IdleCauses, idle_causes
from longpole.analyze.gap_causes import CAUSES
from longpole.capture.errors import MissingData

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def causes(found: IdleCauses, device: int = 0) -> dict[str, int]:
    """In microseconds, those that occur."""
    rows = found.rows[(found.rows["device"] == device) & (found.rows["idle_ns"] > 0)]
    return {cause: ns // 1000 for cause, ns in zip(rows["cause"], rows["idle_ns"], strict=True)}


def of(*host: Event) -> dict[str, int]:
    """Causes of the idle time before the kernel that the last call launches at 190 and that runs from 200 to 300."""
    return causes(idle_causes(make_trace([*host, launch(1, 190, 195)], [kernel("k", 200, 300, correlation=1)])))


def test_each_instant_gets_the_first_cause_that_holds():
    assert of(
        annotation(LOADER, 0, 50), launch(7, 40, 60, name="cudaMemcpyAsync"), launch(8, 60, 80, name="cudaStreamSynchronize"),
        op("aten::mm", 150, 195),
    ) == {"input_pipeline": 50, "h2d_wait": 10, "other": 20, "synchronization": 110, "launch": 10}  # fmt: skip


def test_near_a_launch_the_launch_is_the_cause_and_farther_off_the_range_around():
    assert of(op("aten::mm", 100, 195)) == {"host": 80, "launch": 20}  # the window begins with the operator


def test_a_step_and_a_python_frame_are_ranges_too():
    assert of(step(1, 0, 300)) == {"host": 180, "launch": 20}
    assert of(frame("train.py(1): main", 0, 300)) == {"host": 180, "launch": 20}


def test_time_outside_every_range_of_the_thread_is_other():
    assert of(op("aten::mm", 0, 20)) == {"host": 20, "other": 160, "launch": 20}


def recorded(start: float, end: float, device: int = 0, **args: int) -> Event:
    return kernel("Context Sync", start, end, stream=-1, device=device, category="cuda_sync", **args)


def test_without_calls_that_wait_a_row_of_the_driver_is_one_on_every_thread():
    assert of(op("aten::mm", 0, 195), recorded(60, 80)) == {"host": 60, "other": 20, "synchronization": 110, "launch": 10}
    assert of(op("aten::mm", 0, 195), recorded(60, 80, device=1)) == {"host": 180, "launch": 20}


def test_beside_calls_that_wait_no_row_counts():
    waits = [launch(8, 20, 40, name="cudaStreamSynchronize", tid=2), recorded(60, 80, correlation=8)]
    assert of(op("aten::mm", 0, 195), *waits) == {"host": 180, "launch": 20}


def test_after_the_last_launch_a_synchronisation_explains_nothing():
    events = [launch(1, 0, 5), launch(9, 20, 120, name="cudaDeviceSynchronize"), op("aten::copy_", 120, 200)]
    assert causes(idle_causes(make_trace(events, [kernel("k", 10, 100, correlation=1)]))) == {
        "host": 80,
        "other": 20,
        "launch": 10,
    }


def test_the_thread_that_launches_the_next_work_tells_the_cause():
    calls = [launch(1, 0, 5), annotation(LOADER, 20, 200), op("aten::mm", 20, 120, tid=2), launch(2, 190, 195, tid=2)]
    work = [kernel("a", 0, 20, correlation=1), kernel("b", 200, 300, correlation=2)]
    assert causes(idle_causes(make_trace(calls, work))) == {"host": 100, "other": 60, "launch": 20}


def test_of_work_without_a_call_the_next_that_has_one_tells_the_thread():
    calls = [annotation(LOADER, 0, 150), launch(2, 190, 195)]
    work = [kernel("stray", 50, 100), kernel("b", 200, 300, correlation=2)]
    assert causes(idle_causes(make_trace(calls, work))) == {"input_pipeline": 100, "other": 30, "launch": 20}


def test_without_any_call_all_is_other():
    assert causes(idle_causes(make_trace([annotation(LOADER, 0, 50)], [kernel("a", 50, 60)]))) == {"other": 50}


def test_each_device_has_its_own_idle_time():
    calls = [step(1, 0, 100), launch(1, 0, 5), launch(2, 20, 25)]
    work = [kernel("a", 0, 100, correlation=1), kernel("b", 50, 100, device=1, correlation=2)]
    found = idle_causes(make_trace(calls, work))
    assert (causes(found, 0), causes(found, 1)) == ({}, {"launch": 35, "host": 15})
    assert found.rows["idle_share"].tolist()[-6:-4] == [0.7, 0.3]
    assert (found.gap_count, found.idle_ns) == (1, 50_000)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([launch(1, 0, 5), launch(2, 8, 9)], "without a record of their work: 1 of 2"),
        ([launch(1, 30, 35)], "two clocks disagree"),
        ([launch(1, 0, 5), launch(2, 8, 9, name="cudaGraphLaunch")], "graph launches without a record"),
    ],
)
def test_causes_are_withheld_where_idle_time_is(events: list[Event], reason: str):
    trace = make_trace(events, [kernel("a", 20, 40, correlation=1)])
    assert gpu_kernels(trace).idle_withheld
    with pytest.raises(MissingData, match=reason):
        idle_causes(trace)


def test_a_cpu_run_has_no_idle_gpu():
    with pytest.raises(MissingData, match="no GPU work"):
        idle_causes(make_trace([op("a", 0, 10)]))


SCALE = 2  # us an instant of the loop below: the way to a launch is 5 of them
MAKERS = {
    "load": lambda a, b, tid, _: annotation(LOADER, a, b, tid), "op": lambda a, b, tid, _: op("aten::mm", a, b, tid),
    "copy": lambda a, b, tid, _: launch(0, a, b, tid, name="cudaMemcpyAsync"),
    "wait": lambda a, b, tid, _: launch(0, a, b, tid, name="cudaStreamSynchronize"),
    "launch": lambda a, b, tid, number: launch(number, a, b, tid),
}  # fmt: skip
HOST = st.lists(
    st.tuples(st.sampled_from([*MAKERS]), st.integers(0, 40), st.integers(1, 10), st.integers(1, 2)), min_size=1, max_size=10
)
WORK = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 6), st.integers(0, 1), st.booleans()), max_size=10)


def naive(host: list, work: list, end: int) -> dict[tuple[int, str], int]:
    """Instant by instant; `work`: (start, end, device, thread or None)."""
    found = {}
    for device in {d for _, _, d, _ in work}:
        mine = sorted((w for w in work if w[2] == device), key=lambda w: w[0])
        known = [w for w in mine if w[3] is not None]
        for now in range(end):
            if any(a <= now < b for a, b, *_ in mine):
                continue
            until = min((a for a, *_ in mine if a > now), default=end)
            thread = next((w[3] for w in known if w[0] >= until), known[-1][3] if known else None)
            cause = naive_cause([h for h in host if h[3] == thread], now)
            found[device, cause] = found.get((device, cause), 0) + 1
    return found


def naive_cause(host: list, now: int) -> str:
    def inside(kind: str, near: int = 0) -> bool:
        return any(k == kind and a - near <= now < b + near for k, a, b, _ in host)

    starts = sorted(a for k, a, *_ in host if k == "launch")
    resumed = [next((a for a in starts if a >= b), 0) for k, _, b, _ in host if k == "wait" and b <= now]
    tests = [
        ("input_pipeline", inside("load")), ("h2d_wait", inside("copy")), ("other", inside("wait")),
        ("synchronization", any(now < a for a in resumed)), ("launch", inside("launch", 5)), ("host", inside("op")),
    ]  # fmt: skip
    return next((cause for cause, holds in tests if holds), "other")


@settings(deadline=None)
@given(HOST, WORK)
def test_causes_agree_with_a_loop_over_instants(host: list, work: list):
    host = [(kind, start, start + width, tid) for kind, start, width, tid in host]
    launches = [(row + 1, h) for row, h in enumerate(host) if h[0] == "launch"]
    ranges = [(a + 100, a + 100 + width, device, None) for a, width, device, stray in work if stray or not launches]
    ranges += [(h[1] + delay, h[1] + delay + 3, row % 2, h[3]) for row, h in launches for delay in [1 + 3 * (row % 3)]]
    if not ranges:
        return
    events = [MAKERS[kind](a * SCALE, b * SCALE, tid, row + 1) for row, (kind, a, b, tid) in enumerate(host)]
    correlations = [-1] * (len(ranges) - len(launches)) + [number for number, _ in launches]
    kernels = [
        kernel("k", a * SCALE, b * SCALE, device=device, stream=stream, correlation=correlation)
        for stream, ((a, b, device, _), correlation) in enumerate(zip(ranges, correlations, strict=True))
    ]
    first = min(start for start, *_ in [*((a, b) for _, a, b, _ in host), *ranges])
    moved = [(kind, a - first, b - first, tid) for kind, a, b, tid in host]
    placed = [(a - first, b - first, device, thread) for a, b, device, thread in ranges]
    end = max(b for _, b, *_ in [*((a, b) for _, a, b, _ in moved), *placed])
    found = idle_causes(make_trace(events, kernels)).rows
    told = {(int(r.device), r.cause): r.idle_ns // (SCALE * 1000) for r in found.itertuples() if r.idle_ns}
    assert told == naive(moved, placed, end)


@pytest.mark.parametrize("name", [*(f"traces/{n}.json.gz" for n in TRACES if names(f"traces/{n}.json.gz"))])
def test_the_causes_of_a_real_trace_add_up_to_its_idle_time(name: str):
    trace = shared_trace(name)
    if not len(trace.device) or gpu_kernels(trace).idle_withheld:
        return
    found = idle_causes(trace).rows
    assert found.groupby("device")["idle_ns"].sum().tolist() == gpu_kernels(trace).devices["idle_ns"].tolist()
    assert found.groupby("device").size().eq(len(CAUSES)).all()
