"""What stands over the charts of memory and queues."""

from make_report import report_on
from make_trace import Event, allocation, kernel, launch, loop, make_trace, op

from longpole.reports.figures import figures
from longpole.reports.formats import plain
from longpole.reports.render_html import render_html
from longpole.reports.svg import HTML

MIB = 2**20
STEPS = loop([100, 100], lambda start, end: [op("aten::mm", start, end)])


def gpu(time: float, mib: int, total: int | None, device: int = 0) -> Event:
    return allocation(time, mib * MIB, 1, device, address=round(time), total=None if total is None else total * MIB)


def captions(*events: list[Event]) -> dict[str, str]:
    return {name: plain(text) for name, text in figures(report_on(make_trace(STEPS, *events)), HTML)[1].items()}


def test_the_caption_of_memory_tells_the_peak_its_moment_its_operator_and_what_is_older():
    told = captions([gpu(10, 10, 30), gpu(150, 10, 40), gpu(160, -20, 20)])
    assert (
        told["memory"]
        == "GPU 0 holds 40.0 MiB at its peak, reached after 150 us for aten::mm; 50 % of it was there before the recording."
    )


def test_a_gpu_that_only_gives_back_holds_no_more_than_before():
    assert captions([gpu(10, -10, 20)])["memory"] == "GPU 0 never holds more than the 30.0 MiB of before the recording."


def test_without_the_allocators_count_it_is_what_comes_on_top():
    told = captions([gpu(10, 10, None), gpu(20, -5, None)])["memory"]
    assert told == "GPU 0 holds up to 10.0 MiB more than at the start of the recording, reached after 10.0 us for aten::mm."


def test_of_several_gpus_the_one_that_holds_most_is_told_and_the_host_has_its_own_chart_where_it_holds_much():
    host = [allocation(30, 2 * MIB, address=7, total=2 * MIB)]
    told = captions([gpu(10, 10, 10), gpu(20, 30, 30, device=1)], host)
    assert told["memory"].startswith("Of 2 GPUs, GPU 1 holds most: it holds 30.0 MiB at its peak")
    assert told["host_memory"] == "The host holds 2.00 MiB at its peak, reached after 30.0 us for aten::mm."
    assert "host_memory" not in captions([gpu(10, 10, 10)], [allocation(30, 64, address=7, total=64)])
    assert "host_memory" in captions([allocation(30, 64, address=7, total=64)])


def test_the_caption_of_the_queue_tells_how_long_it_is_and_how_much_of_the_time_it_is_empty():
    calls = [launch(1, 0, 5), launch(2, 10, 15)]
    told = captions(calls, [kernel("a", 20, 30, correlation=1), kernel("b", 50, 60, correlation=2)])
    assert told["queue"] == "The queue of GPU 0 is empty 75 % of the recording; work waiting in it: 0.3 on average, 2 at most."
    assert "queue" not in captions(calls[:1], [kernel("a", 20, 30, correlation=1)])


def test_of_several_queues_the_emptiest_is_told():
    calls = [launch(i, i, i + 1) for i in (1, 2, 3)]
    work = [kernel("a", 20 * i, 20 * i + 5, 7, device, correlation=i) for i, device in ((1, 0), (2, 0), (3, 1))]
    assert captions(calls, work)["queue"].startswith("Of 2 queues, that of GPU 0 is empty longest: 80 % of the recording;")


def test_the_charts_stand_in_their_sections_with_the_steps_on_the_axis():
    calls = [launch(1, 0, 5), launch(2, 10, 15)]
    work = [kernel("a", 20, 30, correlation=1), kernel("b", 50, 60, correlation=2)]
    report = report_on(make_trace(STEPS, calls, work, [gpu(10, 10, 30), gpu(150, 10, 40)]))
    page = render_html(report).decode("utf-8")
    assert page.count('id="fig-queue"') == page.count('id="fig-memory"') == 1
    assert page.index('id="launching"') < page.index('id="fig-queue"') < page.index('id="memory"') < page.index('id="fig-memory"')
    assert ">step</text>" in figures(report, HTML)[0]["memory"].svg
