import pytest
from make_trace import Event, annotation, kernel, make_trace, op, phase, step

from longpole.analyze.analyses.data_wait import data_wait
from longpole.capture.errors import MissingData

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str, width: float) -> list[Event]:
    return [step(1, 0, 100), annotation(name, 0, width), op("aten::stack", 0, width / 2)]


def test_loading_in_the_process_hides_behind_the_rest_of_the_step():
    found = data_wait(make_trace(loading(SINGLE, 30)))
    assert (found.loading_ns, found.rest_ns, found.workers) == (30_000, 70_000, False)
    (finding,) = found.findings
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 30_000, 30_000)
    assert (finding.bound, finding.phase) == ("input_pipeline", "data_loading")


def test_one_worker_hides_no_more_than_the_rest_lasts():
    (finding,) = data_wait(make_trace(loading(SINGLE, 80))).findings
    assert (finding.saving_ns, finding.high_ns) == (20_000, 80_000)


def test_with_workers_all_of_the_wait_could_go():
    found = data_wait(make_trace(loading(WORKERS, 80)))
    assert found.workers
    assert found.findings[0].saving_ns == 80_000


def test_a_phase_of_the_user_counts_as_loading():
    assert data_wait(make_trace([step(1, 0, 100), phase("data_loading", 0, 25)])).loading_ns == 25_000


def test_a_gpu_run_gets_no_finding():
    assert data_wait(make_trace(loading(SINGLE, 30), [kernel("k", 0, 5)])).findings == ()


def test_nothing_marks_loading():
    with pytest.raises(MissingData, match="DataLoader"):
        data_wait(make_trace([step(1, 0, 100), op("aten::mm", 0, 40)]))
