from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_trace import Event, annotation, frame, make_trace, op, step

from longpole.analyze.diffs.call_changes import (
    MOST_ROWS,
    MOST_SHARE,
    NOTABLE_SHARE,
    OWN,
    REST,
    WHOLE_SHARE,
    call_changes,
    rows_of,
)
from longpole.analyze.step_paths import StepPaths
from longpole.analyze.trace import Trace

Tree = tuple[int, dict[str, Any]]  # own ns in each of two steps, and the trees inside by name
EMPTY: Tree = (0, {})


def run(*calls: Any, own: float = 10, steps: int = 4, first: int = 0) -> Trace:
    """Steps of these calls, one after the other, and `own` after them. A call: (name, its own time, *calls inside)."""

    def laid(call: Any, at: float) -> tuple[list[Event], float]:
        name, end = call[0], at + call[1]
        inner: list[Event] = []
        for one in call[2:]:
            events, end = laid(one, end)
            inner += events
        return [(op if "::" in name else frame if "(" in name else annotation)(name, at, end), *inner], end

    width, parts = own + sum(map(whole, calls)), []
    for number in range(steps):
        at = number * width
        for call in calls:
            events, at = laid(call, at)
            parts.append(events)
    return make_trace([step(first + n, n * width, (n + 1) * width) for n in range(steps)], *parts)


def whole(call: Any) -> float:
    return call[1] + sum(map(whole, call[2:]))


def told(before: Trace, after: Trace) -> list[tuple[tuple[str, ...], float, str]]:
    """Paths with their change in us, and its word; without OWN and REST."""
    rows = call_changes([before], [after]).rows
    return [(p, c / 1000, s) for p, c, s in zip(rows["path"], rows["change_ns"], rows["status"], strict=True) if p]


def test_the_way_leads_to_the_lowest_call_that_holds_the_change():
    before = run(("forward", 2, ("aten::linear", 2, ("aten::mm", 50))), ("aten::add", 20))
    after = run(("forward", 2, ("aten::linear", 2, ("aten::mm", 20))), ("aten::add", 20))
    assert told(before, after) == [(("forward", "aten::linear", "aten::mm"), -30, "changed")]


def test_where_the_change_spreads_the_call_around_it_is_told_with_what_changed_inside():
    before = run(("sampling", 5, ("aten::a", 14), ("aten::b", 13), ("aten::c", 12), ("aten::d", 11)), ("aten::mm", 20))
    after = run(("sampling", 4, ("aten::a", 4), ("aten::b", 4), ("aten::c", 4), ("aten::d", 4)), ("aten::mm", 20))
    assert told(before, after) == [(("sampling",), -35, "changed")]
    row = call_changes([before], [after]).rows.iloc[0]
    assert (row["before_self_ns"], row["after_self_ns"], row["self_change_ns"]) == (5_000, 4_000, -1_000)
    assert row["inside"] == (("aten::a", -10_000), ("aten::b", -9_000), ("aten::c", -8_000))


def test_two_calls_that_hold_it_together_are_both_told():
    before = run(("fwd", 5, ("aten::a", 30), ("aten::b", 30), ("aten::c", 10)), ("aten::mm", 20))
    after = run(("fwd", 5, ("aten::a", 20), ("aten::b", 10), ("aten::c", 9)), ("aten::mm", 20))
    assert told(before, after) == [(("fwd", "aten::b"), -20, "changed"), (("fwd", "aten::a"), -10, "changed")]


def test_a_call_in_anothers_place_is_a_change_of_the_one_around_both():
    before = run(("fwd", 5, ("aten::linear", 60)), ("aten::mm", 20))
    after = run(("fwd", 5, ("Torch-Compiled Region: 0/0", 20)), ("aten::mm", 20))
    assert told(before, after) == [(("fwd",), -40, "changed")]
    assert call_changes([before], [after]).rows.iloc[0]["inside"] == (
        ("aten::linear", -60_000),
        ("Torch-Compiled Region: 0/0", 20_000),
    )


