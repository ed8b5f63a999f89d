from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, allocation, annotation, frame, kernel, launch, make_trace, op, step

from longpole.analyze.analyses.op_table import OpTable, op_table, op_table_by_shape, op_table_with_frames
from longpole.capture.errors import MissingData


def cells(table: OpTable, *columns: str) -> dict[str, list[int]]:
    return {row["name"]: [row[column] for column in columns] for row in table.rows.to_dict("records")}


def with_id(name: str, start: float, end: float, number: int, **args: object) -> Event:
    return op(name, start, end, **{"External id": number, **args})


def test_self_time_is_what_direct_children_leave():
    table = op_table(make_trace([op("linear", 0, 60), op("addmm", 10, 50), op("copy_", 20, 30), op("linear", 70, 80)]))
    assert cells(table, "count", "self_cpu_ns", "cpu_ns") == {
        "linear": [2, 30_000, 70_000], "addmm": [1, 30_000, 40_000], "copy_": [1, 10_000, 10_000],
    }  # fmt: skip
    assert table.self_cpu_ns == 70_000


def test_a_range_that_only_partly_overlaps_keeps_its_full_self_time():
    assert cells(op_table(make_trace([op("a", 0, 50), op("b", 40, 60)])), "self_cpu_ns") == {"a": [50_000], "b": [20_000]}


def test_threads_nest_apart():
    assert cells(op_table(make_trace([op("a", 0, 50), op("b", 10, 20, tid=2)])), "self_cpu_ns") == {"a": [50_000], "b": [10_000]}


def test_an_only_child_of_the_same_name_counts_once_and_a_recursion_at_every_level():
    only = op_table(make_trace([op("a", 0, 50), op("a", 10, 40)]))
    assert cells(only, "count", "self_cpu_ns", "cpu_ns") == {"a": [1, 50_000, 50_000]}
    two = op_table(make_trace([op("a", 0, 50), op("a", 10, 40), op("b", 40, 50)]))
    assert cells(two, "count", "self_cpu_ns", "cpu_ns") == {"a": [2, 40_000, 80_000], "b": [1, 10_000, 10_000]}


def test_steps_are_one_row_and_an_operator_of_the_same_name_as_a_range_is_another():
    rows = op_table(make_trace([step(1, 0, 10), step(2, 10, 20), op("a", 0, 1), annotation("a", 2, 3)])).rows
    assert list(zip(rows["name"], rows["is_user_annotation"], rows["count"], strict=True)) == [
        ("ProfilerStep*", True, 2), ("a", False, 1), ("a", True, 1),
    ]  # fmt: skip


def test_names_that_torch_hides_are_hidden_and_their_time_stays_with_the_caller():
    table = op_table(make_trace([op("a", 0, 10), op("aten::is_leaf", 2, 4), op("profiler::_record_function_exit", 5, 6)]))
    assert cells(table, "self_cpu_ns") == {"a": [10_000]}


def test_an_unfinished_range_has_no_self_time_and_no_children():
    table = op_table(make_trace([annotation("open", 0, 50, finished=False), op("a", 10, 20)]))
    assert cells(table, "self_cpu_ns", "cpu_ns") == {"open": [0, 50_000], "a": [10_000, 10_000]}


def test_kernels_belong_to_the_operator_with_their_id_and_to_those_around_it():
    host = [with_id("linear", 0, 50, 1), with_id("addmm", 10, 40, 2), launch(9, 20, 25, **{"External id": 2})]
    work = [
        kernel("gemm", 60, 90, **{"External id": 2}),
        kernel("bias", 90, 100, **{"External id": 1}),
        kernel("stray", 100, 105),
    ]
    table = op_table(make_trace(host, work))
    assert cells(table, "self_device_ns", "device_ns") == {
        "linear": [10_000, 40_000], "addmm": [30_000, 30_000], "cudaLaunchKernel": [0, 0],
        "gemm": [30_000, 30_000], "bias": [10_000, 10_000], "stray": [5_000, 5_000],
    }  # fmt: skip
    assert table.self_device_ns == 45_000
    assert table.has_device


def test_annotations_on_the_device_are_rows_outside_of_its_total():
    marks = [kernel("forward", 10, 90, category="gpu_user_annotation")]
    table = op_table(make_trace([op("a", 0, 50)], [kernel("gemm", 10, 20)], marks))
    assert cells(table, "device_ns") == {"a": [0], "gemm": [10_000], "forward": [80_000]}
    assert table.self_device_ns == 10_000


