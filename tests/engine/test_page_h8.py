"""The reader of printed formulas: e as an index and as a base; names that begin as an array does."""

import pytest

from handgrad.page import Page, Unreadable


def test_the_exponential_stays_one_where_e_is_an_index():
    page = Page("$$ u_e = \\sum_j e^{s_j} v_{je} $$ (eq-u) $$ u_e = \\sum_j \\exp(s_j) v_{je} $$ (eq-same)")
    sums = page.given("eq-u", letters="s (S); v (S, E)")
    sums.prove("eq-same")
    sums.holds("eq-same")


def test_no_function_has_an_argument_that_is_called_e():
    page = Page("$$ f(e) = e^2 $$ (eq-f)")
    with pytest.raises(Unreadable, match="called e"):
        page.given("eq-f")


def test_a_name_below_is_no_index_of_an_array_of_that_letter():
    page = Page(
        "$m_p = \\sum_i c_{pi}$ and $m_{\\mathrm{all}} = \\sum_p m_p$ "
        "$$ m_{\\mathrm{all}} = \\sum_{p,i} c_{pi} $$ (eq-all) $$ m_p = \\sum_{p,i} c_{pi} $$ (eq-wrong)"
    )
    counts = page.given("m_p", r"m_{\mathrm{all}} = \sum_p m_p", letters="c (P, N)")
    counts.prove("eq-all")
    with pytest.raises((Unreadable, AssertionError)):
        counts.prove("eq-wrong")


def test_a_sum_that_goes_beyond_its_axis_is_refused():
    text = "$h_t = \\sum_{s=0}^{t} a_{ts} x_s$ $$ h_t = \\sum_{s=0}^{%s} a_{ts} x_s $$ (eq-h)"
    letters = "a (T, T); x (T)"
    Page(text % "t").given("h_t = \\sum_{s=0}^{t} a_{ts} x_s", letters=letters).holds("eq-h")
    with pytest.raises((Unreadable, AssertionError)):
        Page(text % "t + 1").given("h_t = \\sum_{s=0}^{t} a_{ts} x_s", letters=letters).holds("eq-h")
    later = "$$ \\sum_{t=s}^{%s} a_{ts} = \\sum_{t} [t \\ge s] a_{ts} $$ (eq-later)"
    Page(later % "T - 1").given(letters="a (T, T)").holds("eq-later")
    with pytest.raises(Unreadable, match="goes up to"):
        Page(later % "T + 1").given(letters="a (T, T)").holds("eq-later")
