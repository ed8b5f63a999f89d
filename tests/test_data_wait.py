import pytest
from make_trace import Event, annotation, kernel, launch, make_trace, op, phase, step

from longpole.analyze.analyses.data_wait import data_wait
from longpole.capture.errors import MissingData

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str, width: float) -> list[Event]:
    return [step(1, 0, 10_000), annotation(name, 0, width), op("aten::stack", 0, width / 2)]


def test_loading_in_the_process_hides_behind_the_rest_of_the_step():
    found = data_wait(make_trace(loading(SINGLE, 3_000)))
    assert (found.loading_ns, found.rest_ns, found.workers) == (3_000_000, 7_000_000, False)
    (finding,) = found.findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (
        0,
        2_000_000,
        3_000_000,
    )  # a millisecond for the way between processes
    assert (finding.bound, finding.phase) == ("input_pipeline", "data_loading")


def test_in_traces_of_before_2021_06_torchs_own_ranges_are_operators():
    old = [{**event, "cat": "Operator"} for event in loading(SINGLE, 3_000)]
    assert data_wait(make_trace(old)).loading_ns == 3_000_000


def test_one_worker_hides_no_more_than_the_rest_lasts():
    (finding,) = data_wait(make_trace(loading(SINGLE, 8_000))).findings
    assert (finding.saving_ns, finding.high_ns) == (1_000_000, 8_000_000)


def test_with_workers_all_of_the_wait_could_go():
    found = data_wait(make_trace(loading(WORKERS, 8_000)))
    assert found.workers
    assert found.findings[0].saving_ns == 7_000_000


def test_a_phase_of_the_user_counts_as_loading():
    found = data_wait(make_trace([step(1, 0, 10_000), phase("data_loading", 0, 2_500)]))
    assert (found.loading_ns, found.workers, found.findings) == (2_500_000, None, ())  # nothing says how it is loaded


def test_a_wait_shorter_than_the_way_between_processes_is_no_finding():
    assert data_wait(make_trace(loading(SINGLE, 900))).findings == ()


def test_a_gpu_run_gets_no_finding():
    assert data_wait(make_trace(loading(SINGLE, 3_000), [kernel("k", 0, 5)])).findings == ()


def test_idle_time_of_the_gpu_beside_a_loader():
    trace = make_trace(loading(SINGLE, 3_000), [launch(1, 10, 15), kernel("k", 1_000, 5_000, correlation=1)])
    assert data_wait(trace).measures == {
        "dataloader_ns": 3_000_000, "dataloader_share": 0.3, "gpu_idle_during_dataloader_ns": 1_000_000,
        "gpu_idle_during_dataloader_share": pytest.approx(1 / 6),
    }  # fmt: skip


def test_of_two_gpus_each_has_its_idle_time_beside_a_loader():
    work = [kernel("k", 0, 10_000), kernel("k", 1_000, 10_000, device=1)]
    measures = data_wait(make_trace(loading(SINGLE, 3_000), work)).measures
    assert measures["gpu_idle_during_dataloader_ns"] == {0: 0, 1: 1_000_000}
    assert measures["gpu_idle_during_dataloader_share"] == {0: pytest.approx(float("nan"), nan_ok=True), 1: 1}


def test_where_idle_time_is_withheld_so_is_its_part_beside_a_loader():
    found = data_wait(
        make_trace(loading(SINGLE, 3_000), [launch(1, 10, 15), launch(2, 20, 25)], [kernel("k", 30, 50, correlation=1)])
    )
    assert found.measures == {"dataloader_ns": 3_000_000, "dataloader_share": 0.3}
    assert set(found.withheld) == {"gpu_idle_during_dataloader_ns", "gpu_idle_during_dataloader_share"}


def test_nothing_marks_loading():
    with pytest.raises(MissingData, match="DataLoader"):
        data_wait(make_trace([step(1, 0, 100), op("aten::mm", 0, 40)]))
