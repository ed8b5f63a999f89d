import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.analyze.diffs.matched_changes import matched_changes

TABLES = st.dictionaries(
    st.sampled_from(["gemm_32x32", "gemm_64x32", "gemm_64x64", "f 0x1", "f 0x2", "a", "b", "c"]),
    st.lists(st.integers(0, 1000), min_size=2, max_size=2),
).map(lambda columns: pd.DataFrame(columns, index=range(2)).astype("int64"))


def test_names_that_match_share_a_row_with_their_sum():
    before = pd.DataFrame({"gemm_8x8": [10, 30], "gemm_16x8": [100, 100], "relu": [5, 5]})
    rows = matched_changes([before], [pd.DataFrame({"gemm_32x8": [50, 50], "relu": [5, 5], "new": [1, 1]})])
    assert rows[["name", "before_ns", "after_ns", "change_ns"]].values.tolist() == [
        ["gemm_32x8", 120, 50, -70], ["new", 0, 1, 1], ["relu", 5, 5, 0],
    ]  # fmt: skip
    assert rows["names_before"].tolist() == [("gemm_16x8", "gemm_8x8"), (), ("relu",)]
    assert rows["names_after"].tolist() == [("gemm_32x8",), ("new",), ("relu",)]
    assert rows["was"].tolist() == ["gemm_16x8 and 1 more", "", ""]
    assert rows["status"].tolist() == ["too_few_steps"] * 3


def test_of_more_names_than_rows_the_smallest_share_one():
    before = pd.DataFrame({"a": [9], "b": [2], "c": [1]})
    rows = matched_changes([before], [pd.DataFrame({"a": [5], "d": [3]})], most=2)
    assert rows[["name", "change_ns"]].values.tolist() == [["a", -4], ["(3 smaller)", 0]]
    assert rows["names_before"].tolist() == [("a",), ()]


@given(TABLES, TABLES, st.sampled_from([2, 1000]))
def test_rows_add_up_to_the_tables(before: pd.DataFrame, after: pd.DataFrame, most: int):
    rows = matched_changes([before], [after], most)
    assert rows["before_ns"].sum() == pytest.approx(before.sum(axis=1).mean())
    assert rows["after_ns"].sum() == pytest.approx(after.sum(axis=1).mean())
    assert len(rows) <= max(most, 1)
