"""The reader of pages: operators at other arrays, as in LN_ε(λ𝐱), and letters that share a name."""

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
    with pytest.raises(AssertionError, match="not = at"):
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
