from make_trace import annotation, kernel, launch, loop, make_trace, op, step

from longpole.analyze.advice.graph_breaks import graph_breaks

COMPILE = "_compile.compile_inner (dynamo_timed)"


def test_two_regions_with_operators_between_them_are_a_likely_graph_break():
    (found,) = graph_breaks(make_trace(*regions("0/0", "1/0", between=["aten::mul", "aten::add"])))
    assert (found.id, found.changes, found.saving) == ("graph_breaks", (), None)
    assert found.problem.values == {"regions_count": 2, "ops_count": 2, "ops": "aten::mul, aten::add"}
    assert "TORCH_LOGS" in found.advice.template


def test_regions_without_operators_between_them_break_nothing():
    assert not list(graph_breaks(make_trace(*regions("0/0", "1/0", between=[]))))


def test_one_region_called_again_and_again_is_compiled_so_on_purpose():
    assert not list(graph_breaks(make_trace(*regions("0/0", "0/0", between=["aten::mul"]))))
    assert not list(graph_breaks(make_trace(*regions("0/0", "0/1", between=["aten::mul"]))))


def test_one_region_is_whole():
    assert not list(graph_breaks(make_trace([step(1, 0, 100), op("Torch-Compiled Region: 0/0", 0, 50), op("aten::mul", 60, 70)])))


def test_a_region_that_runs_inside_another_follows_a_break_with_no_operator_there():
    events = [op("Torch-Compiled Region: 0/0", 0, 90), annotation("## Call CompiledFxGraph a ##", 5, 20)]
    (found,) = graph_breaks(make_trace([step(1, 0, 100)], events, [op("Torch-Compiled Region: 1/0", 50, 80)]))
    assert (found.best_confidence, found.problem.values["nested_count"]) == ("high", 1)


def test_compiling_in_later_steps_is_told_with_its_time():
    (found,) = graph_breaks(make_trace(loop([1000, 300, 200, 200], compiling)))
    assert (found.id, found.changes) == ("recompiles", ())
    assert found.saving.expected_ns == 290_000 / 4
    assert (found.evidence[1].start_ns, found.evidence[1].end_ns) == (1_005_000, 1_295_000)


def test_compiling_in_the_first_step_is_how_it_has_to_be():
    assert not list(graph_breaks(make_trace(loop([1000, 200, 200], compiling))))


def test_without_compiled_code_there_is_nothing_to_say():
    assert not list(graph_breaks(make_trace([step(1, 0, 100), op("aten::mul", 0, 50)])))


def compiling(start, end):
    """In steps that take longer than 200 µs, but for the first and the last 5 µs."""
    if end - start <= 200:
        return []
    return [annotation(COMPILE, start + 5, end - 5), annotation("backend_compile (dynamo_timed)", start + 10, end - 10)]


def regions(*names, between):
    calls, work = [step(1, 0, 100 * (len(names) + len(between)))], []
    order = [f"Torch-Compiled Region: {names[0]}", *between, *(f"Torch-Compiled Region: {name}" for name in names[1:])]
    for number, name in enumerate(order):
        calls += [op(name, 100 * number, 100 * number + 50), launch(number + 1, 100 * number + 10, 100 * number + 15)]
        work.append(kernel("k", 100 * number + 20, 100 * number + 40, correlation=number + 1))
    return calls, work
