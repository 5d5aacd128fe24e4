"""Functions in printed formulas: of one or two arguments, their signs, logarithms and orders."""

import numpy as np
import pytest

from handgrad.page import Page, Unreadable


def test_a_function_may_have_two_arguments_that_differ_by_a_prime():
    page = Page(
        r"The cost $\ell(w, w') = \ln(1 + e^{-w w'})$. $$ \ell(1, 2) = \ln(1 + e^{-2}) < \ln 2 $$ (eq-a)"
    )
    page.given(r"\ell(w, w') = \ln(1 + e^{-w w'})").prove("eq-a")
    wrong = Page(page.text.replace("< ", "> "))
    with pytest.raises(AssertionError):
        wrong.given(r"\ell(w, w') = \ln(1 + e^{-w w'})").prove("eq-a")
    with pytest.raises(Unreadable):
        Page(r"$f(w_1, w_2) = w_1 w_2$ $$ f(1, 2) = 2 $$ (eq-a)").given("f(w_1, w_2) = w_1 w_2")


def test_an_exponential_of_a_real_number_is_positive():
    page = Page(r"$$ y = \sum_k e^{x_k} $$ (eq-y) $$ y > 0 $$ (eq-a) $$ y < 0 $$ (eq-b)")
    given = page.given("eq-y", letters="x (D)")
    given.prove("eq-a")
    with pytest.raises(AssertionError):
        given.prove("eq-b")


def test_the_logarithm_of_a_mixture_is_taken_case_by_case():
    page = Page(
        r"$$ q_j = (1 - a)\,\delta_{jy} + \frac{a}{V} $$ (eq-q)"
        r"$$ \sum_j \ln q_j = \ln\Big(1 - a + \frac aV\Big) + (V - 1) \ln\frac aV $$ (eq-a)"
        r"$$ \sum_j \ln q_j = \ln\Big(1 - a + \frac aV\Big) + V \ln\frac aV $$ (eq-b)"
    )
    given = page.given("eq-q", letters="y < V; a in (0, 1)")
    given.prove("eq-a")
    with pytest.raises(AssertionError):
        given.prove("eq-b")


def test_a_condition_for_all_tokens_reaches_a_definition_for_one():
    page = Page(r"$$ y = \sum_j p_j $$ (eq-y) $$ y_t = 1 \quad\text{if all } p_{tj} = 1/V $$ (eq-a)")
    page.given("eq-y", letters="p (T, V)").prove("eq-a")


def test_a_trace_is_a_claim_and_defines_nothing():
    page = Page(
        r"$$ \mathbf{A} = \mathbf{I} - \mathbf{X}, \qquad "
        r"\operatorname{tr}\mathbf{A} = D - \operatorname{tr}\mathbf{X} $$ (eq-a)"
    )
    page.given("eq-a", letters="x (D, D)").prove("eq-a")


def test_a_list_of_values_may_hold_arrays():
    page = Page(r"$$ r \approx \frac{1}{m} \sum_c n_c\, G_c $$ (eq-a)")
    values = dict(n=np.array([1.0, 2.0]), G=np.array([3.0, 4.0]))
    assert page.given().number("eq-a", m=2, **values) == 5.5


def test_the_order_of_a_derivative_is_the_number_of_its_letters():
    page = Page(r"$$ L = x^2 y $$ (eq-l) $$ \frac{\partial^2 L}{\partial x\, \partial y} = 2 x $$ (eq-a)")
    page.given("eq-l", letters="x; y").prove("eq-a")
    with pytest.raises(Unreadable):
        Page(page.text.replace(r"\partial^2", r"\partial")).given("eq-l", letters="x; y").prove("eq-a")


def test_the_argument_of_a_function_may_have_a_power():
    page = Page(
        r"$$ E(h) = h^2 + \frac{a}{h} $$ (eq-e) "
        r"$$ h_\star = (a/2)^{1/3}, \quad E(h_\star) = 3 h_\star^2 $$ (eq-a)"
    )
    page.given("eq-e", "eq-a", letters="a > 0").prove("eq-a")


def test_one_minus_a_probability_is_positive():
    page = Page(r"$$ p = \sigma(z) $$ (eq-p) $$ p\,(1 - p) > 0 $$ (eq-a) $$ 1 - 2 p > 0 $$ (eq-b)")
    given = page.given("eq-p", letters="z; sigma logistic")
    given.prove("eq-a")
    with pytest.raises(AssertionError):
        given.prove("eq-b")


def test_rounding_is_computed_and_not_proved():
    definition = r"$$ h = 2^{-f}, \quad \mathrm{round}(x) = h\, \mathrm{rint}(x/h) $$ (eq-a)"
    page = Page(definition + r" $$ \mathrm{round}(2y) = 2 \mathrm{round}(y) $$ (eq-b)")
    rounded = page.given("eq-a", letters="f; y")
    assert rounded.number("eq-a", x=0.8, f=1) == 1
    with pytest.raises(AssertionError):
        rounded.holds("eq-b")
    with pytest.raises(Unreadable, match="rounding"):
        rounded.prove("eq-b")
