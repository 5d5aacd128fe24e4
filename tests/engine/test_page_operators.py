"""Operators at other arrays, as in LN_ε(λ𝐱), and functions known by their Jacobians."""

import pytest

from handgrad.page.checks import Page
from handgrad.page.tree import Unreadable

UNIT = r"""
$$
r = \frac{1}{\sqrt{\sum_k x_k^2 + \varepsilon}}, \qquad u_j = r\, x_j
$$ (eq-unit)

Write $\mathrm{U}_\varepsilon(\mathbf{x}) = \mathbf{u}$.

$$
\mathrm{U}_{\lambda^2 \varepsilon}(\lambda\, \mathbf{x}) = \mathrm{U}_\varepsilon(\mathbf{x})
$$ (eq-scale)

$$ \frac{\partial u_j}{\partial x_k} = r\, \delta_{jk} - r\, u_j\, u_k $$ (eq-slope)
"""
OPERATOR = r"\mathrm{U}_\varepsilon(\mathbf{x}) = \mathbf{u}"


def given(text=UNIT):
    letters = "x (D); epsilon > 0; lambda > 0"
    return Page(text).given("eq-unit", OPERATOR, letters=letters, columns=True)


def test_an_operator_is_its_value_at_another_array():
    given().prove("eq-scale", "eq-slope")
    given().holds("eq-scale", "eq-slope")


@pytest.mark.parametrize(
    "old, new",
    [
        (r"_{\lambda^2 \varepsilon}", r"_{\lambda \varepsilon}"),
        (r"_{\lambda^2 \varepsilon}", r"_\varepsilon"),
        (r"(\lambda\, \mathbf{x})", r"(\mathbf{x})"),
        (r"(\lambda\, \mathbf{x})", r"(-\lambda\, \mathbf{x})"),
    ],
)
def test_an_operator_at_a_wrong_array_is_refuted(old, new):
    wrong = given(UNIT.replace(old, new))
    with pytest.raises(AssertionError, match="not equal"):
        wrong.prove("eq-scale")
    with pytest.raises(AssertionError, match="not equal at"):
        wrong.holds("eq-scale")


@pytest.mark.parametrize(
    "new",
    [
        r"\mathrm{U}(\lambda\, \mathbf{x})",
        r"\mathrm{U}_{\lambda^2 \varepsilon}^2(\lambda\, \mathbf{x})",
        r"\mathrm{U}_{\lambda^2 \varepsilon}(\lambda)",
    ],
)
def test_an_operator_is_refused_where_its_definition_says_nothing(new):
    page = given(UNIT.replace(r"\mathrm{U}_{\lambda^2 \varepsilon}(\lambda\, \mathbf{x})", new))
    with pytest.raises(Unreadable):
        page.prove("eq-scale")


def test_a_number_and_an_array_of_one_name_are_refused():
    page = Page(r"$$ m_c = \sum_a n_{ca}, \qquad m = \sum_c m_c $$ (eq-a)")
    with pytest.raises(Unreadable, match="two letters with the name m"):
        page.given("eq-a", letters="n (C, V)")


def test_a_number_takes_an_array_by_its_name():
    page = Page(r"$$ L = \sum_{c,\,a} p_a\, n_{ca} $$ (eq-a)").given(letters="n (C, V); p (V)")
    assert page.number("eq-a", C=2, V=3, n=[[1, 2, 3], [4, 5, 6]], p=[1, 0, 10]) == 5 + 90


BRANCH = r"""
$$ \mathbf{y} = \mathbf{x} + f(\mathrm{LN}(\mathbf{x})) $$ (eq-pre)

$$
\mathrm{d}\mathbf{x} = \mathrm{d}\mathbf{y} + \mathbf{G}^\top \mathbf{J}^\top\, \mathrm{d}\mathbf{y}
$$ (eq-dx)
"""


def branch(text=BRANCH):
    letters = "x (D); f (D) function by J; LN (D) function by G"
    return Page(text).given("eq-pre", letters=letters, columns=True)


def test_a_function_is_known_by_its_jacobian():
    branch().prove("eq-dx")
    branch().holds("eq-dx")


@pytest.mark.parametrize(
    "old, new",
    [
        (r"\mathbf{G}^\top \mathbf{J}^\top", r"\mathbf{J}^\top \mathbf{G}^\top"),
        (r"\mathbf{G}^\top \mathbf{J}^\top", r"\mathbf{G} \mathbf{J}^\top"),
        (r"= \mathrm{d}\mathbf{y} +", "="),
    ],
)
def test_a_wrong_gradient_of_a_function_is_refuted(old, new):
    with pytest.raises(AssertionError, match="not equal"):
        branch(BRANCH.replace(old, new)).prove("eq-dx")


def test_a_function_is_refused_at_a_second_point_and_for_second_derivatives():
    with pytest.raises(Unreadable, match="two points"):
        branch(BRANCH + r"$$ f(\mathbf{x}) = f(\mathrm{LN}(\mathbf{x})) $$ (eq-two)").prove("eq-two")
    with pytest.raises(Unreadable, match="second derivative"):
        branch(
            BRANCH + r"$$ \frac{\partial}{\partial x_i} \frac{\partial f_k}{\partial x_j} = 0 $$ (eq-two)"
        ).prove("eq-two")
    with pytest.raises(Unreadable, match="at which point"):
        Page(r"$$ f_k = 0 $$ (eq-a)").given(letters="f (D) function by J").prove("eq-a")


def test_a_printed_matrix_is_read_cell_by_cell():
    matrix = r"$$ \mathbf{A} = \begin{pmatrix} 0 & 2 \\ -1 & 0 \end{pmatrix} $$ (eq-a)"
    tex = matrix + r"$$ L = a_{0,1} + 3\, a_{1,0} $$ (eq-b)"
    assert Page(tex).given("eq-a").number("eq-b") == -1