def test_a_call_that_holds_nearly_all_of_the_step_is_the_step():
    before = run(("train.py(1): step", 1, ("aten::a", 30), ("aten::b", 30), ("aten::c", 30)), own=1)
    after = run(("train.py(1): step", 1, ("aten::a", 10), ("aten::b", 10), ("aten::c", 10)), own=1)
    assert [(path, us) for path, us, _ in told(before, after)] == [
        (("train.py(1): step", f"aten::{name}"), -20) for name in "abc"
    ]  # fmt: skip


def test_a_call_that_was_only_put_around_others_is_passed_over():
    before = run(("net.py(1): forward", 2, ("aten::mm", 50)), ("aten::add", 20))
    after = run(("net.py(9): forward", 2, ("m.py(3): _wrapped", 1, ("m.py(4): _call", 1, ("aten::mm", 20)))), ("aten::add", 20))
    assert told(before, after) == [(("net.py(9): forward", "m.py(3): _wrapped", "m.py(4): _call", "aten::mm"), -30, "changed")]
    assert told(after, before) == [(("net.py(1): forward", "aten::mm"), 30, "changed")]


def test_calls_are_aligned_by_canonical_names():
    before = run(("/a/one/net.py(1): forward", 2, ("aten::add.Tensor", 50)), ("aten::mm", 20))
    after = run(("/b/two/net.py(7): forward", 2, ("aten::add", 20)), ("aten::mm", 20))
    row = call_changes([before], [after]).rows.iloc[0]
    assert (row["path"], row["was"], row["change_ns"]) == (
        ("/b/two/net.py(7): forward", "aten::add"),
        "aten::add.Tensor",
        -30_000,
    )


def test_the_steps_own_time_and_what_is_in_no_row_are_told():
    before = run(("aten::mm", 50), ("aten::add", 10), own=20)
    rows = call_changes([before], [run(("aten::mm", 20), ("aten::add", 11), own=25)]).rows
    assert rows[["name", "change_ns", "path"]].values.tolist() == [
        ["aten::mm", -30_000, ("aten::mm",)], [OWN, 5_000, ()], [REST, 1_000, ()],
    ]  # fmt: skip
    assert rows["self_change_ns"].tolist()[:2] == [-30_000, 5_000]
    assert np.isnan(rows["self_change_ns"].iloc[2])


def test_a_run_against_itself_has_no_row_but_these():
    trace = run(("aten::mm", 50), ("aten::add", 10))
    result = call_changes([trace], [trace])
    assert result.rows[["name", "change_ns"]].values.tolist() == [[OWN, 0], [REST, 0]]
    assert not result.stands_out


def test_training_against_inference_tells_what_inference_lacks():
    training = run(("forward", 2, ("aten::mm", 38)), ("AddmmBackward0", 40), ("Optimizer.step#Adam.step", 18))
    assert told(training, run(("forward", 2, ("aten::mm", 38)))) == [
        (("AddmmBackward0",), -40, "removed"), (("Optimizer.step#Adam.step",), -18, "removed"),
    ]  # fmt: skip


def test_steps_are_compared_as_means_whatever_their_numbers_and_how_many_there_are():
    assert told(run(("aten::mm", 50), steps=8), run(("aten::mm", 20), steps=4, first=1000)) == [(("aten::mm",), -30, "changed")]


# ---------------------------------------------------------------------------------------------- against a naive recursion


