from make_report import report_on
from make_trace import kernel, launch, make_trace, memcpy, op, step

from longpole.reports.device_parts import device_parts
from longpole.reports.figures import figures
from longpole.reports.svg import PDF

STEP = [step(1, 0, 100)]


def parts(*work) -> list[tuple[str, int, float]]:
    rows = device_parts(report_on(make_trace(STEP, [op("aten::mm", 0, 100)], list(work))))
    return list(rows.itertuples(index=False, name=None))


def caption(*work) -> str:
    return figures(report_on(make_trace(STEP, [op("aten::mm", 0, 100)], list(work))), PDF)[1]["window"]


def test_what_gpus_do_and_why_they_idle_adds_up_to_the_recording():
    work = [launch(1, 0, 5), kernel("gemm", 20, 50, correlation=1), kernel("nccl", 40, 60, stream=8), memcpy("HtoD", 60, 70)]
    found = parts(*work)
    assert found[:3] == [("computing", 30_000, 0.3), ("exposed communication", 10_000, 0.1), ("exposed copies", 10_000, 0.1)]
    assert sum(ns for _, ns, _ in found) == 100_000
    assert all(part.startswith("idle: ") for part, _, _ in found[3:])


def test_of_several_gpus_the_times_are_added_up():
    assert parts(kernel("gemm", 0, 100), kernel("gemm", 0, 50, device=1))[0] == ("computing", 150_000, 0.75)


def test_where_idle_time_is_withheld_nothing_is_told():
    assert parts(launch(1, 0, 5), kernel("gemm", 20, 50)) == []


def test_a_run_without_gpu_work_has_no_such_parts():
    assert parts() == []


def test_the_caption_names_what_beside_computing_takes_most():
    assert caption(kernel("gemm", 0, 20), kernel("nccl", 20, 90)) == (
        "The GPU idles 10\u202f% of the recording; exposed communication takes 70\u202f%."
    )
    assert caption(kernel("gemm", 0, 98)) == "The GPU idles 2.0\u202f% of the recording."
    assert caption(launch(1, 0, 5), kernel("gemm", 60, 100, correlation=1)).startswith(
        "The GPU idles 60\u202f% of the recording, "
    )
