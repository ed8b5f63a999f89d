import pytest
from make_trace import Event, annotation, kernel, launch, make_bundle, make_trace, op, phase, step

from longpole.analyze.analyses.data_wait import data_wait
from longpole.analyze.findings import Finding
from longpole.capture.errors import MissingData

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str, width: float) -> list[Event]:
    return [step(1, 0, 10_000), annotation(name, 0, width), op("aten::stack", 0, width / 2)]


def test_loading_in_the_process_hides_behind_the_rest_of_the_step():
    found = data_wait(make_trace(loading(SINGLE, 3_000)))
    assert (found.loading_ns, found.rest_ns, found.workers) == (3_000_000, 7_000_000, False)
    (finding,) = found.findings
    # 0.7 for the way between processes
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 2_300_000, 3_000_000)
    assert (finding.bound, finding.phase, finding.confidence) == ("input_pipeline", "data_loading", "medium")


def facts(loading_us: float, cpu_ns: int, name: str = SINGLE, cores: int = 8, **options: object) -> dict[str, object]:
    """A bundle of one step of 10,000 and one of the same length without the profiler."""
    return {
        "events": loading(name, loading_us), "machine": {"cpu_usable_count": cores}, "unprofiled_step_ns": (10_000_000,),
        "options": {"unprofiled_cpu_ns": cpu_ns, "unprofiled_core_wait_ns": 0, **options},
    }  # fmt: skip


def finding_of(events: list[Event], **bundle: object) -> Finding:
    (finding,) = data_wait(make_bundle(events, **bundle)).findings
    return finding


def test_loading_that_mostly_waits_is_a_point():
    finding = finding_of(**facts(6_000, 4_500_000))  # of 6 ms it works half a one
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (3_975_000, 5_300_000, 6_000_000)
    assert (finding.confidence, finding.saving_unprofiled_ns) == ("high", 5_300_000)


def test_two_workers_are_as_slow_as_half_the_loading():
    assert finding_of(**facts(9_000, 1_000_000)).saving_ns == 5_500_000  # 4.5 of the 10 remain


def test_loading_that_computes_shares_the_cores():
    finding = finding_of(**facts(6_000, 10_000_000, cores=2))
    assert (finding.low_ns, finding.saving_ns, finding.high_ns) == (0, 5_000_000, 6_000_000)  # 10 on two cores
    assert (finding.confidence, finding_of(**facts(6_000, 10_000_000)).confidence) == ("low", "medium")


@pytest.mark.parametrize(
    "bundle",
    [
        facts(6_000, 10_000_000, cores=1),
        facts(6_000, 6_000_000, unprofiled_core_wait_ns=4_000_000),  # others have the cores
    ],
)
def test_where_no_core_is_free_no_workers_are_advised(bundle: dict[str, object]):
    finding = finding_of(**bundle)
    assert finding.title.template == "Make loading a batch cheaper"
    assert (finding.low_ns, finding.saving_ns, finding.high_ns, finding.confidence) == (0, 3_000_000, 6_000_000, "low")


def test_as_many_workers_as_cores_leave_none_free():
    finding = finding_of(**facts(6_700, 1_000_000, WORKERS, cores=2, loader_workers=2))
    assert (finding.title.template, finding.saving_ns) == ("Make loading a batch cheaper", 3_000_000)
    assert finding_of(**facts(6_700, 1_000_000, WORKERS, cores=8, loader_workers=2)).title.template == "Add loader workers"


def test_in_traces_of_before_2021_06_torchs_own_ranges_are_operators():
    old = [{**event, "cat": "Operator"} for event in loading(SINGLE, 3_000)]
    assert data_wait(make_trace(old)).loading_ns == 3_000_000


def test_two_workers_hide_no_more_than_half_of_the_loading():
    (finding,) = data_wait(make_trace(loading(SINGLE, 8_000))).findings
    assert (finding.saving_ns, finding.high_ns) == (6_000_000, 8_000_000)


def test_twice_as_many_workers_halve_the_step_at_most():
    found = data_wait(make_trace(loading(WORKERS, 8_000)))
    assert found.workers
    assert (found.findings[0].saving_ns, found.findings[0].high_ns) == (5_000_000, 8_000_000)
    assert found.findings[0].id == "data_wait:workers"
    assert data_wait(make_trace(loading(WORKERS, 3_000))).findings[0].saving_ns == 2_300_000


def test_a_phase_of_the_user_counts_as_loading():
    found = data_wait(make_trace([step(1, 0, 10_000), phase("data_loading", 0, 2_500)]))
    assert (found.loading_ns, found.workers, found.findings) == (2_500_000, None, ())  # nothing says how it is loaded


def test_a_wait_shorter_than_the_way_between_processes_is_no_finding():
    assert data_wait(make_trace(loading(SINGLE, 600))).findings == ()


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