def trees(names: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    """Names of one depth occur at no other, so that none is passed over."""
    own = st.integers(0, 50)
    if not names:
        return own.map(lambda ns: (ns, {}))
    inside = st.dictionaries(st.sampled_from(list(names[0])), trees(names[1:]), max_size=3)
    return st.tuples(own, inside)


def paths_of(tree: Tree) -> StepPaths:
    names, parents, ns = [""], [-1], [tree[0]]
    level = [(0, tree)]
    while level:
        inner = []
        for node, (_, inside) in level:
            for name, one in inside.items():
                names.append(name)
                parents.append(node)
                ns.append(one[0])
                inner.append((len(names) - 1, one))
        level = inner
    nodes = np.arange(len(names))
    steps = np.repeat([0, 1], len(names))
    return StepPaths(2, names, np.array(parents), steps, np.tile(nodes, 2), np.tile(np.array(ns), 2))


def total(tree: Tree) -> int:
    return tree[0] + sum(total(one) for one in tree[1].values())


def parts(before: Tree, after: Tree) -> list[tuple[str, Tree | None, Tree | None]]:
    names = dict.fromkeys([*before[1], *after[1]])
    return [(name, before[1].get(name), after[1].get(name)) for name in names]


def change(before: Tree | None, after: Tree | None) -> int:
    return total(after or EMPTY) - total(before or EMPTY)


def naive(before: Tree, after: Tree) -> set[tuple[tuple[str, ...], int]]:
    whole = total(before), total(after)

    def gross(a: Tree, b: Tree) -> int:
        return abs(b[0] - a[0]) + sum(abs(change(x, y)) for _, x, y in parts(a, b))

    notable = NOTABLE_SHARE * gross(before, after)

    def lowest(path: tuple[str, ...], a: Tree | None, b: Tree | None, left: float) -> set[tuple[tuple[str, ...], int]]:
        here = {(path, change(a, b))}
        if not path or (total(a or EMPTY) >= WHOLE_SHARE * whole[0] > 0 and total(b or EMPTY) >= WHOLE_SHARE * whole[1] > 0):
            split = [p for p in parts(a or EMPTY, b or EMPTY) if abs(change(*p[1:])) > notable]
            return set().union(*(lowest((*path, n), x, y, (1 - MOST_SHARE) * abs(change(x, y))) for n, x, y in split))
        if a is None or b is None:
            return here
        ranked = sorted(parts(a, b), key=lambda p: (-abs(change(*p[1:])), p[0]))
        for best in (ranked[:1], ranked[:2]):
            held = sum(abs(change(x, y)) for _, x, y in best)
            out = gross(a, b) - held
            replaced = any(x is None for _, x, _ in best) and any(y is None for _, _, y in best)
            if held and out <= left and not replaced:
                return set().union(*(lowest((*path, n), x, y, (left - out) * abs(change(x, y)) / held) for n, x, y in best))
        return here

    return lowest((), before, after, 0.0)


@given(trees(("abc", "def", "ghi")), trees(("abc", "def", "ghi")))
def test_rows_add_up_and_are_what_a_naive_recursion_finds(before: Tree, after: Tree):
    rows = rows_of(paths_of(before), paths_of(after))
    assert rows["change_ns"].sum() == pytest.approx(total(after) - total(before))
    assert rows["before_ns"].sum() == pytest.approx(total(before))
    assert rows["after_ns"].sum() == pytest.approx(total(after))
    told = rows[rows["path"].map(len) > 0]
    expected = naive(before, after)
    assert len(told) == min(len(expected), MOST_ROWS)
    changes = dict(expected)
    assert all(ns == pytest.approx(changes[path]) for path, ns in zip(told["path"], told["change_ns"], strict=True))


@given(trees(("abc", "abc", "abc")), trees(("abc", "abc", "abc")))
def test_rows_add_up_where_calls_are_passed_over(before: Tree, after: Tree):
    rows = rows_of(paths_of(before), paths_of(after))
    assert rows["change_ns"].sum() == pytest.approx(total(after) - total(before))
    assert isinstance(rows, pd.DataFrame)


def simulated_paths(random: np.random.Generator, steps: int = 10, calls: int = 60, inside: int = 3) -> StepPaths:
    """Calls with calls inside, each of 10 us ± 20 %, independent in all steps."""
    parent = [-1, *[0] * calls, *np.repeat(np.arange(1, calls + 1), inside)]
    ns = 10_000 * (1 + 0.2 * random.standard_normal(steps * len(parent)))
    step, node = np.divmod(np.arange(steps * len(parent)), len(parent))
    return StepPaths(steps, [f"aten::a{n}" for n in range(len(parent))], np.array(parent), step, node, ns.astype(np.int64))


def test_calls_that_were_chosen_for_how_much_they_changed_are_judged_among_those_they_were_chosen_from():
    random = np.random.default_rng(5)
    pairs = [rows_of(simulated_paths(random), simulated_paths(random)) for _ in range(30)]
    assert sum((rows["status"] != "within_noise").any() for rows in pairs) <= 1
