import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.diffs.changes import changes

TABLES = st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=4, max_size=8)


def table(**columns: list[float]) -> pd.DataFrame:
    return pd.DataFrame(columns).astype(float)


def statuses(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, str]:
    return changes([before], [after]).set_index("name")["status"].to_dict()


def test_six_steps_before_and_four_after_tell_what_changed_came_and_went():
    before = table(gemm=[200, 202, 198, 201, 199, 200], unfused=[50, 51, 49, 50, 50, 50], noisy=[10, 30, 10, 30, 20, 20])
    after = table(gemm=[150, 151, 149, 150], fused=[20, 21, 19, 20], noisy=[30, 10, 25, 15])
    assert statuses(before, after) == {"gemm": "changed", "unfused": "removed", "fused": "added", "noisy": "within_noise"}


def test_what_is_in_a_few_steps_of_one_side_has_neither_come_nor_gone():
    steady, log = [10.0] * 10, [0.0] * 9 + [5.0]
    assert statuses(table(a=steady), table(a=steady, log=log)) == {"a": "within_noise", "log": "within_noise"}
    assert statuses(table(a=steady, log=log), table(a=steady)) == {"a": "within_noise", "log": "within_noise"}


def test_a_word_is_said_where_the_interval_excludes_zero():
    random = np.random.default_rng(1)
    before, after = random.normal(100, 5, (10, 40)), random.normal(100, 5, (10, 40))
    after[:, ::4] -= 30
    rows = changes([pd.DataFrame(before)], [pd.DataFrame(after)])
    excluded = (rows["low_change_ns"] > 0) | (rows["high_change_ns"] < 0)
    assert (rows["status"] == "changed").tolist() == excluded.tolist()
    assert sorted(rows.loc[excluded, "name"]) == [*range(0, 40, 4)]


@given(TABLES, TABLES)
def test_rows_add_up_and_their_intervals_hold_the_change(before: list[list[int]], after: list[list[int]]):
    old, new = (pd.DataFrame(rows, columns=["a", "b", "c"]).astype(float) for rows in (before, after))
    rows = changes([old], [new])
    assert rows["change_ns"].sum() == pytest.approx(new.sum(axis=1).mean() - old.sum(axis=1).mean(), abs=1e-9)
    told = rows[rows["low_change_ns"].notna()]
    assert (told["low_change_ns"] <= told["change_ns"] + 1e-9).all()
    assert (told["high_change_ns"] >= told["change_ns"] - 1e-9).all()


@given(TABLES)
def test_a_run_against_itself_has_no_changed_row(steps: list[list[int]]):
    one = pd.DataFrame(steps, columns=["a", "b", "c"]).astype(float)
    assert set(changes([one], [one])["status"]) == {"within_noise"}


def test_three_steps_tell_nothing():
    rows = changes([table(a=[1, 1, 1])], [table(b=[2, 2, 2, 2])])
    assert set(rows["status"]) == {"too_few_steps"}
    assert rows["low_change_ns"].isna().all()


def test_where_no_bound_is_known_there_is_no_interval():
    turns, gone = table(a=[1, 1, 1, 1], b=[1, 0, 1, 0]), table(a=[0, 0, 0, 0], b=[1, 0, 1, 0])
    rows = changes([turns], [gone])
    assert rows["low_change_ns"].isna().all()
    assert set(rows["status"]) == {"within_noise"}


def test_of_several_runs_each_counts_once_and_a_column_that_a_run_lacks_is_zero_in_it():
    long, short = table(a=[10] * 40, b=[4] * 40), table(a=[20] * 4)
    rows = changes([long, short], [table(a=[15] * 6), table(a=[15] * 6)]).set_index("name")
    assert rows.loc["a", ["before_ns", "after_ns"]].tolist() == [15, 15]
    assert rows.loc["b", ["before_ns", "after_ns", "status"]].tolist() == [2, 0, "within_noise"]


def test_four_runs_a_side_tell_what_changed_between_runs():
    def side(*means: float) -> list[pd.DataFrame]:
        return [table(a=[mean] * 6, b=[10 + i] * 6) for i, mean in enumerate(means)]

    rows = changes(side(100, 101, 99, 100), side(60, 61, 59, 60)).set_index("name")
    assert rows["status"].to_dict() == {"a": "changed", "b": "within_noise"}


def test_without_columns_there_are_no_rows():
    assert changes([pd.DataFrame(index=range(6))], [pd.DataFrame(index=range(6))]).empty
