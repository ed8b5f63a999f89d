import numpy as np

from longpole.analyze.grouping import first_rows, group_sums


def test_sums_are_exact_beyond_the_floats_and_leave_out_what_has_no_group():
    group, value = np.array([1, 0, -1, 1], np.int32), np.array([2**60, 5, 7, 1])
    assert group_sums(group, value, 3).tolist() == [5, 2**60 + 1, 0]


def test_the_first_row_of_each_group_is_that_where_its_number_first_appears():
    assert first_rows(np.array([-1, 0, 0, 1, -1, 0, 2, 1], np.int32)).tolist() == [1, 3, 6]
