from make_trace import annotation, kernel, launch, loop, make_bundle, make_trace, op, step

from longpole.analyze.step_marks import marked_steps


def busy(start: float, end: float) -> list[dict[str, object]]:
    """Ten operators, so that a lost one is a tenth."""
    width = (end - start) / 10
    return [op("aten::mm", start + i * width, start + (i + 1) * width) for i in range(10)]


def test_steps_are_the_profilers_ranges_by_start():
    rows = marked_steps(make_trace([step(8, 100, 250), step(7, 0, 100), op("a", 0, 50), op("a", 100, 150)]))
    assert rows["name"].tolist() == ["ProfilerStep#7", "ProfilerStep#8"]
    assert rows["step_ns"].tolist() == [100_000, 150_000]
    assert rows["counted"].all()
    assert not rows["outlier"].any()


def test_steps_are_operators_in_traces_of_before_2021_06():
    old = [{**event, "cat": "Operator"} for event in (step(1, 0, 100), step(2, 100, 210))]
    rows = marked_steps(make_trace(old, [op("a", 0, 50), op("a", 100, 150)]))
    assert (rows["name"].tolist(), rows["counted"].tolist()) == (["ProfilerStep#1", "ProfilerStep#2"], [True, True])


def test_without_operators_a_step_counts_the_work_that_it_launched():
    steps = [step(i, 100 * i, 100 * i + 100) for i in range(4)]
    calls = [launch(10 * i + k, 100 * i + k, 100 * i + k + 1) for i in range(4) for k in range(1, 9)]
    work = [
        kernel("k", 100 * i + 20 * k + 60, 100 * i + 20 * k + 70, correlation=10 * i + k) for i in range(4) for k in range(1, 9)
    ]
    assert marked_steps(make_trace(steps, calls, work))["counted"].tolist() == [True] * 4


def test_a_last_serving_step_with_an_open_range_is_partial():
    steps = [annotation(f"step[DECODE bs={i}]", 100 * i, 100 * i + 100) for i in range(3)]
    rows = marked_steps(make_trace(steps, [op("a", 250, 290, finished=False)]))
    assert rows["partial"].tolist() == [False, False, True]


def serving(*steps: tuple[str, float]) -> list[bool]:
    """Which of the (name, duration) are partial; each holds one operator a microsecond."""
    events, start = [], 0.0
    for name, duration in steps:
        events += [annotation(f"step[{name}]", start, start + duration)]
        events += [op("aten::mm", start + i, start + i + 1) for i in range(round(duration))]
        start += duration
    return marked_steps(make_trace(events))["partial"].tolist()


def test_a_last_serving_step_is_held_against_those_of_its_kind_with_as_many_tokens():
    prefill, decode = ("EXTEND bs=2 toks=2000", 100.0), ("DECODE bs=8", 20.0)
    assert serving(prefill, prefill, decode) == [False] * 3
    assert serving(decode, prefill, decode, prefill, ("DECODE bs=8", 15)) == [False] * 4 + [True]
    assert serving(prefill, prefill, ("EXTEND bs=1 toks=10", 5)) == [False] * 3
    assert serving(("DECODE bs=8", 60), decode) == [False] * 2


def test_device_copies_of_the_ranges_are_no_steps():
    marks = [kernel("ProfilerStep#1", 0, 90, category="gpu_user_annotation")]
    assert len(marked_steps(make_trace([step(1, 0, 100), op("a", 0, 50)], marks))) == 1


def test_a_last_step_with_an_open_range_is_partial():
    rows = marked_steps(make_trace(loop([100, 100], busy), [annotation("open", 150, 200, finished=False)]))
    assert rows["partial"].tolist() == [False, True]
    assert rows["counted"].tolist() == [True, False]


def test_an_open_range_around_all_steps_makes_none_of_them_partial():
    rows = marked_steps(make_trace([annotation("train", 0, 250, finished=False)], [step(1, 10, 100), step(2, 100, 200)]))
    assert not rows["partial"].any()


