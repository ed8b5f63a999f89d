import pytest
from make_trace import Event, annotation, kernel, make_trace, op, step

from longpole.analyze.analyses.collectives import collectives
from longpole.analyze.contents import ANALYSES
from longpole.analyze.run import run
from longpole.capture.errors import MissingData
from longpole.reports.headline import loss_lines
from longpole.reports.model import run_report
from longpole.reports.render_json import summary

STEP = [step(1, 0, 1000)]


def reduce(start: float, end: float, device: int = 0, **args: object) -> Event:
    return kernel("ncclDevKernel_AllReduce", start, end, 20, device, **args)


def spinning(first: float) -> list[Event]:
    """A first collective of that length, then four of 5 µs, each after 45 µs of computing."""
    starts = [first + 50 * i for i in range(4)]
    later = [event for at in starts for event in (kernel("gemm", at, at + 45), reduce(at + 45, at + 50))]
    return [reduce(0, first), *later]


def test_collectives_are_summed_by_name():
    found = collectives(make_trace(STEP, [reduce(0, 30), reduce(100, 110), kernel("ncclDevKernel_AllGather", 200, 210)]))
    rows = found.rows.set_index("name")
    assert rows.index.tolist() == ["ncclDevKernel_AllReduce", "ncclDevKernel_AllGather"]
    assert rows.iloc[0][["count", "total_ns", "mean_ns", "min_ns", "max_ns"]].tolist() == [2, 40_000, 20_000, 10_000, 30_000]
    assert found.union_ns == 50_000


def test_time_with_computing_beside_it_is_not_exposed():
    found = collectives(make_trace(STEP, [reduce(0, 100), kernel("gemm", 60, 200)]))
    assert (found.union_ns, found.exposed_ns) == (100_000, 60_000)


def test_a_first_collective_that_spins_is_flagged_and_the_figures_after_it_are_told():
    trace = make_trace([step(1, 0, 700)], spinning(500))
    found = collectives(trace)
    assert found.measures == {
        "first_collective_ns": 500_000, "median_other_collectives_ns": 5_000, "trimmed_window_ns": 200_000,
        "trimmed_comm_ns": 20_000, "trimmed_compute_ns": 180_000, "trimmed_compute_share": 0.9,
        "comm_share_of_window_raw": pytest.approx(520 / 700),
    }  # fmt: skip
    report = run_report(run(ANALYSES, trace), trace)
    assert "outlier_collective_at_start" in [warning["code"] for warning in summary(report)["warnings"]]
    assert any("100 times the median of the 4 others" in line for line in loss_lines(report))


@pytest.mark.parametrize(
    "events", [spinning(100), spinning(500)[:6], [*spinning(500), reduce(750, 1000)], [reduce(0, 500), kernel("nccl2", 500, 505)]]
)
def test_a_long_first_collective_alone_proves_nothing(events: list[Event]):
    """Twenty times the others at most; of too few; not the only long one; the only one of its name."""
    found = collectives(make_trace(STEP, events))
    assert not found.warnings
    assert "trimmed_window_ns" not in found.measures


def test_each_device_has_its_first_collective():
    elsewhere = [reduce(0, 5, device=1), *(reduce(500 + 50 * i, 505 + 50 * i, device=1) for i in range(4))]
    found = collectives(make_trace(STEP, elsewhere, spinning(400)))
    assert found.first is not None
    assert (found.first.device, found.first.spins) == (0, True)


def test_arguments_tell_messages_and_communicators():
    told = {"Collective name": "_allgather_base", "In msg nelems": 8, "Out msg nelems": 64, "dtype": "BFloat16"}
    calls = [reduce(0, 30, **told, **{"Comms Id": 2**63 + 5}), reduce(40, 50, **told), reduce(60, 70)]
    found = collectives(make_trace(STEP, calls))
    assert found.measures["message_bytes_in"] == 32
    assert found.measures["message_bytes_out"] == 256
    assert found.measures["comms_id"] == str(2**63 + 5)
    assert found.rows["collective"].tolist() == ["_allgather_base", ""]
    assert found.rows["out_bytes"][0] == 128


def test_a_cpu_run_calls_its_backend_on_the_host():
    found = collectives(make_trace(STEP, [annotation("gloo:all_reduce", 0, 100), annotation("gloo:all_reduce", 200, 210)]))
    assert (found.on_host, found.union_ns, found.rows["count"].tolist()) == (True, 110_000, [2])
    told = found.measures
    assert (told["comm_count"], told["comm_sum_ns"], told["comm_union_ns"]) == (2, 110_000, 110_000)


def test_a_first_collective_of_a_kind_of_its_own_is_held_against_all_others():
    gather = kernel("ncclDevKernel_AllGather", 0, 500, 20)
    found = collectives(make_trace([step(1, 0, 700)], [gather, *(reduce(500 + 50 * i, 505 + 50 * i) for i in range(4))]))
    assert (found.measures["first_collective_ns"], found.measures["median_other_collectives_ns"]) == (500_000, 5_000)
    assert found.measures["trimmed_window_ns"] == 200_000


def test_one_process_has_no_collectives():
    with pytest.raises(MissingData, match="several ranks"):
        collectives(make_trace(STEP, [op("aten::mm", 0, 10), kernel("gemm", 0, 10)]))
