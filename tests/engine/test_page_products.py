"""Products over an index, in closed form; functions printed as vectors."""

import pytest

from handgrad.page import Page
from handgrad.page.algebras import Unprovable

TELESCOPE = r"$$ \prod_{k=\ell}^{N-1} \frac{k + 2}{k + 1} = \frac{N + 1}{\ell + 1} $$ (eq-a)"
MAP = r"""
$f(\mathbf{x}) = (2 x_1, x_0)$

$$ f(\mathbf{x}) = \begin{pmatrix} 0 & 2 \\ 1 & 0 \end{pmatrix} \mathbf{x} $$ (eq-map)
"""


def test_a_product_has_a_closed_form():
    Page(TELESCOPE).given(letters="ell < N").prove("eq-a")
    Page(TELESCOPE).given(letters="ell < N").holds("eq-a")


@pytest.mark.parametrize(
    "old, new", [("k + 2", "k + 3"), (r"k=\ell", "k=0"), ("{N + 1}", "{N}"), (r"\prod", r"\sum")]
)
def test_a_wrong_product_is_refuted(old, new):
    wrong = Page(TELESCOPE.replace(old, new)).given(letters="ell < N")
    with pytest.raises((AssertionError, Unprovable)):  # no sum under a condition is proved
        wrong.prove("eq-a")
    with pytest.raises(AssertionError):
        wrong.holds("eq-a")


@pytest.mark.parametrize("factor", ["(k - 1)", "x_k", r"\frac{1}{k}"])
def test_a_product_of_what_may_be_zero_is_not_proved(factor):
    page = Page(rf"$$ \prod_{{k=0}}^{{N-1}} {factor} = 0 $$ (eq-a)").given(letters="x (N)")
    with pytest.raises(Unprovable):
        page.prove("eq-a")


def test_a_product_leaves_out_what_its_limits_leave_out():
    page = Page(r"$$ \prod_{k=2}^{N-1} x_k = \frac{\prod_{k=0}^{N-1} x_k}{x_0 x_1} $$ (eq-a)")
    page.given(letters="x (N)").holds("eq-a")


def test_a_function_printed_as_a_vector():
    given = Page(MAP).given(r"f(\mathbf{x}) = (2 x_1, x_0)", letters="x (2)", columns=True)
    given.prove("eq-map")
    wrong = Page(MAP.replace("0 & 2", "0 & 1"))
    with pytest.raises(AssertionError):
        wrong.given(r"f(\mathbf{x}) = (2 x_1, x_0)", letters="x (2)", columns=True).prove("eq-map")