def test_a_last_step_with_fewer_than_four_fifths_of_the_operators_is_partial():
    whole = loop([100, 100], busy)
    operators = [row for row, event in enumerate(whole) if event["cat"] == "cpu_op"]
    eight, seven = ([e for row, e in enumerate(whole) if row not in operators[-lost:]] for lost in (2, 3))
    assert marked_steps(make_trace(eight))["partial"].tolist() == [False, False]
    assert marked_steps(make_trace(seven))["partial"].tolist() == [False, True]


def test_an_operator_that_crosses_into_the_last_step_is_work_of_both():
    rows = marked_steps(make_trace([step(1, 0, 100), step(2, 100, 200), op("aten::add_", 96, 104)]))
    assert rows["partial"].tolist() == [False, False]


def test_kernels_are_counted_where_there_are_no_operators():
    kernels = [kernel("k", 10, 20), kernel("k", 30, 40), kernel("k", 110, 120)]
    assert marked_steps(make_trace([step(1, 0, 100), step(2, 100, 200)], kernels))["partial"].tolist() == [False, True]


def test_a_last_step_shorter_than_half_the_median_is_partial():
    assert marked_steps(make_trace(loop([100, 100, 100, 49], busy)))["partial"].tolist() == [False, False, False, True]
    assert not marked_steps(make_trace(loop([100, 100, 100, 50], busy)))["partial"].any()


def test_a_step_of_more_than_one_and_a_half_medians_is_an_outlier_and_still_counts():
    rows = marked_steps(make_trace(loop([151, 100, 100, 150, 100], busy)))
    assert rows["outlier"].tolist() == [True, False, False, False, False]
    assert rows["counted"].all()


def test_serving_steps_of_one_kind_are_counted_and_none_is_partial():
    marks = [annotation("step[EXTEND bs=1]", 0, 100), annotation("step[DECODE bs=8]", 100, 180)]
    rows = marked_steps(make_trace([*marks, annotation("step[DECODE bs=8]", 180, 210)]))
    assert rows["kind"].tolist() == ["prefill", "decode", "decode"]
    assert rows["counted"].tolist() == [False, True, True]
    assert not rows["partial"].any()


def test_profiler_steps_come_before_serving_steps():
    rows = marked_steps(make_trace([step(1, 0, 100), annotation("step[DECODE bs=8]", 10, 60)]))
    assert rows["name"].tolist() == ["ProfilerStep#1"]


def test_without_marks_the_window_is_the_one_step_on_the_busiest_thread():
    trace = make_trace([op("a", 0, 30, tid=1), op("b", 10, 100, tid=2)])
    row = marked_steps(trace).iloc[0]
    assert (row["name"], row["start_ns"], row["end_ns"], row["counted"]) == ("window", 0, 100_000, True)
    assert trace.threads[row["thread"]] == ("100", "2")


def test_a_step_without_length_is_no_step():
    assert marked_steps(make_trace([step(1, 0, 0), op("a", 0, 40)]))["name"].tolist() == ["window"]


def test_steps_of_another_thread_or_that_overlap_are_set_aside():
    trace = make_trace([step(1, 0, 100), step(2, 0, 90, tid=2), step(3, 80, 180), step(4, 180, 280)])
    rows = marked_steps(trace)
    assert rows["aside"].tolist() == [False, True, True, False]
    assert rows["counted"].tolist() == [True, False, False, True]


def test_the_only_step_that_is_not_aside_is_counted_also_with_an_open_range():
    rows = marked_steps(make_trace([step(1, 0, 10, tid=2), step(2, 5, 45)], [op("a", 20, 30, finished=False)]))
    assert (rows["aside"].tolist(), rows["counted"].tolist()) == ([True, False], [False, True])


def test_a_bundle_whose_recorder_counted_its_steps_has_no_partial_one():
    events = [step(i, 100 * i, 100 * i + 100) for i in range(4)] + [step(4, 400, 420)]
    assert marked_steps(make_trace(events))["partial"].tolist() == [False] * 4 + [True]
    assert not marked_steps(make_bundle(events, options={"recorded_steps": 5}))["partial"].any()
