"""rint, the nearest integer and of two the even one."""

import pytest

from handgrad.page.checks import Page

GAP = r"$r(x) = h\, \mathrm{rint}(x/h)$ "


@pytest.mark.parametrize("x, nearest", [(0.5, 0), (1.5, 2), (2.5, 2), (-2.5, -2), (2.51, 3)])
def test_rint_takes_the_even_one_of_two(x, nearest):
    assert Page(r"$$ y = \mathrm{rint}(x) $$ (eq-a)").number("eq-a", x=x) == nearest


def test_a_small_step_is_lost_and_a_larger_one_is_not():
    lost = r"$$ r(n h + \delta) = n h \quad\text{if } 2 \delta < h $$ (eq-a)"
    Page(GAP + lost).given("r(x)", letters="h, delta > 0; n < 2048").holds("eq-a", draws=9)
    wrong = Page(GAP + lost.replace(r"2 \delta <", r"\delta <"))
    with pytest.raises(AssertionError):
        wrong.given("r(x)", letters="h, delta > 0; n < 2048").holds("eq-a", draws=20)


def test_a_sequence_is_computed_from_step_1():
    weights = Page(r"$$ a_{ti} = i + 10 t $$ (eq-a)").given("eq-a", letters="t, i steps")
    assert weights.compute("a", {"steps": 2}, {}).tolist() == [[11, 12], [21, 22]]