def test_a_runtime_call_nests_in_the_thread_of_the_operator_that_made_it():
    table = op_table(make_trace([with_id("a", 0, 50, 1), launch(9, 10, 30, tid=77, **{"External id": 1})]))
    assert cells(table, "self_cpu_ns") == {"a": [30_000], "cudaLaunchKernel": [20_000]}


def test_a_call_whose_number_equals_an_id_gets_no_kernels_but_is_named():
    host = [with_id("a", 0, 50, 5), launch(5, 60, 65, name="hipEventDestroy")]
    table = op_table(make_trace(host, [kernel("gemm", 10, 40, **{"External id": 5})]))
    assert cells(table, "device_ns")["hipEventDestroy"] == [0]
    assert table.inflated_by_torch == {"hipEventDestroy": 30_000}


def test_memory_is_what_was_allocated_while_a_range_was_open_on_any_thread():
    host = [op("a", 0, 50), op("b", 10, 20), op("other", 12, 30, tid=2)]
    memory = [allocation(5, 64), allocation(15, 100), allocation(40, -64), allocation(60, 8), allocation(15, 7, device_type=1)]
    table = op_table(make_trace(host, [op("last", 70, 80)], memory))
    assert cells(table, "self_cpu_bytes", "cpu_bytes", "device_bytes") == {
        "a": [0, 100, 7], "b": [100, 100, 7], "other": [100, 100, 7], "[memory]": [8, 8, 0], "last": [0, 0, 0],
    }  # fmt: skip
    assert table.has_memory


def test_an_allocation_on_either_border_of_a_range_is_within_it():
    table = op_table(make_trace([op("a", 10, 20)], [allocation(10, 64), allocation(20, 100)]))
    assert cells(table, "cpu_bytes") == {"a": [164]}


def test_frames_take_time_only_where_torch_lets_them():
    trace = make_trace([op("a", 0, 50), frame("f.py(1): g", 10, 40), op("b", 20, 30)])
    assert cells(op_table(trace), "self_cpu_ns") == {"a": [40_000], "b": [10_000]}
    assert cells(op_table_with_frames(trace), "self_cpu_ns") == {"a": [20_000], "f.py(1): g": [20_000], "b": [10_000]}


def test_by_shape_the_same_operator_has_a_row_for_each():
    calls = [op("mm", 10 * i, 10 * i + 5, **{"Input Dims": [[size], []]}) for i, size in enumerate((2, 2, 3))]
    rows = op_table_by_shape(make_trace(calls, record_shapes=1)).rows
    assert rows[["input_shapes", "count"]].to_numpy().tolist() == [["[[2], []]", 2], ["[[3], []]", 1]]


def test_what_was_not_captured_is_missing():
    with pytest.raises(MissingData, match="no input shapes"):
        op_table_by_shape(make_trace([op("a", 0, 1)]))
    with pytest.raises(MissingData, match="no operators"):
        op_table(make_trace([frame("f.py(1): g", 0, 5)]))


RANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(1, 12), st.integers(1, 2)), min_size=1, max_size=10
)


@given(RANGES)
def test_the_table_agrees_with_a_stack_and_torchs_removal_of_duplicates(ranges: list[tuple[str, int, int, int]]):
    found = op_table(make_trace([op(name, start, start + width, tid) for name, start, width, tid in ranges]))
    assert cells(found, "count", "self_cpu_ns", "cpu_ns") == plain_table(ranges)


def plain_table(ranges: list[tuple[str, int, int, int]]) -> dict[str, list[int]]:
    nodes = sorted(((start, start + width, tid, name) for name, start, width, tid in ranges), key=lambda n: (n[0], -n[1]))
    children: dict[int, list[int]] = defaultdict(list)
    stacks: dict[int, list[int]] = defaultdict(list)
    for row, (_, end, tid, _) in enumerate(nodes):
        stack = stacks[tid]
        while stack and (nodes[row][0] >= nodes[stack[-1]][1] or end > nodes[stack[-1]][1]):
            stack.pop()
        if stack:
            children[stack[-1]].append(row)
        stack.append(row)
    gone: set[int] = set()
    while single := [
        (up, down[0]) for up, down in children.items() if up not in gone and len(down) == 1 and nodes[up][3] == nodes[down[0]][3]
    ]:
        up, down = single[0]
        gone.add(down)
        children[up] = children.pop(down, [])
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row, (start, end, _, name) in enumerate(nodes):
        if row not in gone:
            inner = sum(nodes[child][1] - nodes[child][0] for child in children.get(row, []))
            sums[name].update(count=1, self=1000 * (end - start - inner), total=1000 * (end - start))
    return {name: [sums[name]["count"], sums[name]["self"], sums[name]["total"]] for name in sums}
