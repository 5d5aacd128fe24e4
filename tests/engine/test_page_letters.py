"""Which letter a printed letter is: case and font, names that begin alike, letters of the running text."""

import numpy as np
import pytest

from handgrad.page import Page, Unreadable

WEIGHTS = r"With $p_j = x_j / \sum_r x_r$ every $p_j$ is a share. $$ \sum_j p_j = 1 $$ (eq-one)"
MEAN = r"$$ L = \frac1T \sum_i \ell_i $$ (eq-mean)"


def test_a_letter_alone_in_the_text_defines_nothing():
    Page(WEIGHTS).given("p_j", letters="x (T) > 0").prove("eq-one")
    with pytest.raises(Unreadable, match="found none"):
        Page(WEIGHTS).given("x_j", letters="x (T) > 0")


def test_the_values_of_an_array_are_given_by_its_name():
    for letters in ("", "ell (T)"):
        assert Page(MEAN).given(letters=letters).number("eq-mean", T=4, ell=np.arange(4.0)) == 1.5


def test_small_and_capital_letters_without_serifs_are_two():
    text = r"Let $\mathsf{c} = \mathsf{C}\mathsf{C}^\top$. $$ \mathsf{c}^\top = \mathsf{c} $$ (eq-c)"
    Page(text).given(r"\mathsf{c}", letters=r"\mathsf{C} (K, D)").prove("eq-c")
    wrong = text.replace(r"= \mathsf{c} $$", r"= \mathsf{c}\mathsf{c} $$")
    with pytest.raises(AssertionError):
        Page(wrong).given(r"\mathsf{c}", letters=r"\mathsf{C} (K, D)").prove("eq-c")


def test_a_function_with_an_index_is_no_definition():
    text = r"$$ \mathrm{split}(\mathbf{Z})_{htc} = z_{t,\, hK + c} $$ (eq-split)"
    with pytest.raises(Unreadable, match="expected a letter or a function"):
        Page(text).given("eq-split", letters="Z (T, HK)")


HEAD = Page(
    r"""$\mathsf{c} = \mathsf{Q}^\top\mathsf{K}/\sqrt K$ and $\mathsf{V} = \mathsf{C}\mathsf{X}$; in print is
$\mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}/\sqrt K$, and
$\mathrm{d}\mathsf{K} = \mathsf{Q}\,\mathrm{d}\mathsf{c}/\sqrt K$.

$$ \mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}^\top/\sqrt K $$ (eq-a)

$$ \mathrm{d}\mathsf{C} = \mathrm{d}\mathsf{V}\,\mathsf{X}^\top $$ (eq-b)
"""
)
SCORES = r"\mathsf{c} = \mathsf{Q}^\top\mathsf{K}/\sqrt K"
VALUES = r"\mathsf{V} = \mathsf{C}\mathsf{X}"


def test_a_capital_and_its_small_letter_are_two_letters_if_both_are_declared():
    letters = r"\mathsf{C} (K, D); \mathsf{X} (D, T); \mathsf{Q}, \mathsf{K} (K, T)"
    head = HEAD.given(SCORES, VALUES, letters=letters + r"; \mathsf{c} (T, T)", output=r"\mathsf{V}")
    head.prove("eq-b")


def test_a_wrong_formula_of_the_text_is_refused_and_a_right_one_is_not():
    head = HEAD.given(SCORES, letters=r"\mathsf{Q}, \mathsf{K} (K, T)")
    head.prove("eq-a")
    head.refuses(r"\mathrm{d}\mathsf{Q} = \mathsf{K}\,\mathrm{d}\mathsf{c}/\sqrt K")
    with pytest.raises(AssertionError, match="it is right"):
        head.refuses(r"\mathrm{d}\mathsf{K} = \mathsf{Q}\,\mathrm{d}\mathsf{c}/\sqrt K")
    with pytest.raises(Unreadable, match="expected one formula"):
        head.refuses(r"\mathrm{d}\mathsf{K} = 0")


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
