import numpy as np
import pytest

from longpole.analyze.student import student_chance, student_quantile

PRINTED = {1: 12.7062, 2: 4.3027, 3: 3.1824, 5: 2.5706, 10: 2.2281, 30: 2.0423, 120: 1.9799, 1e6: 1.9600}  # of 5 %, in any table


def test_quantiles_are_those_of_printed_tables():
    assert student_quantile(0.05, [*PRINTED]) == pytest.approx([*PRINTED.values()], rel=2e-4)
    assert student_quantile(0.001, [4, 60]) == pytest.approx([8.6103, 3.4602], rel=5e-4)


def test_with_one_degree_of_freedom_it_is_the_tangent():
    for chance in (0.5, 0.05, 1e-4):
        assert student_quantile(chance, 1.0) == pytest.approx(1 / np.tan(np.pi * chance / 2), rel=1e-3)


def test_fewer_than_one_degree_of_freedom_count_as_one():
    assert student_quantile(0.05, 0.3) == student_quantile(0.05, 1.0)


@pytest.mark.parametrize("freedom", [1.0, 2.5, 14.0, 78.0])
def test_the_chance_of_a_quantile_is_the_chance_it_was_made_from(freedom: float):
    for chance in (0.9, 0.05, 1e-3, 1e-6):
        assert student_chance(float(student_quantile(chance, freedom)), freedom) == pytest.approx(chance, rel=0.01)


def test_nothing_is_beyond_every_value():
    assert student_chance(0.0, 5.0) == pytest.approx(1)
    assert 0 < student_chance(np.inf, 5.0) < 1e-20
