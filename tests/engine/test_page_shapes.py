r"""The letters that a page's tables of shapes declare, so that no cell declares them again."""

import numpy as np
import pytest

from handgrad.page import Page, Unreadable

TABLE = r"""
| Letter | Shape | |
| :-- | :-- | :-- |
| $\mathbf{X}$, $\mathbf{b}$ | $(T, D)$, $(F,)$ | tokens, constants |
| $\mathbf{W}$, $\mathrm{d}\mathbf{W}$ | $(D, F)$ | weights, and the gradient by them |
| $\mathbf{Y}$ | $(T, F)$ | outputs |
| $y$, $q$ | $(T)$ below $F$, $(T, F)$ distribution | wanted |
| $c$ | $(T)$ in $\{0, 1\}$ | counted |
| $\mathbf{x}_t$ | $(D)$ | a row, and no letter of its own |
| $\mathbf{b}$ | $(D)$ | said before |
| $f(\mathbf{X})$, $n$ | $(T)$, five | neither |
| *setting* | $(T)$ | no letter |
"""
LINEAR = r"$$ \mathbf{Y} = \mathbf{X}\mathbf{W} + \mathbf{1}\mathbf{b} $$ (eq-linear)"


def page(claim, definition=LINEAR, table=TABLE):
    return Page(f"{table}\n{definition}\n\n$$ {claim} $$ (eq-a)\n")


def test_what_a_table_declares():
    assert Page(TABLE + LINEAR).shapes.items == {
        "x": r"\mathbf{X} (T, D)",
        "b": r"\mathbf{b} (F)",
        "w": r"\mathbf{W} (D, F)",
        "y": r"\mathbf{Y} (T, F)",
        "q": "q (T, F) distribution",
        "c": "c (T) in {0, 1}",
    }


@pytest.mark.parametrize(
    ("true", "false"),
    [
        (r"\mathrm{d}w_{jf} = \sum_t x_{tj} \mathrm{d}y_{tf}", r"\mathrm{d}w_{jf} = x_{tj} \mathrm{d}y_{tf}"),
        (r"\mathrm{d}b_f = \sum_t \mathrm{d}y_{tf}", r"\mathrm{d}b_f = \frac1T \sum_t \mathrm{d}y_{tf}"),
        (r"\mathrm{d}x_{tj} = \sum_f \mathrm{d}y_{tf} w_{jf}", r"\mathrm{d}x_{tj} = \sum_f \mathrm{d}y_{tf}"),
        (r"\sum_f q_{tf} = 1", r"\sum_t q_{tf} = 1"),
        (r"c_t^2 = c_t", r"c_t^2 = 1"),
    ],
)  # fmt: skip
def test_claims_about_its_letters_need_no_declaration(true, false):
    method = "holds" if "c_t" in true else "prove"
    getattr(page(true).given("eq-linear"), method)("eq-a")
    with pytest.raises((AssertionError, Unreadable)):
        getattr(page(false).given("eq-linear"), method)("eq-a")


def test_what_a_cell_declares_counts_before_the_table():
    one = page(r"\mathrm{d}w_{jf} = \sum_{b,t} x_{btj}\,\mathrm{d}y_{btf}")
    one.given("eq-linear", letters="x (B, T, D)").prove("eq-a")
    with pytest.raises((AssertionError, Unreadable)):
        page(r"\mathrm{d}w_{jf} = \sum_t x_{tj}\,\mathrm{d}y_{tf}").given(
            "eq-linear", letters="x (B, T, D)"
        ).prove("eq-a")


def test_what_a_formula_defines_is_not_taken_from_the_table():
    """The 𝐘 of the table is 𝐗𝐖 + 𝟏𝐛⊤ where that is given, and any array where it is not."""
    claim = r"y_{tf} = \sum_j x_{tj} w_{jf} + b_f"
    page(claim).given("eq-linear").prove("eq-a")
    with pytest.raises(AssertionError):
        page(claim).given().holds("eq-a")
    inside = page(r"\sum_f b_f = F \quad\text{where } b_f = 1 + 0 \sum_j w_{jf}", "")
    inside.prove("eq-a")


def test_a_printed_gradient_defines_no_array():
    """The table still says what 𝐗 is where an equation that is given prints its gradient."""
    by_x = r"\mathrm{d}\mathbf{X} = \mathrm{d}\mathbf{Y}\mathbf{A}, \text{with } \mathbf{A} = \mathbf{W}^\top"
    one = Page(f"{TABLE}\n{LINEAR}\n\n$$ {by_x} $$ (eq-a)\n\n$$ a_{{fj}} = w_{{jf}} $$ (eq-b)\n")
    one.given("eq-linear", "eq-a").prove("eq-a", "eq-b")


def test_without_a_table_the_letters_are_missing():
    for table in ("", TABLE.replace(r"$\mathbf{W}$", r"$\mathbf{U}$")):
        with pytest.raises(Unreadable, match="unknown letter"):
            page(r"\mathrm{d}\mathbf{W} = \mathbf{X}^\top \mathrm{d}\mathbf{Y}", table=table).given(
                "eq-linear"
            )


def test_a_number_is_made_of_its_letters_too():
    one = Page(TABLE + r"$$ L = \frac1T \sum_t c_t $$ (eq-a)")
    assert one.number("eq-a", T=4, c=np.array([1, 0, 1, 1])) == 0.75


def test_a_size_that_no_array_has():
    one = Page("$$ 2D + F = F + D + D $$ (eq-a)")
    one.given(letters="D, F size").prove("eq-a")
    assert one.given(letters="D, F size").number("eq-a", D=3, F=5) == 11
    with pytest.raises(AssertionError):
        Page("$$ 2D + F = F + D $$ (eq-a)").given(letters="D, F size").prove("eq-a")


def test_the_sides_whose_number_nobody_asks_for_need_not_be_read():
    sides = r"\begin{aligned} \|\mathbf{X}\| &\approx 3^{F} \quad\text{by hand} \\ &= 2^F \end{aligned}"
    one = Page(f"{TABLE} $$ {sides} $$ (eq-a)")
    assert one.given(letters="F size").number("eq-a", F=3) == 8
